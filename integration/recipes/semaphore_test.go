package recipes

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
)

// semaphore returns the semaphore of the tests for a client.
func (s *lockServers) semaphore(c *lockClient, cfg lock.SemaphoreConfig) *lock.Semaphore {
	s.Helper()
	semaphore, err := lock.NewSemaphore(c.Client, folder, cfg)
	s.must(err)
	return semaphore
}

// No more clients than permits hold a semaphore, they get it in order, and each release wakes one.
func TestSemaphore(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		const permits, clients = 3, 20
		var holders, lists atomic.Int32
		order := make(chan int, clients)
		var done []<-chan error
		for i := range clients {
			semaphore := s.semaphore(s.client(), lock.SemaphoreConfig{Permits: permits})
			done = append(done, async(func() error {
				right, err := semaphore.Acquire(s.ctx)
				if err != nil {
					return err
				}
				if n := holders.Add(1); n > permits {
					t.Errorf("%d hold %d permits", n, permits)
				}
				order <- i
				time.Sleep(time.Minute)
				holders.Add(-1)
				return right.Release(s.ctx)
			}))
			time.Sleep(time.Second)
		}
		s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if strings.HasPrefix(r.Op, "getChildren") {
				lists.Add(1)
			}
			return rollcalltest.Verdict{}
		})
		if n := holders.Load(); n != permits {
			t.Errorf("%d hold %d permits", n, permits)
		}
		for i := range clients {
			s.must(<-done[i])
			if next := <-order; next != i {
				t.Errorf("%d got a permit, want %d", next, i)
			}
		}
		if n := lists.Load(); n > 4*clients {
			t.Errorf("%d clients made %d lists", clients, n)
		}
		s.wantEmpty(s.client(), folder+"/leases")
		s.wantEmpty(s.client(), folder+"/locks")
	})
}

// A connection that breaks at any request leaves no node, and no permit is lost.
func TestSemaphoreBrokenConnection(t *testing.T) {
	for _, policy := range []client.SuspendedPolicy{client.Wait, client.Fail} {
		eachLockFault(t, 1, client.Config{WhileSuspended: policy}, func(s *lockServers, subject *lockClient) {
			other := s.client()
			_, _, err := other.Create(s.ctx, "/permits", []byte{0, 0, 0, 1}, client.Persistent)
			s.must(err)
			cfg := lock.SemaphoreConfig{PermitsPath: "/permits"}
			first, err := s.semaphore(other, cfg).Acquire(s.ctx)
			s.must(err)
			var right *client.Right
			done := async(func() (err error) { right, err = s.semaphore(subject, cfg).Acquire(s.ctx); return err })
			time.Sleep(lockTimeout / 2)
			if !isWaiting(done) {
				s.Fatal("two have one permit", <-done)
			}
			s.must(first.Release(s.ctx))
			s.must(<-done)
			_, err = s.semaphore(other, cfg).TryAcquire(s.ctx)
			s.wantError(err, lock.ErrBusy)
			s.must(right.Release(s.ctx))
			time.Sleep(lockTimeout / 2)
			last, err := s.semaphore(other, cfg).TryAcquire(s.ctx)
			s.must(err)
			s.must(last.Release(s.ctx))
			s.wantEmpty(other, folder+"/leases")
			s.wantEmpty(other, folder+"/locks")
		})
	}
}

// The number of permits can change while clients wait. A caller that gives up leaves no node.
func TestSemaphorePermitsChange(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.client()
		cfg := lock.SemaphoreConfig{PermitsPath: "/permits"}
		_, err := s.semaphore(c, cfg).Acquire(s.ctx)
		s.wantError(err, client.ErrNoNode)
		_, _, err = c.Create(s.ctx, "/permits", []byte("many"), client.Persistent)
		s.must(err)
		setPermits := func(n byte) {
			t.Helper()
			_, err := c.Set(s.ctx, "/permits", []byte{0, 0, 0, n}, client.AnyVersion)
			s.must(err)
		}
		_, err = c.Set(s.ctx, "/permits", []byte("3"), client.AnyVersion)
		s.must(err)
		if _, err = s.semaphore(c, cfg).Acquire(s.ctx); err == nil {
			t.Error("a number of one byte was accepted")
		}
		setPermits(1)
		first, err := s.semaphore(c, cfg).Acquire(s.ctx)
		s.must(err)
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		_, err = s.semaphore(s.client(), cfg).Acquire(ctx)
		s.wantError(err, context.DeadlineExceeded)
		var second *client.Right
		waiter := s.semaphore(s.client(), cfg)
		done := async(func() (err error) { second, err = waiter.Acquire(s.ctx); return err })
		settle()
		if names := s.children(c, folder+"/leases"); len(names) != 2 {
			t.Errorf("the leases are %q", names)
		}
		setPermits(2)
		s.must(<-done)
		setPermits(1)
		s.must(first.Release(s.ctx))
		_, err = s.semaphore(c, cfg).TryAcquire(s.ctx)
		s.wantError(err, lock.ErrBusy)
		s.must(second.Release(s.ctx))
		third, err := s.semaphore(c, cfg).TryAcquire(s.ctx)
		s.must(err)
		s.must(third.Release(s.ctx))
	})
}

// A Semaphore must have permits.
func TestSemaphoreWithoutPermits(t *testing.T) {
	if _, err := lock.NewSemaphore(nil, folder, lock.SemaphoreConfig{}); err == nil {
		t.Error("a semaphore without permits was accepted")
	}
}

// A number of permits of another length is an error, and leaves no watch.
func TestSemaphoreMalformedPermits(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		s.create(c, "/permits")
		semaphore, err := lock.NewSemaphore(c, folder, lock.SemaphoreConfig{PermitsPath: "/permits"})
		s.check(err)
		before := s.watchCount()
		if _, err := semaphore.Acquire(s.ctx); err == nil || !strings.Contains(err.Error(), "/permits has 0 bytes") {
			t.Errorf("the error is %v", err)
		}
		s.awaitSettled()
		if now := s.watchCount(); now != before {
			t.Errorf("%s watches are left, want %s", now, before)
		}
	})
}

// A change that makes no more permits wakes no waiter up for good.
func TestSemaphorePermitsSetAgain(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, operator := s.client(), s.client()
		_, _, err := operator.Create(s.ctx, "/permits", []byte{0, 0, 0, 1}, client.Persistent)
		s.must(err)
		cfg := lock.SemaphoreConfig{PermitsPath: "/permits"}
		first, err := s.semaphore(operator, cfg).Acquire(s.ctx)
		s.must(err)
		semaphore := s.semaphore(c, cfg)
		done := async(func() error {
			_, err := semaphore.Acquire(s.ctx)
			return err
		})
		for range 3 {
			time.Sleep(lockTimeout / 2)
			_, err = operator.Set(s.ctx, "/permits", []byte{0, 0, 0, 1}, client.AnyVersion)
			s.must(err)
		}
		time.Sleep(lockTimeout / 2)
		if !isWaiting(done) {
			s.Fatal("two hold one permit")
		}
		s.must(first.Release(s.ctx))
		s.must(<-done)
	})
}
