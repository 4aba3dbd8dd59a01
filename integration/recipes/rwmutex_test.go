package recipes

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/lock"
	"rollcall/zk/jute"
)

// rw returns the read-write lock of the tests for a client.
func (c *lockClient) rw() *lock.RWMutex { return lock.NewRWMutex(c.Client, folder, lock.Config{}) }

// Readers hold the lock together, writers alone, and all get it in the order of their calls.
func TestRWMutexOrder(t *testing.T) {
	for _, layout := range []lock.Layout{lock.Curator, lock.Kazoo} {
		withLockServers(t, 3, func(s *lockServers) {
			rw := func(c *lockClient) *lock.RWMutex {
				return lock.NewRWMutex(c.Client, folder, lock.Config{Layout: layout})
			}
			c, c2, c3 := s.client(), s.client(), s.client()
			first, err := rw(c).RLock(s.ctx)
			s.must(err)
			second, err := rw(s.client()).RLock(s.ctx)
			s.must(err)
			var written, read *client.Right
			writer := async(func() error {
				right, err := rw(c2).Lock(s.ctx)
				if err == nil {
					written = right.Right
				}
				return err
			})
			if !isWaiting(writer) {
				t.Fatal("a writer has not waited for readers")
			}
			reader := async(func() (err error) { read, err = rw(c3).RLock(s.ctx); return err })
			if !isWaiting(reader) {
				t.Fatal("a reader has overtaken a writer")
			}
			s.must(second.Release(s.ctx))
			if !isWaiting(writer) {
				t.Fatal("a writer has not waited for the other reader")
			}
			_, err = rw(c).TryRLock(s.ctx)
			s.wantError(err, lock.ErrBusy)
			_, err = rw(c).TryLock(s.ctx)
			s.wantError(err, lock.ErrBusy)
			s.must(first.Release(s.ctx))
			s.must(<-writer)
			if !isWaiting(reader) {
				t.Fatal("a reader and a writer hold the lock")
			}
			s.must(written.Release(s.ctx))
			s.must(<-reader)
			third, err := rw(c).TryRLock(s.ctx)
			s.must(err)
			s.must(third.Release(s.ctx))
			s.must(read.Release(s.ctx))
			last, err := rw(c).TryLock(s.ctx)
			s.must(err)
			s.must(last.Release(s.ctx))
			s.wantEmpty(c, folder)
		})
	}
}

// A reader behind several writers wakes once for each that gives way, not before the last one has.
func TestRWMutexReaderWaitsForAllWriters(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, last := s.client(), s.client()
		first, err := s.client().rw().Lock(s.ctx)
		s.must(err)
		ctx, cancel := context.WithCancel(s.ctx)
		second := async(func() error { _, err := c.rw().Lock(ctx); return err })
		settle()
		reader := async(func() error { _, err := last.rw().RLock(s.ctx); return err })
		settle()
		cancel() // the last writer before the reader goes first
		s.wantError(<-second, context.Canceled)
		time.Sleep(time.Second)
		if !isWaiting(reader) {
			t.Fatal("a reader has overtaken the writer that holds")
		}
		s.must(first.Release(s.ctx))
		s.must(<-reader)
	})
}

// A writer becomes a reader before all writers that wait, with its token, whichever request of it the connection
// breaks at.
func TestRWMutexDowngrade(t *testing.T) {
	eachLockFault(t, 1, client.Config{}, func(s *lockServers, subject *lockClient) {
		other, last := s.client(), s.client()
		written, err := subject.rw().Lock(s.ctx)
		s.must(err)
		var next *lock.WriteRight
		writer := async(func() (err error) { next, err = other.rw().Lock(s.ctx); return err })
		settle()
		reader := async(func() error { _, err := last.rw().RLock(s.ctx); return err })
		settle()
		read, err := written.Downgrade(s.ctx)
		s.must(err)
		time.Sleep(lockTimeout / 2)
		if written.Held() || !isLost(written.Lost()) || !read.Held() || read.Token() != written.Token() {
			s.Errorf("write held %v, read held %v, tokens %d, %d", written.Held(), read.Held(), written.Token(), read.Token())
		}
		if !isWaiting(writer) || !isWaiting(reader) {
			s.Fatal("a writer holds the lock beside a reader")
		}
		s.must(read.Release(s.ctx))
		s.must(<-writer)
		if next.Token() <= read.Token() {
			s.Errorf("token %d is not above %d", next.Token(), read.Token())
		}
		s.must(next.Release(s.ctx))
		s.must(<-reader)
		time.Sleep(lockTimeout / 2)
		if names := s.children(other, folder); len(names) != 1 {
			s.Errorf("the nodes are %q", names)
		}
	})
}

// A writer that has lost the lock does not become a reader beside the next writer.
func TestRWMutexDowngradeTooLate(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c, other := s.client(), s.client()
		written, err := c.rw().Lock(s.ctx)
		s.must(err)
		s.must(other.Delete(s.ctx, written.Path(), client.AnyVersion))
		next, err := other.rw().Lock(s.ctx)
		s.must(err)
		_, err = written.Downgrade(s.ctx)
		s.wantError(err, client.ErrNotHeld)
		if names := s.children(other, folder); len(names) != 1 || !next.Held() {
			t.Errorf("the nodes are %q", names)
		}
	})
}

// A writer that is stopped while it becomes a reader, so that the proof of its session is too old, needs a new one. It
// becomes no reader if the sync for that is rejected, or if the client is stopped again before the reply.
func TestRWMutexDowngradeWithoutProof(t *testing.T) {
	for want, stopsAgain := range map[error]bool{client.ErrNoAuth: false, client.ErrNotHeld: true} {
		inScene(t, func(s *scene) {
			s.createSecret(s.client())
			var stopped atomic.Int64 // the time for which the client has been stopped
			syncs := 0
			replace := func(frame []byte) []byte {
				h := headerOf(frame)
				switch {
				case h.Op == jute.OpMulti: // creates the reader
					stopped.Add(int64(sessionTimeout))
				case h.Op != jute.OpSync || stopped.Load() == 0 || syncs > 0:
				case stopsAgain:
					stopped.Add(int64(sessionTimeout))
					syncs++
				default:
					syncs++
					return readOfSecret(h.Xid)
				}
				return frame
			}
			c := s.clientWith(client.Config{
				Clock:    func() time.Duration { return time.Since(s.began) + time.Duration(stopped.Load()) },
				DialConn: s.dialReplacing(replace),
			})
			written, err := lock.NewRWMutex(c, folder, lock.Config{}).Lock(s.ctx)
			s.check(err)
			read, err := written.Downgrade(s.ctx)
			s.want(err, want)
			if read != nil {
				t.Errorf("beside %v there is a right", err)
			}
			s.awaitSettled()
			if names := s.children(folder); slices.ContainsFunc(names, func(n string) bool { return strings.Contains(n, "READ") }) {
				t.Errorf("after %v the nodes are %q", err, names)
			}
		})
	}
}

// A reader that was a writer keeps its token in another process.
func TestRWMutexHandOverDowngraded(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.client()
		written, err := c.rw().Lock(s.ctx)
		s.must(err)
		read, err := written.Downgrade(s.ctx)
		s.must(err)
		h, err := c.HandOver(s.ctx, read)
		s.must(err)
		next := s.clientWith(client.Config{Resume: &h})
		rights, err := h.Rights(s.ctx, next.Client)
		s.must(err)
		if !rights[0].Held() || rights[0].Token() != written.Token() {
			t.Errorf("held %v, token %d, want %d", rights[0].Held(), rights[0].Token(), written.Token())
		}
	})
}

// The names of readers and writers match the layout's library.
func TestRWMutexLayouts(t *testing.T) {
	withLockServers(t, 1, func(s *lockServers) {
		c := s.client()
		for layout, infixes := range map[lock.Layout][2]string{
			lock.Curator: {"-__READ__00", "-__WRIT__00"}, lock.Kazoo: {"__rlock__00", "__lock__00"},
		} {
			m := lock.NewRWMutex(c.Client, folder, lock.Config{Layout: layout})
			reader, err := m.RLock(s.ctx)
			s.must(err)
			s.must(reader.Release(s.ctx))
			writer, err := m.Lock(s.ctx)
			s.must(err)
			s.must(writer.Release(s.ctx))
			if !strings.Contains(reader.Path(), infixes[0]) || !strings.Contains(writer.Path(), infixes[1]) {
				t.Errorf("the reader is %s and the writer %s, want %q", reader.Path(), writer.Path(), infixes)
			}
		}
	})
}
