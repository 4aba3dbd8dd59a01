package load

import (
	"context"
	"errors"
	"time"

	"rollcall/client"
	"rollcall/operator/drill/judge"
)

// A holder reads its node readsPerTimeout times within a timeout, so that answers after the end of its session are
// seen. All holders together send at most maxHolderReads reads in a second.
const (
	readsPerTimeout = 8
	maxHolderReads  = 200
)

// holdSession has an ephemeral node, and reads it. At the end it writes to the node: the log then says whether the
// session and the node were there.
func (l *Load) holdSession(v *life) {
	node := holdFolder + "/" + v.seat.name + "-" + v.id
	every := max(l.cfg.Timeout/readsPerTimeout, time.Duration(l.cfg.Sessions)*time.Second/maxHolderReads)
	for !v.createNode(node) {
		if v.over() {
			return
		}
		v.pause(retryAfter)
	}
	for !v.over() {
		select {
		case <-v.seat.quit:
			v.abandon()
			return
		case <-time.After(every):
		case <-l.run.Done():
		}
		exists := false
		_, err := v.call(judge.Query, func(ctx context.Context) (err error) {
			_, exists, err = v.c.Exists(ctx, node)
			return err
		})
		if err == nil && !exists {
			v.checkNode(node)
		}
	}
	v.checkNode(node)
}

// createNode creates an ephemeral node that the observers look for. It reports whether it is there.
func (v *life) createNode(node string) bool {
	_, err := v.call(judge.Write, func(ctx context.Context) error {
		_, _, err := v.c.Create(ctx, node, nil, client.Ephemeral)
		return err
	})
	if err != nil && !isNodeExists(err) { // it exists if the reply to an earlier create was lost
		return false
	}
	v.seat.l.rec.nodeCreated(v, node)
	return true
}

// checkNode writes to the node. Servers check the session before the node.
func (v *life) checkNode(node string) {
	_, err := v.call(judge.Write, func(ctx context.Context) error {
		_, err := v.c.Set(ctx, node, nil, client.AnyVersion)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		v.seat.l.rec.nodeMissing(v)
	}
}
