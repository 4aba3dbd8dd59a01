package recipes

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/rollcalltest"
)

// Clients that try at the same time all get permits while there are some.
func TestTryAcquireTogether(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		const permits, clients, tries = 100, 16, 10
		var busy atomic.Int32
		var all sync.WaitGroup
		for range clients {
			semaphore := s.semaphore(s.client(), lock.SemaphoreConfig{Permits: permits})
			all.Go(func() {
				for range tries {
					right, err := semaphore.TryAcquire(s.ctx)
					if errors.Is(err, lock.ErrBusy) {
						busy.Add(1)
						continue
					}
					s.must(err)
					s.must(right.Release(s.ctx))
				}
			})
		}
		all.Wait()
		if n := busy.Load(); n != 0 {
			t.Errorf("%d of %d tries found no permit of %d", n, clients*tries, permits)
		}
	})
}

// Of clients that try at the same time for too few permits, as many get one as there are permits.
func TestTryAcquireTooFew(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		const permits, clients = 3, 10
		var got atomic.Int32
		var all sync.WaitGroup
		for range clients {
			semaphore := s.semaphore(s.client(), lock.SemaphoreConfig{Permits: permits})
			all.Go(func() {
				_, err := semaphore.TryAcquire(s.ctx)
				if err == nil {
					got.Add(1)
				} else {
					s.wantError(err, lock.ErrBusy)
				}
			})
		}
		all.Wait()
		if n := got.Load(); n != permits {
			t.Errorf("%d have permits, want %d", n, permits)
		}
	})
}

// stalledClient opens a session whose first call that matches waits until release is closed.
func (s *lockServers) stalledClient(op, part string, release <-chan struct{}) *lockClient {
	var once sync.Once
	return s.clientWith(client.Config{Observer: atCall(func(called, path string) {
		if called == op && strings.Contains(path, part) {
			once.Do(func() { <-release })
		}
	})})
}

// A client that stalls inside Acquire counts once: as one that waits, or by its lease. TryAcquire waits neither for it nor for a
// free permit.
func TestTryAcquireBesideStalledClient(t *testing.T) {
	for name, stall := range map[string]struct{ op, part string }{
		"without a lease":                {"create2", "/leases/"},
		"with a lease, and in the queue": {"delete", "/locks/"},
	} {
		t.Run(name, func(t *testing.T) {
			withLockServers(t, 1, func(s *lockServers) {
				cfg := lock.SemaphoreConfig{Permits: 2}
				release := make(chan struct{})
				stalled := s.semaphore(s.stalledClient(stall.op, stall.part, release), cfg)
				done := async(func() error { _, err := stalled.Acquire(s.ctx); return err })
				synctest.Wait()
				semaphore := s.semaphore(s.client(), cfg)
				right, err := semaphore.TryAcquire(s.ctx)
				s.must(err)
				_, err = semaphore.TryAcquire(s.ctx) // the last permit is the stalled client's
				s.wantError(err, lock.ErrBusy)
				close(release)
				s.must(<-done)
				s.must(right.Release(s.ctx))
			})
		})
	}
}

// TryAcquire takes no permit for which another client waits, and then creates no node.
func TestTryAcquireBehindWaitingClients(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		cfg := lock.SemaphoreConfig{Permits: 1}
		holder := s.semaphore(s.client(), cfg)
		right, err := holder.Acquire(s.ctx)
		s.must(err)
		release := make(chan struct{})
		first := s.semaphore(s.client(), cfg)
		second := s.semaphore(s.stalledClient("create2", "/leases/", release), cfg)
		var firstRight *client.Right
		firstDone := async(func() (err error) { firstRight, err = first.Acquire(s.ctx); return err })
		settle()
		secondDone := async(func() error { _, err := second.Acquire(s.ctx); return err })
		settle()
		c := s.client()
		var creates atomic.Int32
		s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.Session == c.id() && strings.HasPrefix(r.Op, "create") {
				creates.Add(1)
			}
			return rollcalltest.Verdict{}
		})
		semaphore := s.semaphore(c, cfg)
		for range 2 {
			_, err = semaphore.TryAcquire(s.ctx)
			s.wantError(err, lock.ErrBusy)
			if right != nil {
				s.must(right.Release(s.ctx))
				right = nil
				s.must(<-firstDone)
			}
		}
		s.must(firstRight.Release(s.ctx))
		settle()
		_, err = semaphore.TryAcquire(s.ctx) // nobody has the permit, and the second client waits for it
		s.wantError(err, lock.ErrBusy)
		if n := creates.Load(); n != 0 {
			t.Errorf("tries in vain created %d nodes", n)
		}
		close(release)
		s.must(<-secondDone)
	})
}

// A permit that was released is free at once, also at a server that lags.
func TestTryAcquireAtLaggingServer(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		cfg := lock.SemaphoreConfig{Permits: 1}
		var semaphores []*lock.Semaphore
		for range 6 {
			semaphores = append(semaphores, s.semaphore(s.client(), cfg))
		}
		for i := range 60 {
			right, err := semaphores[i%len(semaphores)].TryAcquire(s.ctx)
			s.must(err)
			s.must(right.Release(s.ctx))
		}
	})
}

// A connection that breaks at any request of TryAcquire leaves no node.
func TestTryAcquireBrokenConnection(t *testing.T) {
	eachLockFault(t, 1, client.Config{}, func(s *lockServers, subject *lockClient) {
		cfg := lock.SemaphoreConfig{Permits: 1}
		semaphore := s.semaphore(subject, cfg)
		right, err := semaphore.TryAcquire(s.ctx)
		s.must(err)
		_, err = semaphore.TryAcquire(s.ctx)
		s.wantError(err, lock.ErrBusy)
		s.must(right.Release(s.ctx))
		s.wantEmpty(s.client(), folder+"/leases")
		s.wantEmpty(s.client(), folder+"/locks")
	})
}
