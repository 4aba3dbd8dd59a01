package load

import (
	"context"
	"errors"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
)

// A holder reads its node readsPerTimeout times within a timeout, so that answers after the end of its session are
// seen. All holders together send at most maxHolderReads reads in a second.
const (
	readsPerTimeout = 8
	maxHolderReads  = 200
)

// holdSession has an ephemeral node, and reads it. At the end it writes to the node: the log then says whether the
// session and the node were there.
func (l *Load) holdSession(v *sessionLife) {
	node := sessionsParent + "/" + v.slot.name + "-" + v.id
	every := max(l.cfg.Timeout/readsPerTimeout, time.Duration(l.cfg.Sessions)*time.Second/maxHolderReads)
	for !v.createNode(node) {
		if v.isOver() {
			return
		}
		v.pauseFor(retryAfter)
	}
	for !v.isOver() {
		select {
		case <-v.slot.abandonRequests:
			v.client.Abandon() // its session is left to expire
			l.recorder.noteEnd(v, judge.Abandoned)
			return
		case <-time.After(every):
		case <-l.running.Done():
		}
		exists := false
		_, err := v.sendRequest(judge.Query, func(ctx context.Context) (err error) {
			_, exists, err = v.client.Exists(ctx, node)
			return err
		})
		if err == nil && !exists {
			v.checkNode(node)
		}
	}
	v.checkNode(node)
}

// createNode creates an ephemeral node that the observers watch for. It reports whether the node exists.
func (v *sessionLife) createNode(node string) bool {
	_, err := v.sendRequest(judge.Write, func(ctx context.Context) error {
		_, _, err := v.client.Create(ctx, node, nil, client.Ephemeral)
		return err
	})
	if err != nil && !isNodeExists(err) { // it exists if the reply to an earlier create was lost
		return false
	}
	v.slot.load.recorder.noteNodeCreated(v, node)
	return true
}

// checkNode writes to the node. Servers check the session before the node.
func (v *sessionLife) checkNode(node string) {
	_, err := v.sendRequest(judge.Write, func(ctx context.Context) error {
		_, err := v.client.Set(ctx, node, nil, client.AnyVersion)
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		v.slot.load.recorder.noteNodeMissing(v)
	}
}
