package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/client/recipe"
	"rollcall/zk/jute"
)

var multiFolders = []string{"/multi/a", "/multi/b", "/multi/c"}

func (c *lockClient) multi() *lock.Multi { return lock.NewMulti(c.Client, multiFolders, lock.Config{}) }

// All locks are taken, or none, whichever request the connection breaks at.
func TestMultiBrokenConnection(t *testing.T) {
	eachLockFault(t, 1, client.Config{}, func(s *lockServers, subject *lockClient) {
		other := s.client()
		busy, err := lock.NewMutex(other.Client, multiFolders[1], lock.Config{}).Lock(s.ctx)
		s.must(err)
		_, err = subject.multi().TryLock(s.ctx)
		s.wantError(err, lock.ErrBusy)
		done := async(func() error {
			right, err := subject.multi().Lock(s.ctx)
			if err != nil {
				return err
			}
			if !right.Held() || len(right.Tokens()) != len(multiFolders) || right.Token() != right.Tokens()[0] {
				s.Errorf("held %v, tokens %v", right.Held(), right.Tokens())
			}
			return right.Release(s.ctx)
		})
		time.Sleep(lockTimeout / 2)
		if !isWaiting(done) {
			s.Fatal("two hold a lock")
		}
		s.must(busy.Release(s.ctx))
		s.must(<-done)
		for _, folder := range multiFolders {
			s.wantEmpty(other, folder)
		}
	})
}

// The right to all locks ends with the first one that is lost, and its guard checks each.
func TestMultiLosesOne(t *testing.T) {
	for lost := range multiFolders {
		withLockServers(t, 1, func(s *lockServers) {
			c, other := s.client(), s.client()
			right, err := c.multi().Lock(s.ctx)
			s.must(err)
			results, err := right.Guard(s.ctx, client.CreateOp("/a", nil, client.Persistent))
			if err != nil || len(results) != 1 || results[0].Path != "/a" {
				t.Fatalf("the results are %+v, %v", results, err)
			}
			create := func(path string) client.Operation { return client.CreateOp(path, nil, client.Persistent) }
			_, err = right.Guard(s.ctx, create("/b"), create("/a"))
			failed, ok := errors.AsType[*client.MultiError](err)
			if !ok || failed.Index != 1 || !errors.Is(err, client.ErrNodeExists) {
				t.Fatalf("the error is %v", err)
			}
			ctx, cancel := right.Context(s.ctx)
			defer cancel()
			called := make(chan struct{})
			right.OnLost(func() { close(called) })
			names := s.children(other, multiFolders[lost])
			s.must(other.Delete(s.ctx, multiFolders[lost]+"/"+names[0], client.AnyVersion))
			_, err = right.Guard(s.ctx, client.CreateOp("/c", nil, client.Persistent))
			s.wantError(err, client.ErrNotHeld)
			if !isLost(right.Lost()) || !isLost(called) || right.Held() || !errors.Is(context.Cause(ctx), client.ErrNotHeld) {
				t.Error("the right has not ended")
			}
			s.must(right.Release(s.ctx))
			for _, folder := range multiFolders {
				s.wantEmpty(other, folder)
			}
		})
	}
}

// A client that loses one lock while it waits for another gets none.
func TestMultiLosesOneWhileWaiting(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		busy, err := lock.NewMutex(other.Client, multiFolders[2], lock.Config{}).Lock(s.ctx)
		s.must(err)
		done := async(func() error { _, err := c.multi().Lock(s.ctx); return err })
		settle()
		names := s.children(other, multiFolders[0])
		s.must(other.Delete(s.ctx, multiFolders[0]+"/"+names[0], client.AnyVersion))
		s.wantError(<-done, client.ErrNotHeld)
		s.must(busy.Release(s.ctx))
		for _, folder := range multiFolders {
			s.wantEmpty(other, folder)
		}
	})
}

// A Multi must have parents.
func TestMultiWithoutFolders(t *testing.T) {
	if _, err := lock.NewMulti(nil, nil, lock.Config{}).Lock(t.Context()); err == nil {
		t.Error("a Multi without folders was locked")
	}
}

// The holder of a revocable lock learns that another client wants it, whichever request its connection breaks at.
func TestRevocable(t *testing.T) {
	revocableOutlivesFaults(t, client.Config{})
}

// The same for a Client whose calls fail while it is suspended.
func TestRevocableImpatient(t *testing.T) {
	revocableOutlivesFaults(t, client.Config{WhileSuspended: client.Fail})
}

func revocableOutlivesFaults(t *testing.T, cfg client.Config) {
	eachLockFault(t, 1, cfg, func(s *lockServers, subject *lockClient) {
		other := s.client()
		revocable := lock.NewRevocable(other.Client, folder, lock.Config{})
		s.must(revocable.Revoke(s.ctx)) // no client holds it
		right, err := lock.NewRevocable(subject.Client, folder, lock.Config{Data: []byte("x")}).Lock(s.ctx)
		s.must(err)
		done := async(func() error {
			_, err := lock.NewRevocable(other.Client, folder, lock.Config{}).Lock(s.ctx)
			return err
		})
		time.Sleep(lockTimeout / 2)
		_, err = other.Set(s.ctx, right.Path(), []byte("y"), client.AnyVersion) // no request
		s.must(err)
		if isLost(right.Revoked()) {
			s.Error("the lock was revoked without a request")
		}
		s.must(revocable.Revoke(s.ctx))
		<-right.Revoked()
		if !right.Held() || !isWaiting(done) {
			s.Error("a request has ended the right")
		}
		s.must(right.Release(s.ctx))
		s.must(<-done)
	})
}

// A connection that breaks at a request to revoke does not matter, and a right that ends is not revoked.
func TestRevoke(t *testing.T) {
	eachLockFault(t, 1, client.Config{WhileSuspended: client.Fail}, func(s *lockServers, subject *lockClient) {
		right, err := lock.NewRevocable(s.client().Client, folder, lock.Config{}).TryLock(s.ctx)
		s.must(err)
		s.must(lock.NewRevocable(subject.Client, folder, lock.Config{}).Revoke(s.ctx))
		<-right.Revoked()
		s.must(right.Release(s.ctx))
		next, err := lock.NewRevocable(s.client().Client, folder, lock.Config{}).TryLock(s.ctx)
		s.must(err)
		s.must(next.Release(s.ctx))
		if isLost(next.Revoked()) {
			s.Error("the end of a right counts as a request")
		}
	})
}

// A request to revoke that comes when its holder has just released the lock does nothing. The next holder does not get
// it.
func TestRevokeComesTooLate(t *testing.T) {
	inScene(t, func(s *scene) {
		right, err := lock.NewRevocable(s.client(), folder, lock.Config{}).Lock(s.ctx)
		s.check(err)
		var next *lock.RevocableRight
		waiter := s.client()
		waiting := async(func() (err error) {
			next, err = lock.NewRevocable(waiter, folder, lock.Config{}).Lock(s.ctx)
			return err
		})
		s.awaitSettled()
		late := s.clientThat(func(frame []byte) []byte {
			if headerOf(frame).Op == jute.OpSetData { // the request, after the search for the holder
				if err := right.Release(s.ctx); err != nil {
					t.Error(err)
				}
			}
			return frame
		})
		s.check(lock.NewRevocable(late, folder, lock.Config{}).Revoke(s.ctx))
		s.check(<-waiting)
		if right.Held() || isLost(next.Revoked()) || isLost(right.Revoked()) {
			t.Error("the first holder has not released the lock, or a holder was asked")
		}
		s.check(next.Release(s.ctx))
	})
}

// A guard of a right to several locks that the client may not carry out is an error, and the right stays the client's.
func TestMultiGuardNotAllowed(t *testing.T) {
	for _, unreadable := range multiFolders[:2] {
		inScene(t, func(s *scene) {
			c := s.client()
			right, err := lock.NewMulti(c, multiFolders, lock.Config{}).Lock(s.ctx)
			s.check(err)
			s.check(errorOf(c.SetACL(s.ctx, unreadable+"/"+s.children(unreadable)[0], ownersACL, client.AnyVersion)))
			results, err := right.Guard(s.ctx, client.CreateOp("/guarded", nil, client.Persistent))
			s.want(err, client.ErrNoAuth)
			if _, isMulti := errors.AsType[*client.MultiError](err); isMulti || results != nil || !right.Held() {
				s.t.Errorf("guard: %v, %v, held %t; the error must not name an operation of the caller", results, err, right.Held())
			}
			s.check(right.Release(s.ctx))
		})
	}
}

// A holder that got a request to revoke has no watch when its right has ended, although its node is still there.
func TestRevokedLeavesNoWatch(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		before := s.watchCount()
		revocable := lock.NewRevocable(c, folder, lock.Config{})
		right, err := revocable.Lock(s.ctx)
		s.check(err)
		s.check(revocable.Revoke(s.ctx))
		<-right.Revoked()
		recipe.End(right.Right)
		s.awaitSettled()
		if now := s.watchCount(); now != before {
			s.t.Errorf("%s watches are left, want %s", now, before)
		}
		s.check(right.Release(s.ctx))
	})
}

// A right to several locks has ended when a guard finds that one is lost, before the event of that comes.
func TestMultiGuardFindsLoss(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		right, err := c.multi().Lock(s.ctx)
		s.must(err)
		ctx, cancel := right.Context(s.ctx)
		cancel()
		if !isLost(ctx.Done()) || isLost(right.Lost()) || !errors.Is(context.Cause(ctx), context.Canceled) {
			t.Errorf("a context that is not needed any more: %v", context.Cause(ctx))
		}
		names := s.children(other, multiFolders[1])
		s.must(s.DelayReply(c.id(), 1, time.Second))
		exists := async(func() error { _, _, err := c.Exists(s.ctx, "/"); return err })
		synctest.Wait()
		s.must(other.Delete(s.ctx, multiFolders[1]+"/"+names[0], client.AnyVersion))
		_, err = right.Guard(s.ctx, client.CreateOp("/late", nil, client.Persistent))
		s.wantError(err, client.ErrNotHeld)
		if right.Held() || !isLost(right.Lost()) {
			t.Error("the right is held")
		}
		s.must(<-exists)
		s.must(right.Release(s.ctx))
	})
}
