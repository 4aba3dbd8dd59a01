package queue

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// Element is an element that this client has taken. The Right is that to the element, and its node is the lock.
type Element struct {
	*client.Right
	queue   *Queue
	name    string
	lockID  string // the data of the lock, which no other lock has
	version int32  // of the element's node, while this client has it

	// Data is the item of the element. Elements that Curator's putMulti has put can have more Items, or none.
	Data  []byte
	Items [][]byte

	// Raw are the data of the node. If they are not in Curator's form, Malformed is the reason, and there are no Items.
	Raw       []byte
	Malformed error

	// Attempt is the number of times that the element was given, this one included. If it is high, its takers end before
	// they are done, perhaps because of the element.
	Attempt int
}

// Path returns the path of the element's node. That of the lock is Right.Path.
func (e *Element) Path() string { return e.queue.pathOf(e.name) }

// Release gives the element back, so that it is given again, and waits until the ensemble has done so. If ctx ends
// first, the Client continues to try as long as the session lives. The right has ended in any case.
//
// The locks of all takers of an element have one path. If another client has deleted this taker's lock, Release keeps a
// lock that another Queue has created there since. Curator's takers leave no trace in the element, so Release can
// delete a lock of Curator's that is created between the read of the lock and its deletion.
func (e *Element) Release(ctx context.Context) error {
	ctx, cancel := recipe.Outlast(ctx, e.Right)
	defer cancel()
	recipe.End(e.Right)
	err := reconnect.Finish(ctx, func() error { return e.queue.unlockElement(e.name, e.lockID) })
	return wrapError("give back", e.Path(), err)
}

// Guard carries out ops as one multi, but only if the client still has the element: see client.Right.Guard. ops must
// not change the element's node.
func (e *Element) Guard(ctx context.Context, ops ...client.Operation) ([]client.Result, error) {
	// Locks of all takers of an element have one path, but each taker has set the element once more.
	guarded := append([]client.Operation{client.CheckOp(e.Path(), e.version)}, ops...)
	results, err := e.Right.Guard(ctx, guarded...)
	if operation, ok := errors.AsType[*client.MultiError](err); ok {
		switch {
		case operation.Index > 0:
			operation.Index--
		case errors.Is(operation.Err, client.ErrBadVersion), errors.Is(operation.Err, client.ErrNoNode):
			recipe.End(e.Right)
			return nil, wrapError("guard", e.Path(), client.ErrNotHeld)
		default:
			return nil, wrapError("guard", e.Path(), operation.Err)
		}
	}
	return results[min(1, len(results)):], err
}

// Done deletes the element, and carries out ops in the same transaction: all of it happens, or nothing. It does so
// once, although a reply is lost. The results are those of ops; they are nil if the reply was lost.
//
// If one of ops fails, the error is that of Client.Multi, and the client still has the element. The error is
// client.ErrNotHeld, and nothing was carried out, if the client does not have the element any more.
func (e *Element) Done(ctx context.Context, ops ...client.Operation) ([]client.Result, error) {
	if !e.Held() {
		return nil, wrapError("end", e.Path(), client.ErrNotHeld)
	}
	all := append(ops[:len(ops):len(ops)], client.DeleteOp(e.Path(), e.version),
		client.DeleteOp(e.Right.Path(), client.AnyVersion))
	outcome, err := e.queue.receipts.Do(ctx, all...)
	if err != nil {
		operation, isMulti := errors.AsType[*client.MultiError](err)
		if isMulti && operation.Index >= len(ops) && operation.Index < len(all) {
			recipe.End(e.Right)
			err = fmt.Errorf("%w: %w", client.ErrNotHeld, err)
		}
		return nil, wrapError("end", e.Path(), err)
	}
	recipe.End(e.Right)
	if outcome.Results == nil {
		return nil, nil
	}
	return outcome.Results[:len(ops)], nil
}
