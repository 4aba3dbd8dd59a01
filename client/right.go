package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrNotHeld means that a Right has ended: nothing was carried out.
var ErrNotHeld = errors.New("the right is no longer held")

// Token is a fencing token: a number that grows with every holder of a right. A store that keeps the greatest token it
// has seen, and rejects smaller ones, is safe from a holder that does not know yet that it lost the right. The package
// fence helps stores to do that.
type Token int64

// Right is something that a session holds while one of its ephemeral nodes exists: a lock, or a leadership. It is safe
// for concurrent use.
//
// A Right ends when it is released, when another client deletes its node, and when the Client may no longer act on its
// session. The ensemble never gives the right to another session before that.
//
// A Right that has ended by itself must be released as well: if its session lives on, so does its node, and others wait
// for it.
type Right struct {
	c       *Client
	path    string
	token   Token
	created Zxid            // of the node
	over    context.Context // ends when the Right has ended
	end     context.CancelFunc

	// watching ends when the watch of the node is not needed any more. While Release deletes the node it is: the
	// deletion fires the watch, which saves its removal.
	watching  context.Context
	stopWatch context.CancelFunc
}

// newProvenRight returns the right that stands for an ephemeral node, for recipe.NewRightWithToken.
func newProvenRight(c *Client, path string, stat Stat, token Token) *Right {
	r := newRight(c, path, stat.Created, token)
	stop := c.session.Right().AfterProvenEnd(r.leaveNode) // at once: Held must not be true after it
	go func() {
		defer stop()
		r.watchNode()
	}()
	return r
}

// newRight returns a Right that nothing ends.
func newRight(c *Client, path string, created Zxid, token Token) *Right {
	r := &Right{c: c, path: path, created: created, token: token}
	r.over, r.end = context.WithCancel(context.Background())
	r.watching, r.stopWatch = context.WithCancel(context.Background())
	return r
}

// watchNode ends the Right when its node is gone. It returns when the Right has ended, and its node is deleted or left.
func (r *Right) watchNode() {
	defer r.stopWatch()
	defer r.end()
	for r.over.Err() == nil { // a right that is given up at once needs no watch
		stat, exists, watch, err := r.c.ExistsWatch(r.watching, r.path)
		if errors.Is(err, ErrSuspended) || errors.Is(err, ErrConnectionLost) {
			err = r.c.AwaitConnected(r.watching)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return
		}
		if !exists || !standsFor(r.c, stat, r.created) { // another session may have made a node at its path
			watch.Stop()
			return
		}
		select {
		case event := <-watch.Fired:
			if event.Type == NodeDeleted {
				return
			}
		case <-r.watching.Done():
			watch.Stop()
			return
		}
	}
}

// Held reports whether the right is held at this moment. If it returns true, the ensemble had given the right to no
// other client when Held was called. Once it has returned false, it always does.
func (r *Right) Held() bool {
	if r.over.Err() != nil {
		return false
	}
	if !r.c.Held() {
		r.leaveNode() // now, because a timer would do so later, and the session may be proven before
		return false
	}
	return true
}

// Token returns the fencing token. It is the zxid of the transaction that created the node, or that created the node
// whose place this one has taken.
func (r *Right) Token() Token { return r.token }

// Path returns the path of the node that the right stands for.
func (r *Right) Path() string { return r.path }

// Lost returns a channel that is closed when the right has ended. That can come late, as AfterRight can: call Held
// before each act, or use Guard.
func (r *Right) Lost() <-chan struct{} { return r.over.Done() }

// OnLost arranges that f is called, once, in a goroutine of its own, when the right has ended. If it has ended, f is
// called at once. stop cancels that, and reports whether it did so before the call.
func (r *Right) OnLost(f func()) (stop func() bool) { return context.AfterFunc(r.over, f) }

// Context returns a context that ends with parent, and when the right has ended; its cause is then ErrNotHeld. The
// caller calls cancel when the context is no longer needed, as for context.WithCancel.
func (r *Right) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	stop := r.OnLost(func() { end(ErrNotHeld) })
	return ctx, func() {
		stop()
		end(context.Canceled)
	}
}

// Guard carries out ops as one multi, but only if the right is still held: the ensemble checks that its node exists, in
// the same transaction. If the right has ended, the error is ErrNotHeld, and nothing was carried out; after Close it is
// an ErrClosed, too. The results are those of ops. At a path that another session can create again, that node passes the
// check too: see recipe.NewRight.
func (r *Right) Guard(ctx context.Context, ops ...Operation) ([]Result, error) {
	if !r.Held() {
		return nil, fmt.Errorf("client: guard of %s: %w", r.path, r.notHeld())
	}
	guarded := append([]Operation{CheckOp(r.path, AnyVersion)}, ops...)
	results, err := r.c.Multi(ctx, guarded...)
	if failed, ok := errors.AsType[*MultiError](err); ok {
		switch {
		case failed.Index > 0:
			failed.Index--
		case errors.Is(failed.Err, ErrNoNode):
			r.leaveNode()
			return nil, fmt.Errorf("client: guard of %s: %w", r.path, ErrNotHeld)
		default: // such as ErrNoAuth: no operation of the caller's has failed
			return nil, fmt.Errorf("client: guard: check of %s: %w", r.path, failed.Err)
		}
	}
	if len(results) > 0 {
		results = results[1:]
	}
	if err != nil {
		err = fmt.Errorf("client: guard of %s: %w", r.path, err)
	}
	return results, err
}

// notHeld returns ErrNotHeld, which is an ErrClosed too if the Client has been closed.
func (r *Right) notHeld() error {
	if r.c.State().State == Closed {
		return fmt.Errorf("%w: %w", ErrNotHeld, ErrClosed)
	}
	return ErrNotHeld
}

// outlast is recipe.Outlast.
func (r *Right) outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	apart, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), ErrNotHeld) && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			cancel() // apart has the same deadline, and then says so
		}
	})
	end := func() { stop(); cancel() }
	deadline, ok := ctx.Deadline()
	if !ok {
		return apart, end
	}
	apart, cancelTimer := context.WithDeadline(apart, deadline)
	return apart, func() { cancelTimer(); end() }
}

// leaveNode is recipe.End: it ends the Right and leaves its node.
func (r *Right) leaveNode() {
	r.end()
	r.stopWatch()
}

// Release gives the right up and waits until the ensemble has done so. If ctx ends first, the Client continues to try
// as long as the session lives. The right has ended in any case.
func (r *Right) Release(ctx context.Context) error {
	ctx, cancel := r.outlast(ctx)
	defer cancel()
	mayBeGone := r.over.Err() != nil
	r.end()
	done := make(chan error, 1)
	go func() {
		err := r.deleteNode(mayBeGone)
		if err != nil {
			r.stopWatch() // nothing will fire it
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("client: release %s: %w; it is tried again until the session ends", r.path, ctx.Err())
	}
}

// deleteNode deletes the node. It tries until it is gone or the session has ended, which deletes it too. A node that
// another session has made at its path meanwhile stays. mayBeGone is set if the node may be deleted already.
func (r *Right) deleteNode(mayBeGone bool) error {
	ctx := context.Background() // the session's end ends all calls
	for {
		gone, err := false, r.c.AwaitConnected(ctx)
		if err == nil && mayBeGone {
			gone, err = r.isGone(ctx)
		}
		if err == nil && !gone {
			err = r.c.Delete(ctx, r.path, AnyVersion)
			mayBeGone = mayBeGone || MayHaveHappened(err)
		}
		switch {
		case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):
			continue
		case errors.Is(err, ErrReadOnly):
			if err = awaitWritable(ctx, r.c); err == nil {
				continue
			}
		}
		if errors.Is(err, ErrNoNode) || errors.Is(err, ErrExpired) {
			return nil
		}
		return err
	}
}

// isGone reports whether the node is deleted, as of now: requests that were sent before are carried out, or never will
// be.
func (r *Right) isGone(ctx context.Context) (bool, error) {
	if err := r.c.Sync(ctx); err != nil {
		return false, err
	}
	stat, exists, err := r.c.Exists(ctx, r.path)
	return err == nil && (!exists || !standsFor(r.c, stat, r.created)), err
}

// Held reports whether the Client may act on its session at this moment: see Rights in the package's comment.
func (c *Client) Held() bool { return c.Remaining() > 0 }

// Remaining returns for how long the Client may still act on its session if it hears nothing more from the
// ensemble. It is at most the timeout, and 0 if it may not.
func (c *Client) Remaining() time.Duration { return c.session.Right().Remaining() }

// proveRight is recipe.Prove.
func proveRight(ctx context.Context, c *Client) error {
	if c.session.Right().IsProven() {
		return nil
	}
	return c.Sync(ctx)
}

// AfterRight arranges that f is called once, in a goroutine of its own, when the Client's right to act on its session
// has ended: because nothing was heard from the ensemble in time, or because the session has ended. stop cancels
// that, and reports whether it did so before the call. If the right has already ended, f is called at once.
//
// The call can come late: while a process is stopped, so are its timers. Held is exact.
func (c *Client) AfterRight(f func()) (stop func() bool) {
	return c.session.Right().AfterEnd(func() { go f() })
}
