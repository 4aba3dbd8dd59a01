package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// acquire calls a method that waits for a lock, in a goroutine.
func acquire[T any](b *recipetest.Bed, lock func(context.Context) (T, error)) <-chan T {
	got := make(chan T, 1)
	go func() {
		right, err := lock(b.Ctx)
		b.Report(err)
		got <- right
	}()
	return got
}

// has reports whether a lock that acquire waits for was acquired, once nothing moves any more.
func has[T any](got <-chan T) bool {
	synctest.Wait()
	return len(got) == 1
}

// One client holds a mutex at a time. The next one gets it when the right is released, or when the session ends.
func TestMutex(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		var waiting []<-chan *client.Right
		for _, c := range b.Clients {
			waiting = append(waiting, acquire(b, NewMutex(c, "/l", Config{}).Lock))
			synctest.Wait() // they come in this order
		}
		first := <-waiting[0]
		if has(waiting[1]) || !first.Held() {
			b.Fatal("two clients have the lock, or none")
		}
		if _, err := NewMutex(b.Clients[0], "/l", Config{}).TryLock(b.Ctx); !errors.Is(err, ErrBusy) {
			b.Errorf("TryLock of a lock that is held: %v", err)
		}
		b.Must(first.Release(b.Ctx))
		if !has(waiting[1]) || has(waiting[2]) || first.Held() {
			b.Fatal("the second client does not have the lock alone")
		}
		second := <-waiting[1]
		b.Expire(b.Clients[1])
		third := <-waiting[2]
		if second.Held() || !third.Held() || third.Token() <= second.Token() || second.Token() <= first.Token() {
			b.Errorf("the tokens of three holders are %d, %d, %d", first.Token(), second.Token(), third.Token())
		}
		b.Must(third.Release(b.Ctx))
		if names := b.Children("/l"); len(names) > 0 {
			b.Errorf("left behind: %q", names)
		}
		if _, err := NewMutex(b.Clients[0], "/l", Config{}).TryLock(b.Ctx); err != nil {
			b.Errorf("TryLock of a free lock: %v", err)
		}
	})
}

// A client that gives up leaves no node, so that the next one gets the lock.
func TestMutexGivesUp(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		holder, err := NewMutex(b.Clients[0], "/l", Config{}).Lock(b.Ctx)
		b.Must(err)
		ctx, cancel := context.WithTimeout(b.Ctx, time.Minute)
		defer cancel()
		if _, err := NewMutex(b.Clients[1], "/l", Config{}).Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("%v, want the end of the context", err)
		}
		synctest.Wait()
		if names := b.Children("/l"); len(names) != 1 {
			b.Errorf("the nodes are %q, want the holder's alone", names)
		}
		next := acquire(b, NewMutex(b.Clients[2], "/l", Config{}).Lock)
		b.Must(holder.Release(b.Ctx))
		if !has(next) {
			b.Error("the next client does not get the lock")
		}
	})
}

// A connection that breaks takes no lock away, and grants none.
func TestMutexOverLostConnection(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		holder, err := NewMutex(b.Clients[0], "/l", Config{}).Lock(b.Ctx)
		b.Must(err)
		next := acquire(b, NewMutex(b.Clients[1], "/l", Config{}).Lock)
		for range 3 {
			synctest.Wait()
			b.Reconnect()
			if has(next) || !holder.Held() {
				b.Fatal("the lock has another holder, or none")
			}
		}
		b.LoseReply(jute.OpDelete)
		b.Must(holder.Release(b.Ctx))
		if !has(next) {
			b.Error("the next client does not get the lock")
		}
	})
}

// Readers hold a read-write lock together, and a writer alone. A writer that becomes a reader lets readers in, and no
// writer.
func TestRWMutex(t *testing.T) {
	recipetest.Run(t, 4, func(b *recipetest.Bed) {
		lockOf := func(i int) *RWMutex { return NewRWMutex(b.Clients[i], "/rw", Config{}) }
		first, err := lockOf(0).RLock(b.Ctx)
		b.Must(err)
		second, err := lockOf(1).TryRLock(b.Ctx)
		b.Must(err)
		writer := acquire(b, lockOf(2).Lock)
		if has(writer) {
			b.Fatal("a writer has the lock with readers")
		}
		reader := acquire(b, lockOf(3).RLock)
		b.Must(first.Release(b.Ctx))
		if has(writer) || has(reader) {
			b.Fatal("a writer has the lock with a reader, or a reader has overtaken a writer")
		}
		b.Must(second.Release(b.Ctx))
		if !has(writer) || has(reader) {
			b.Fatal("the writer does not have the lock alone")
		}
		w := <-writer
		later := acquire(b, lockOf(0).Lock)
		synctest.Wait()
		downgraded, err := w.Downgrade(b.Ctx)
		b.Must(err)
		if !has(reader) || has(later) || !downgraded.Held() || w.Held() || downgraded.Token() != w.Token() {
			b.Fatal("a writer that became a reader does not share the lock with readers alone")
		}
		b.Must(downgraded.Release(b.Ctx))
		b.Must((<-reader).Release(b.Ctx))
		if !has(later) {
			b.Error("the last writer does not get the lock")
		}
	})
}

// As many clients as there are permits hold a semaphore. The number can grow.
func TestSemaphore(t *testing.T) {
	recipetest.Run(t, 4, func(b *recipetest.Bed) {
		b.CreateNode("/permits")
		setPermits := func(n uint32) { b.SetData("/permits", string(binary.BigEndian.AppendUint32(nil, n))) }
		setPermits(2)
		var holders []<-chan *client.Right
		for _, c := range b.Clients {
			s, err := NewSemaphore(c, "/s", SemaphoreConfig{PermitsPath: "/permits"})
			b.Must(err)
			holders = append(holders, acquire(b, s.Acquire))
			synctest.Wait()
		}
		if !has(holders[0]) || !has(holders[1]) || has(holders[2]) {
			b.Fatal("not two clients have permits")
		}
		b.Must((<-holders[0]).Release(b.Ctx))
		if !has(holders[2]) || has(holders[3]) {
			b.Fatal("not one client gets the permit that was released")
		}
		setPermits(3)
		if !has(holders[3]) {
			b.Fatal("no client gets the new permit")
		}
	})
}

// A client that finds no permit, and does not wait, leaves no node.
func TestSemaphoreIsBusy(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		var semaphores []*Semaphore
		for _, c := range b.Clients {
			s, err := NewSemaphore(c, "/s", SemaphoreConfig{Permits: 1})
			b.Must(err)
			semaphores = append(semaphores, s)
		}
		_, err := semaphores[0].Acquire(b.Ctx)
		b.Must(err)
		if _, err := semaphores[1].TryAcquire(b.Ctx); !errors.Is(err, ErrBusy) {
			b.Errorf("%v, want %v", err, ErrBusy)
		}
		synctest.Wait()
		if leases, locks := b.Children("/s/leases"), b.Children("/s/locks"); len(leases) != 1 || len(locks) > 0 {
			b.Errorf("the leases are %q, the locks %q, want the holder's lease alone", leases, locks)
		}
	})
}

// A client gets all mutexes of a Multi, or keeps none.
func TestMulti(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		other, err := NewMutex(b.Clients[1], "/b", Config{}).Lock(b.Ctx)
		b.Must(err)
		multi := NewMulti(b.Clients[0], []string{"/a", "/b", "/c"}, Config{})
		if _, err := multi.TryLock(b.Ctx); !errors.Is(err, ErrBusy) {
			b.Errorf("TryLock with a lock that is held: %v", err)
		}
		synctest.Wait()
		if len(b.Children("/a")) > 0 || b.HasNode("/c") {
			b.Error("TryLock has kept a lock")
		}
		waiting := acquire(b, multi.Lock)
		if has(waiting) {
			b.Fatal("a Multi has a lock that another client holds")
		}
		b.Must(other.Release(b.Ctx))
		right := <-waiting
		_, err = right.Guard(b.Ctx, client.CreateOp("/done", nil, client.Persistent))
		if err != nil || !b.HasNode("/done") || !right.Held() || len(right.Tokens()) != 3 {
			b.Errorf("guarded write: %v", err)
		}
		b.Must(right.Release(b.Ctx))
		for _, parent := range []string{"/a", "/b", "/c"} {
			if names := b.Children(parent); len(names) > 0 {
				b.Errorf("%s: left behind: %q", parent, names)
			}
		}
	})
}

// A Guard that fails because one of the locks is gone ends the right to all of them at once, although the client has got
// no event yet.
func TestMultiGuardEndsRight(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		right, err := NewMulti(b.Clients[0], []string{"/a", "/b"}, Config{}).Lock(b.Ctx)
		b.Must(err)
		synctest.Wait()
		b.MuteEvents()
		b.DeleteNode("/b/" + b.Children("/b")[0])
		_, err = right.Guard(b.Ctx, client.CreateOp("/done", nil, client.Persistent))
		if !errors.Is(err, client.ErrNotHeld) || right.Held() || b.HasNode("/done") {
			b.Errorf("%v, held %v, want the end of the right", err, right.Held())
		}
		select {
		case <-right.Lost():
		default:
			b.Error("the right is not lost")
		}
	})
}

// A Multi that loses one of its locks has lost all.
func TestMultiLosesOne(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		right, err := NewMulti(b.Clients[0], []string{"/a", "/b"}, Config{}).Lock(b.Ctx)
		b.Must(err)
		synctest.Wait()
		b.DeleteNode("/b/" + b.Children("/b")[0])
		synctest.Wait()
		if right.Held() {
			b.Error("held without the second lock")
		}
		select {
		case <-right.Lost():
		default:
			b.Error("the right is not lost")
		}
	})
}

// The holder of a Revocable learns that another client wants the lock, and still holds it.
func TestRevocable(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		right, err := NewRevocable(b.Clients[0], "/l", Config{}).Lock(b.Ctx)
		b.Must(err)
		synctest.Wait()
		select {
		case <-right.Revoked():
			b.Fatal("revoked without a request")
		default:
		}
		b.Must(NewRevocable(b.Clients[1], "/l", Config{}).Revoke(b.Ctx))
		synctest.Wait()
		select {
		case <-right.Revoked():
		default:
			b.Error("not revoked")
		}
		if !right.Held() {
			b.Error("a request has ended the right")
		}
	})
}
