package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
)

// Multi is several mutexes that a client locks together: all of them, or none. It is safe for concurrent use.
//
// It locks them in the order in which they are given, and releases them in reverse. Clients that lock the same mutexes
// in different orders can wait for each other for ever: use one order everywhere, and a ctx with a deadline.
type Multi struct {
	c       *client.Client
	mutexes []*Mutex
}

// NewMulti returns one lock that consists of a mutex for each parent. It sends no request.
func NewMulti(c *client.Client, parents []string, cfg Config) *Multi {
	m := &Multi{c: c}
	for _, parent := range parents {
		m.mutexes = append(m.mutexes, NewMutex(c, parent, cfg))
	}
	return m
}

// errNoMutex is the error of a Multi without mutexes.
var errNoMutex = errors.New("lock: a Multi must have at least one parent")

// Lock waits, until ctx ends, for all locks, and returns the right to them. If one of them is lost while it waits for
// the others, the error is client.ErrNotHeld.
func (m *Multi) Lock(ctx context.Context) (*MultiRight, error) { return m.acquireRight(ctx, waits) }

// TryLock returns the right to all locks if all are free. Otherwise the error is ErrBusy.
func (m *Multi) TryLock(ctx context.Context) (*MultiRight, error) {
	return m.acquireRight(ctx, givesUp)
}

func (m *Multi) acquireRight(ctx context.Context, p patience) (*MultiRight, error) {
	if len(m.mutexes) == 0 {
		return nil, errNoMutex
	}
	for i, mutex := range m.mutexes {
		if slices.ContainsFunc(m.mutexes[:i], func(other *Mutex) bool { return other.cfg.Parent == mutex.cfg.Parent }) {
			return nil, fmt.Errorf("lock: duplicate parent %s: the Multi would wait for itself", mutex.cfg.Parent)
		}
	}
	right := &MultiRight{}
	right.ended, right.endRight = context.WithCancel(context.Background())
	whileHeld := ctx
	for _, mutex := range m.mutexes {
		one, err := mutex.acquireRight(whileHeld, p)
		if err == nil && !right.areAllHeld() {
			err = client.ErrNotHeld
		}
		if one != nil {
			right.rights = append(right.rights, one)
			var cancel context.CancelFunc
			whileHeld, cancel = one.Context(whileHeld)
			defer cancel()
		}
		if err != nil {
			if cause := context.Cause(whileHeld); errors.Is(cause, client.ErrNotHeld) {
				err = fmt.Errorf("lock: lost another lock while waiting for %s: %w", mutex.cfg.Parent, cause)
			}
			go func() { _ = right.Release(context.Background()) }() // ends with the session at the latest
			return nil, err
		}
	}
	for _, one := range right.rights {
		one.OnLost(right.endRight)
	}
	return right, nil
}

// MultiRight is the right to all locks of a Multi. It is held while all of them are. It has the methods of a
// client.Right, and is safe for concurrent use.
type MultiRight struct {
	rights   []*client.Right // in the order of the parents
	ended    context.Context // ends when one of the rights has ended
	endRight context.CancelFunc
}

func (r *MultiRight) areAllHeld() bool {
	return !slices.ContainsFunc(r.rights, func(one *client.Right) bool { return !one.Held() })
}

// Held reports whether all locks are held at this moment. See client.Right.Held.
func (r *MultiRight) Held() bool { return r.ended.Err() == nil && r.areAllHeld() }

// Token returns the fencing token of the first lock. It orders all holders of that lock.
func (r *MultiRight) Token() client.Token { return r.rights[0].Token() }

// Tokens returns the fencing tokens of all locks, in the order of the parents. A store that belongs to one of the locks
// must check that lock's token.
func (r *MultiRight) Tokens() []client.Token {
	tokens := make([]client.Token, len(r.rights))
	for i, one := range r.rights {
		tokens[i] = one.Token()
	}
	return tokens
}

// Lost returns a channel that is closed when one of the locks is lost or released. See client.Right.Lost.
func (r *MultiRight) Lost() <-chan struct{} { return r.ended.Done() }

// OnLost calls f once, in a goroutine of its own, when one of the locks is lost or released. If that has happened
// already, it calls f at once. stop cancels the call, and reports whether it did so before f was called.
func (r *MultiRight) OnLost(f func()) (stop func() bool) { return context.AfterFunc(r.ended, f) }

// Context returns a context that ends with parent, and when one of the locks is lost or released; its cause is then
// client.ErrNotHeld. The caller calls cancel when the context is no longer needed.
func (r *MultiRight) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	stop := r.OnLost(func() { end(client.ErrNotHeld) })
	return ctx, func() {
		stop()
		end(context.Canceled)
	}
}

// Guard carries out ops as one multi, but only if all locks are still held. See client.Right.Guard.
func (r *MultiRight) Guard(ctx context.Context, ops ...client.Operation) ([]client.Result, error) {
	var guarded []client.Operation
	for _, other := range r.rights[1:] {
		guarded = append(guarded, client.CheckOp(other.Path(), client.AnyVersion))
	}
	checks := len(guarded)
	if !r.Held() {
		return nil, fmt.Errorf("lock: guard: %w", client.ErrNotHeld)
	}
	results, err := r.rights[0].Guard(ctx, append(guarded, ops...)...)
	if failed, ok := errors.AsType[*client.MultiError](err); ok {
		switch {
		case failed.Index >= checks:
			failed.Index -= checks
		case errors.Is(failed.Err, client.ErrNoNode):
			r.endRight()
			return nil, fmt.Errorf("lock: guard: %s: %w", failed.Path, client.ErrNotHeld)
		default: // such as client.ErrNoAuth: no operation of the caller's has failed
			return nil, fmt.Errorf("lock: guard: check of %s: %w", failed.Path, failed.Err)
		}
	}
	return results[min(checks, len(results)):], err
}

// Release releases all locks, the last one first, and waits until the ensemble has done so. If ctx ends first, it is
// tried again in the background, as long as the session lives. The right has ended in any case.
func (r *MultiRight) Release(ctx context.Context) error {
	r.endRight()
	var errs []error
	for _, one := range slices.Backward(r.rights) {
		errs = append(errs, one.Release(ctx))
	}
	return errors.Join(errs...)
}
