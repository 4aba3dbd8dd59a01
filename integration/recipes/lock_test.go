package recipes

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/client/recipe"
	"rollcall/rollcalltest"
)

const folder = "/app/locks/one"

// Clients get a mutex one at a time, in the order of their calls, with growing tokens.
func TestMutexOrder(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		first := s.client()
		right, err := lock.NewMutex(first.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		const others = 5
		order := make(chan int, others)
		var holders atomic.Int32
		var done []<-chan error
		for i := range others {
			c := s.client()
			done = append(done, async(func() error {
				right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
				if err != nil {
					return err
				}
				if holders.Add(1) != 1 {
					t.Error("two hold the mutex")
				}
				order <- i
				time.Sleep(time.Second)
				holders.Add(-1)
				return right.Release(s.ctx)
			}))
			if !isWaiting(done[i]) {
				t.Fatal("it has not waited:", <-done[i])
			}
		}
		token := right.Token()
		s.must(right.Release(s.ctx))
		for i := range others {
			s.must(<-done[i])
			if next := <-order; next != i {
				t.Errorf("%d got the mutex, want %d", next, i)
			}
		}
		last, err := lock.NewMutex(first.Client, folder, lock.Config{}).TryLock(s.ctx)
		s.must(err)
		if last.Token() <= token {
			t.Errorf("token %d is not above %d", last.Token(), token)
		}
	})
}

// lockGuardRelease locks a mutex, writes under its guard, and releases it.
func (s *lockServers) lockGuardRelease(c *lockClient) error {
	right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
	if err != nil {
		return err
	}
	if !right.Held() {
		s.Error("the lock is not held")
	}
	_, err = right.Guard(s.ctx, client.CreateOp("/guarded", nil, client.Persistent))
	if err != nil && !client.MayHaveHappened(err) && !errors.Is(err, client.ErrSuspended) {
		return err
	}
	return right.Release(s.ctx)
}

// A connection that breaks at any request of a client that locks, guards and releases leaves no node, and the next
// client gets the lock.
func TestMutexBrokenConnection(t *testing.T) {
	for name, policy := range map[string]client.SuspendedPolicy{"wait": client.Wait, "fail": client.Fail} {
		t.Run(name, func(t *testing.T) {
			cfg := client.Config{WhileSuspended: policy}
			eachLockFault(t, 1, cfg, func(s *lockServers, subject *lockClient) {
				s.must(s.lockGuardRelease(subject))
				other := s.client()
				right, err := lock.NewMutex(other.Client, folder, lock.Config{}).Lock(s.ctx)
				s.must(err)
				s.must(right.Release(s.ctx))
				s.wantEmpty(other, folder)
			})
		})
	}
}

// The same while another client holds the lock, and then one waits: no client is forgotten.
func TestMutexBrokenConnectionOfWaiter(t *testing.T) {
	waiterOutlivesFaults(t, 3, client.Config{})
}

// The same for a Client whose calls fail while it is suspended.
func TestMutexBrokenConnectionOfImpatientWaiter(t *testing.T) {
	waiterOutlivesFaults(t, 1, client.Config{WhileSuspended: client.Fail})
}

func waiterOutlivesFaults(t *testing.T, servers int, cfg client.Config) {
	eachLockFault(t, servers, cfg, func(s *lockServers, subject *lockClient) {
		first, last := s.client(), s.client()
		right, err := lock.NewMutex(first.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		done := async(func() error { return s.lockGuardRelease(subject) })
		time.Sleep(3 * time.Second)
		lastDone := async(func() error {
			_, err := lock.NewMutex(last.Client, folder, lock.Config{}).Lock(s.ctx)
			return err
		})
		time.Sleep(3 * time.Second)
		if !isWaiting(done) || !isWaiting(lastDone) {
			s.Fatal("two hold the lock")
		}
		s.must(right.Release(s.ctx))
		s.must(<-done)
		s.must(<-lastDone)
		if names := s.children(first, folder); len(names) != 1 {
			s.Errorf("the nodes are %q", names)
		}
	})
}

// A client whose create has no reply finds its node again: there is one node. It syncs before it lists the children,
// because a server of ZooKeeper that it has reconnected to may not know the node yet.
func TestMutexLostCreateFindsItsNode(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		c := s.client()
		s.must(c.CreateAll(s.ctx, folder, client.Persistent))
		var ops []string
		s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.InSession == 0 {
				return rollcalltest.Verdict{}
			}
			ops = append(ops, r.Op)
			return rollcalltest.Verdict{LoseReply: len(ops) == 1}
		})
		right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		s.OnRequest(nil)
		if want := "create2 sync getChildren2 exists getChildren2"; !strings.HasPrefix(strings.Join(ops, " "), want) {
			t.Errorf("the requests are %q, want %s", ops, want)
		}
		names := s.children(c, folder)
		if len(names) != 1 || right.Path() != folder+"/"+names[0] {
			t.Errorf("the nodes are %q, and the lock's is %s", names, right.Path())
		}
		stat, _, err := c.Exists(s.ctx, right.Path())
		s.must(err)
		if right.Token() != client.Token(stat.Created) {
			t.Errorf("the token is %d, and the node's czxid %d", right.Token(), stat.Created)
		}
	})
}

// A session that ends before the client has found its node gives no lock: the call fails, and the old node is gone.
func TestMutexLostCreateAndExpiry(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		c, other := s.client(), s.client()
		s.must(c.CreateAll(s.ctx, folder, client.Persistent))
		s.must(s.LoseReply(c.id(), 1))
		c.cutOff.Store(true)
		done := async(func() error {
			_, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
			return err
		})
		settle()
		if names := s.children(other, folder); len(names) != 1 {
			t.Fatalf("the create was not carried out: %q", names)
		}
		s.must(s.ExpireSession(c.id()))
		c.cutOff.Store(false)
		s.wantError(<-done, client.ErrExpired)
		s.wantEmpty(other, folder)
	})
}

// A caller that gives up, at whichever moment, leaves no node.
func TestMutexCallerGivesUp(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 3 * time.Second} {
		for _, lose := range []bool{false, true} {
			withLockServers(t, 1, func(s *lockServers) {
				c, other := s.client(), s.client()
				s.must(c.CreateAll(s.ctx, folder, client.Persistent))
				right, err := lock.NewMutex(other.Client, folder, lock.Config{}).Lock(s.ctx)
				s.must(err)
				s.must(s.DelayReply(c.id(), 1, 2*time.Second))
				if lose {
					s.must(s.LoseReply(c.id(), 1))
				}
				ctx, cancel := context.WithTimeout(s.ctx, pause)
				defer cancel()
				began := time.Now()
				_, err = lock.NewMutex(c.Client, folder, lock.Config{}).Lock(ctx)
				s.wantError(err, context.DeadlineExceeded)
				if waited := time.Since(began); waited != pause {
					t.Errorf("it gave up after %v, want %v", waited, pause)
				}
				time.Sleep(5 * time.Second)
				if names := s.children(other, folder); len(names) != 1 {
					t.Errorf("pause %v: the nodes are %q", pause, names)
				}
				s.must(right.Release(s.ctx))
			})
		}
	}
}

// A release wakes one client, which lists the parent once.
func TestMutexWakesOne(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		first := s.client()
		right, err := lock.NewMutex(first.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		const waiters = 50
		got := make(chan *client.Right, waiters)
		for range waiters {
			c := s.client()
			go func() {
				if right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx); err == nil {
					got <- right
				}
			}()
		}
		settle()
		var lists, all atomic.Int32
		s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			if r.InSession > 0 {
				all.Add(1)
			}
			if strings.HasPrefix(r.Op, "getChildren") {
				lists.Add(1)
			}
			return rollcalltest.Verdict{}
		})
		for range waiters {
			s.must(right.Release(s.ctx))
			right = <-got
		}
		settle()
		// A delete, and of the next holder a list, a sync that proves its session, and a watch of its own node.
		if n, m := lists.Load(), all.Load(); n != waiters || m > 5*waiters {
			t.Errorf("%d releases made %d lists and %d requests", waiters, n, m)
		}
	})
}

// When an operator deletes the holder's node, the right ends at once, and the next client gets the lock.
func TestMutexNodeDeleted(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		waiting := async(func() error { return s.lockGuardRelease(other) })
		settle()
		kicked := s.client()
		refused := async(func() error { return s.lockGuardRelease(kicked) })
		settle()
		names := s.children(c, folder)
		for _, name := range names {
			if stat, _, err := c.Exists(s.ctx, folder+"/"+name); err == nil && int64(stat.Owner) == kicked.id() {
				s.must(c.Delete(s.ctx, folder+"/"+name, client.AnyVersion))
			}
		}
		s.must(c.Delete(s.ctx, right.Path(), client.AnyVersion))
		if !isLost(right.Lost()) || right.Held() {
			t.Error("the right has not ended")
		}
		_, err = right.Guard(s.ctx, client.CreateOp("/never", nil, client.Persistent))
		s.wantError(err, client.ErrNotHeld)
		s.must(<-waiting)
		s.must(right.Release(s.ctx))
		select {
		case err := <-refused:
			s.wantError(err, lock.ErrRemoved)
		case <-time.After(time.Minute):
			t.Error("a client whose node was deleted waits for ever")
		}
	})
}

// When the session of the holder ends, its right ends before the next client gets the lock; and a client whose
// session ends while it waits gets an error.
func TestMutexHolderCutOff(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		c, waiter, other := s.client(), s.client(), s.client()
		right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		var lostAt atomic.Int64
		right.OnLost(func() { lostAt.Store(time.Now().UnixNano()) })
		ended := async(func() error { return s.lockGuardRelease(waiter) })
		settle()
		s.must(s.ExpireSession(waiter.id()))
		s.wantError(<-ended, client.ErrExpired)
		s.cut(c)
		next, err := lock.NewMutex(other.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		if got := time.Now().UnixNano(); lostAt.Load() == 0 || lostAt.Load() >= got || right.Held() {
			t.Errorf("the right ended at %d, the next holder began at %d", lostAt.Load(), got)
		}
		if next.Token() <= right.Token() {
			t.Errorf("token %d is not above %d", next.Token(), right.Token())
		}
		s.wantError(right.Release(s.ctx), nil)
	})
}

// The leader dies while a client holds the lock and others wait.
func TestMutexLeaderDies(t *testing.T) {
	withLockServers(t, 3, func(s *lockServers) {
		c, other := s.client(), s.client()
		right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		waiting := async(func() error { return s.lockGuardRelease(other) })
		settle()
		_, err = s.KillLeader()
		s.must(err)
		time.Sleep(lockTimeout / 2)
		if !right.Held() || !isWaiting(waiting) {
			t.Error("a change of the leader ended the right")
		}
		s.must(right.Release(s.ctx))
		s.must(<-waiting)
		s.wantEmpty(other, folder)
	})
}

// The parent is created again if the servers delete it before the node is created.
func TestMutexFolderVanishes(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		s.must(c.CreateAll(s.ctx, "/app/locks", client.Persistent))
		s.must(s.DelayReply(c.id(), 3, time.Second)) // of the create of the folder, after a create and a look
		done := async(func() error { return s.lockGuardRelease(c) })
		time.Sleep(time.Second / 2)
		for _, path := range []string{folder, "/app/locks", "/app"} {
			s.must(other.Delete(s.ctx, path, client.AnyVersion))
		}
		s.must(<-done)
	})
}

// TryLock leaves no node when the lock is not free.
func TestMutexTryLock(t *testing.T) {
	eachLockFault(t, 1, client.Config{}, func(s *lockServers, subject *lockClient) {
		other := s.client()
		right, err := lock.NewMutex(other.Client, folder, lock.Config{}).TryLock(s.ctx)
		s.must(err)
		_, err = lock.NewMutex(subject.Client, folder, lock.Config{}).TryLock(s.ctx)
		s.wantError(err, lock.ErrBusy)
		time.Sleep(lockTimeout / 2)
		if names := s.children(other, folder); len(names) != 1 {
			s.Errorf("the nodes are %q", names)
		}
		s.must(right.Release(s.ctx))
	})
}

const foreignHex = "f972756c9d444a3b9a0d443355425fe3"

// Nodes that are no contenders of the layout are rejected by name, and the numbers that servers give after 2^31-1 too.
func TestMutexForeignNodes(t *testing.T) {
	for _, c := range []struct {
		layout lock.Layout
		node   string
		want   error
	}{
		{lock.Curator, foreignHex + "__lock__0000000000", lock.ErrForeignContenders},
		{lock.Curator, "_c_" + foreignHex + "-latch-0000000000", lock.ErrForeignContenders},
		{lock.Curator, "config", lock.ErrForeignContenders},
		{lock.Kazoo, "_c_" + foreignHex + "-lock-0000000000", lock.ErrForeignContenders},
		{lock.Kazoo, foreignHex + "__rlock__0000000000", lock.ErrForeignContenders},
		{lock.Curator, "_c_" + foreignHex + "-lock-2147483647", lock.ErrNumbersUsedUp},
		{lock.Curator, "_c_" + foreignHex + "-lock--2147483648", lock.ErrNumbersUsedUp},
		{lock.Curator, "_c_" + foreignHex + "-lock-2147483646", nil},
	} {
		withLockServers(t, 1, func(s *lockServers) {
			subject := s.client()
			s.must(subject.CreateAll(s.ctx, folder, client.Persistent))
			_, _, err := subject.Create(s.ctx, folder+"/"+c.node, nil, client.Persistent)
			s.must(err)
			right, err := lock.NewMutex(subject.Client, folder, lock.Config{Layout: c.layout}).TryLock(s.ctx)
			if c.want == nil {
				s.must(err)
				s.must(right.Release(s.ctx))
				return
			}
			s.wantError(err, c.want)
			foreign, ok := errors.AsType[*lock.ForeignError](err)
			if ok && (len(foreign.Names) != 1 || foreign.Names[0] != c.node) {
				t.Errorf("the error names %q", foreign.Names)
			}
			if names := s.children(subject, folder); len(names) != 1 { // its own is gone when the call returns
				t.Errorf("the nodes are %q", names)
			}
		})
	}
}

// kazoo's layout has kazoo's names.
func TestMutexKazooLayout(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.client()
		right, err := lock.NewMutex(c.Client, folder, lock.Config{Layout: lock.Kazoo, Data: []byte("host-1")}).Lock(s.ctx)
		s.must(err)
		name := strings.TrimPrefix(right.Path(), folder+"/")
		data, _, err := c.Get(s.ctx, right.Path())
		s.must(err)
		const end = "__lock__0000000000"
		if len(name) != 32+len(end) || !strings.HasSuffix(name, end) || string(data) != "host-1" {
			t.Errorf("the node is %s with %q", name, data)
		}
	})
}

// A Client whose calls fail while it is suspended waits for a lock all the same.
func TestMutexWhileSuspended(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.clientWith(client.Config{WhileSuspended: client.Fail})
		s.must(c.CreateAll(s.ctx, folder, client.Persistent))
		s.cut(c)
		settle() // the client knows
		done := async(func() error { return s.lockGuardRelease(c) })
		if !isWaiting(done) {
			t.Fatal("it has not waited for a connection:", <-done)
		}
		c.cutOff.Store(false)
		s.must(<-done)
	})
}

// A client that loses the replies to some requests in a row, those to its searches too, has one node.
func TestMutexLosesManyReplies(t *testing.T) {
	const most = 8
	for lost := 2; lost <= most; lost++ {
		withLockServers(t, 1, func(s *lockServers) {
			c := s.client()
			count := 0
			s.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
				if r.InSession == 0 || r.Op == "setWatches" {
					return rollcalltest.Verdict{}
				}
				count++
				return rollcalltest.Verdict{LoseReply: count <= lost}
			})
			right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
			s.must(err)
			if names := s.children(c, folder); len(names) != 1 {
				t.Errorf("%d lost: the nodes are %q", lost, names)
			}
			s.must(right.Release(s.ctx))
			s.wantEmpty(c, folder)
		})
	}
}

// idPrefix returns the name of a lock's node without its number.
func idPrefix(path string) string { return path[:len(path)-len("0000000000")] }

// A create that was sent before a connection broke and is carried out late leaves a second node with the id. It is
// deleted with the lock's release.
func TestMutexLateCreateIsDeleted(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.client()
		s.must(c.CreateAll(s.ctx, folder, client.Persistent))
		s.must(s.LoseReply(c.id(), 1))
		right, err := lock.NewMutex(c.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		_, _, err = c.Create(s.ctx, idPrefix(right.Path()), nil, client.EphemeralSequential)
		s.must(err)
		s.must(right.Release(s.ctx))
		s.wantEmpty(c, folder)
	})
}

// A second node with the id of a client that waits is deleted, and the client does not wait for it.
func TestMutexSecondNodeOfWaiter(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		first, err := lock.NewMutex(other.Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		var right *client.Right
		mutex := lock.NewMutex(c.Client, folder, lock.Config{})
		done := async(func() (err error) { right, err = mutex.Lock(s.ctx); return err })
		settle()
		for _, name := range s.children(c, folder) {
			if path := folder + "/" + name; path != first.Path() {
				_, _, err = c.Create(s.ctx, idPrefix(path), nil, client.EphemeralSequential)
				s.must(err)
			}
		}
		s.must(first.Release(s.ctx))
		s.must(<-done)
		if names := s.children(c, folder); len(names) != 1 || folder+"/"+names[0] != right.Path() {
			t.Errorf("the nodes are %q", names)
		}
	})
}

// A right that has ended guards nothing, although its node is still there. A guard without operations has no results.
func TestGuardAfterEnd(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		right, err := lock.NewMutex(s.client().Client, folder, lock.Config{}).Lock(s.ctx)
		s.must(err)
		if results, err := right.Guard(s.ctx); err != nil || len(results) != 0 {
			s.Errorf("the results are %v, %v", results, err)
		}
		recipe.End(right)
		_, err = right.Guard(s.ctx, client.CreateOp("/a", nil, client.Persistent))
		s.wantError(err, client.ErrNotHeld)
		_, exists, err := s.client().Exists(s.ctx, "/a")
		s.must(err)
		if exists {
			s.Error("a right that has ended has guarded a write")
		}
	})
}

// A release without a connection ends with its context. Its error reports that the release continues, and it does.
func TestReleaseGoesOn(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		right, err := lock.NewMutex(c, "/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		release := make(chan struct{})
		s.srv.OnRequest(breakAndHold(c, lostRequest, release, func(r rollcalltest.Request) bool { return r.Op == "delete" }))
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		err = right.Release(ctx)
		s.want(err, context.DeadlineExceeded)
		if !strings.HasPrefix(err.Error(), "client: release "+right.Path()+": ") || right.Held() {
			s.t.Errorf("held %t after %v", right.Held(), err)
		}
		close(release)
		s.awaitSettled()
		if names := s.children("/lock"); len(names) != 0 {
			s.t.Errorf("%q are left", names)
		}
	})
}

// A TryLock whose context ends before its node is gone says so, too: others may still wait behind the node.
func TestTryLockCannotLeaveInTime(t *testing.T) {
	inScene(t, func(s *scene) {
		_, err := lock.NewMutex(s.client(), "/app/lock", lock.Config{}).Lock(s.ctx)
		s.check(err)
		c, release := s.client(), make(chan struct{})
		s.srv.OnRequest(breakAndHold(c, lostRequest, release, func(r rollcalltest.Request) bool { return r.Op == "delete" }))
		ctx, cancel := context.WithTimeout(s.ctx, time.Second)
		defer cancel()
		_, err = lock.NewMutex(c, "/app/lock", lock.Config{}).TryLock(ctx)
		s.want(err, lock.ErrBusy)
		s.want(err, context.DeadlineExceeded)
		close(release)
		for len(s.children("/app/lock")) > 1 {
			time.Sleep(time.Second)
		}
	})
}
