package load

import (
	"context"
	"errors"
	"fmt"
	"path"

	"rollcall/client"
	"rollcall/lab/judge"
)

// maxPerParent limits the sequential nodes below one parent, so that a list of them stays below a frame of 1 MiB.
const maxPerParent = 5000

// writer creates sequential nodes, and sets a shared key in turn.
type writer struct {
	number    int
	keyWriter keyWriter
	created   int
	parent    string // of the present nodes
}

func (w *writer) writeUntilOver(v *sessionLife) {
	for ; !v.isOver(); v.pauseFor(2 * v.slot.load.cfg.Interval) {
		w.keyWriter.writeNext(v)
		if v.isOver() || !v.slot.load.recorder.mayCreate() {
			continue
		}
		if w.created%maxPerParent == 0 && !w.createParent(v) {
			continue
		}
		w.createNode(v)
	}
}

// createParent creates the parent for the next nodes. It reports whether it exists.
func (w *writer) createParent(v *sessionLife) bool {
	parent := fmt.Sprintf("%s/%d-%d", createParent, w.number, w.created/maxPerParent)
	_, err := v.sendRequest(judge.Write, func(ctx context.Context) error {
		_, _, err := v.client.Create(ctx, parent, nil, client.Persistent)
		return err
	})
	if err != nil && !isNodeExists(err) {
		return false
	}
	if w.parent != parent {
		w.parent = parent
		l := v.slot.load
		l.mu.Lock()
		defer l.mu.Unlock()
		l.createdParents = append(l.createdParents, parent)
	}
	return true
}

// createNode creates one node, once, and keeps the outcome.
func (w *writer) createNode(v *sessionLife) {
	c := judge.Create{ID: fmt.Sprintf("%d-%06d-", w.number, w.created+1), Session: v.id}
	answer, err := v.sendRequest(judge.Write, func(ctx context.Context) error {
		created, _, err := v.client.Create(ctx, w.parent+"/"+c.ID, []byte(c.ID), client.PersistentSequential)
		c.Name = path.Base(created)
		return err
	})
	if errors.Is(err, client.ErrSuspended) {
		return // it was not sent
	}
	w.created++
	c.Sent, c.At, c.Outcome = answer.Sent, answer.At, outcomeOf(err)
	v.slot.load.recorder.noteCreate(c)
}
