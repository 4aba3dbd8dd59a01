package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// try submits in a goroutine and returns a channel with the result.
func (r *rig) try(ctx context.Context, conn uint64, body string) chan error {
	done := make(chan error, 1)
	go func() {
		done <- r.f.Submit(ctx, &proto.Txn{Conn: conn, Op: int32(jute.OpCreate), Body: []byte(body)}, nil)
	}()
	synctest.Wait()
	return done
}

// ended reports whether a try has ended.
func ended(t *testing.T, done chan error) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("submit: %v", err)
		}
		return true
	default:
		return false
	}
}

// While the lanes are full, a connection waits only if it has something unapplied. Waiting
// connections get in by turns when there is room.
func TestFullOutbox(t *testing.T) {
	limits := map[string]func(*Config){
		"count": func(c *Config) { c.MaxQueued, c.MaxInFlight = 2, 2 },
		"bytes": func(c *Config) { c.MaxQueuedBytes, c.MaxInFlight = 2*txnOverhead, 2 },
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			bubble(t, limit, func(t *testing.T, r *rig) {
				r.submit(1, jute.OpCreate, "a1")
				r.submit(1, jute.OpCreate, "a2")
				a3 := r.try(t.Context(), 1, "a3")
				r.submit(2, jute.OpCreate, "b1") // has nothing unapplied
				b2 := r.try(t.Context(), 2, "b2")
				r.submit(3, jute.OpCreateSession, "c1")
				if ended(t, a3) || ended(t, b2) {
					t.Fatal("got in although the lanes are full")
				}
				l := r.announced() // two go out: c1 a1
				if ended(t, a3) || ended(t, b2) {
					t.Fatal("got in although the lanes are still full")
				}
				r.commit(l, 1) // c1; b1 goes out and leaves a2: one may come
				if !ended(t, a3) || ended(t, b2) {
					t.Fatal("not exactly the first one got in")
				}
				r.commit(l, 1) // a1; b2 finds room when the next has gone out
				if !ended(t, b2) {
					t.Fatal("b2 still waits")
				}
				for range 4 {
					r.commit(l, 1)
				}
				var got []string
				for _, txn := range r.state.log {
					got = append(got, string(txn.Body))
				}
				if want := []string{"c1", "a1", "b1", "a2", "a3", "b2"}; !slices.Equal(got, want) {
					t.Errorf("applied %v, want %v", got, want)
				}
			})
		})
	}
}

// At the limit, a connection with nothing unapplied may add one small write, or one that makes,
// takes over or ends its session. A longer write waits for room like any other.
func TestLongWriteWaitsForRoom(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued, c.MaxInFlight = 1, 1 }, func(t *testing.T, r *rig) {
		long := strings.Repeat("x", maxUnblocked)
		r.submit(1, jute.OpCreate, "a1")
		b := r.try(t.Context(), 2, long)
		if ended(t, b) {
			t.Fatal("a long write got in although the lanes are full")
		}
		if r.f.TrySubmit(&proto.Txn{Conn: 3, Op: int32(jute.OpCreate), Body: []byte(long)}, nil) {
			t.Error("a long write that was offered got in although the lanes are full")
		}
		ctx, cancel := context.WithCancel(t.Context())
		d := r.try(ctx, 4, long)
		cancel()
		if err := <-d; !errors.Is(err, context.Canceled) {
			t.Errorf("submit: %v, want canceled", err)
		}
		r.submit(5, jute.OpCreate, strings.Repeat("x", maxUnblocked-txnOverhead))
		r.submit(6, jute.OpCreateSession, long)
		l := r.announced()
		for range 3 {
			r.commit(l, 1)
		}
		if !ended(t, b) {
			t.Error("the long write still waits")
		}
	})
}

// A long write that waits after its connection's own is not let in just because those are applied.
func TestLongWriteWaitsOnWithNothingUnapplied(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued, c.MaxInFlight = 1, 1 }, func(t *testing.T, r *rig) {
		l := r.announced()
		r.submit(1, jute.OpCreate, "a1") // goes out
		synctest.Wait()
		for conn := range uint64(3) {
			r.submit(2+conn, jute.OpCreate, "b")
		}
		a2 := r.try(t.Context(), 1, strings.Repeat("x", maxUnblocked))
		r.commit(l, 1) // a1; the first b goes out, and two are left
		if ended(t, a2) {
			t.Fatal("got in although the lanes are full")
		}
		for range 3 {
			r.commit(l, 1)
		}
		if !ended(t, a2) {
			t.Error("still waits although there is room")
		}
	})
}

// A waiting connection gets in at once when all its writes have been applied, even if the lanes are
// full.
func TestWaitEndsWithNothingUnapplied(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued, c.MaxInFlight = 1, 1 }, func(t *testing.T, r *rig) {
		l := r.announced()
		r.submit(1, jute.OpCreate, "a1") // goes out
		synctest.Wait()
		r.submit(2, jute.OpCreate, "b1")
		r.submit(3, jute.OpCreate, "c1")
		r.submit(4, jute.OpCreate, "d1")
		a2 := r.try(t.Context(), 1, "a2")
		if ended(t, a2) {
			t.Fatal("got in although the lanes are full")
		}
		r.commit(l, 1)
		if !ended(t, a2) {
			t.Error("still waits with nothing unapplied")
		}
	})
}

// A Submit that gives up leaves no place behind, and takes no other's turn.
func TestSubmitGivesUp(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued = 1 }, func(t *testing.T, r *rig) {
		r.submit(1, jute.OpCreate, "a1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		first := r.try(ctx, 1, "a2")
		r.submit(2, jute.OpCreate, "b1")
		second := r.try(t.Context(), 2, "b2")
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("submit: %v, want deadline exceeded", err)
		}
		if n, held := r.f.outbox.queued.blockedSubmits[0].Len(), r.f.outbox.queued.queuedWrites; n != 1 || held != 2 {
			t.Errorf("%d wait, want 1; %d held, want 2", n, held)
		}
		r.announced()
		if !ended(t, second) {
			t.Error("the other one still waits")
		}
	})
}

// A Submit that gives up just when its turn has come passes the turn on.
func TestSubmitGivesUpItsTurn(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued = 2 }, func(t *testing.T, r *rig) {
		r.submit(1, jute.OpCreate, "a1")
		r.submit(2, jute.OpCreate, "b1")
		out := r.f.outbox
		for tries := 0; ; tries++ {
			ctx, cancel := context.WithCancel(t.Context())
			first := r.try(ctx, 1, "a2")
			second := r.try(t.Context(), 2, "b2")
			out.mu.Lock()
			cancel()
			out.queued.removeWrite(cost{size: txnOverhead}) // room for one
			out.queued.admitWhileRoom()
			out.mu.Unlock()
			synctest.Wait()
			err := <-first
			if err != nil && !ended(t, second) {
				t.Fatal("the turn is lost")
			}
			if err != nil {
				return
			}
			if tries == 100 {
				t.Fatal("it never gave up")
			}
			out.mu.Lock() // it went ahead: its fate was drawn; let the second in and try again
			out.queued.removeWrite(cost{size: txnOverhead})
			out.queued.admitWhileRoom()
			out.mu.Unlock()
			if !ended(t, second) {
				t.Fatal("still waits although there is room")
			}
		}
	})
}

// All that wait get in, each connection's writes in order.
func TestEverybodyGetsIn(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued, c.MaxInFlight = 3, 2 }, func(t *testing.T, r *rig) {
		const conns, each = 20, 10
		for conn := range uint64(conns) {
			go func() {
				for i := range each {
					txn := &proto.Txn{Conn: conn + 1, Op: int32(jute.OpCreate), Body: []byte(fmt.Sprint(i))}
					if err := r.f.Submit(t.Context(), txn, nil); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		l := r.announced()
		for range conns * each {
			r.commit(l, 1)
		}
		next := map[uint64]int{}
		for _, txn := range r.state.log {
			if string(txn.Body) != fmt.Sprint(next[txn.Conn]) {
				t.Fatalf("connection %d: %s after %d others", txn.Conn, txn.Body, next[txn.Conn])
			}
			next[txn.Conn]++
		}
		if len(r.state.log) != conns*each || len(r.f.outbox.lanes) != 0 || r.f.outbox.queued.blockedSubmits[0].Len() != 0 ||
			r.f.outbox.queued.queuedBytes != 0 || r.f.outbox.inFlight.totalBytes != 0 {
			t.Errorf("%d applied; left: %d lanes, %d blocked, %d and %d bytes", len(r.state.log), len(r.f.outbox.lanes), r.f.outbox.queued.blockedSubmits[0].Len(), r.f.outbox.queued.queuedBytes, r.f.outbox.inFlight.totalBytes)
		}
	})
}

// A transaction that could not be encoded is rejected, because it would break every link to a leader.
func TestSubmitText(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		txn := &proto.Txn{Conn: 1, Ids: []*proto.Identity{{Scheme: "digest", Id: "a\xff:b"}}}
		if err := r.f.Submit(t.Context(), txn, nil); !errors.Is(err, errInvalidText) {
			t.Errorf("submit: %v, want %v", err, errInvalidText)
		}
	})
}

// After a snapshot, writes that it may contain have an unknown outcome: their waiters are not
// called and they are not sent again. Later writes continue.
func TestRestored(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		id := r.session(l, 9, 0)
		var waiters []*heard
		for i := range 4 {
			waiters = append(waiters, r.submit(uint64(i), jute.OpCreate, fmt.Sprint("w", i)))
		}
		w := &heard{}
		l.sync = func(context.Context) (uint64, error) { return 90, nil }
		r.f.Sync(1, 0, w)
		synctest.Wait()
		r.state.Lock()
		r.state.index, r.state.cursor = 100, 3 // the session and w0, w1
		r.state.term = znode.Term{Term: 2, Nonce: 1002, Leader: 2, Index: 99}
		next := &fakeLeader{nonce: r.state.term.Nonce}
		r.mu.Lock()
		r.leaders[2] = next
		r.mu.Unlock()
		r.raft.term.Store(2)
		r.f.SnapshotRestored()
		r.state.Unlock()
		if r.f.IsVouched(id) {
			t.Error("a lease is left")
		}
		if got, want := next.sent(), []string{"w2", "w3"}; !slices.Equal(got, want) {
			t.Errorf("sent to the leader of the snapshot's term: %v, want %v", got, want)
		}
		if w.times() != 1 {
			t.Errorf("the sync was heard %d times", w.times())
		}
		r.apply(next.got...)
		for i, w := range waiters {
			if want := i / 2; w.times() != want {
				t.Errorf("w%d heard %d times, want %d", i, w.times(), want)
			}
		}
	})
}

// A snapshot may contain this process's announcement, or its successor's.
func TestRestoredBoot(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		restore := func(boot uint64) {
			r.state.Lock()
			defer r.state.Unlock()
			r.state.index++
			r.state.boot = boot
			r.f.SnapshotRestored()
		}
		restore(ourBoot)
		if _, err := r.f.AwaitNewSessionID(t.Context()); err != nil {
			t.Error(err)
		}
		restore(5)
		if err := <-r.ran; !errors.Is(err, ErrReplaced) {
			t.Errorf("Run: %v, want ErrReplaced", err)
		}
		r.ran <- nil
	})
}

// An offered write gets in where Submit would not wait, and leaves no trace where it would.
func TestOffer(t *testing.T) {
	bubble(t, func(c *Config) { c.MaxQueued = 2 }, func(t *testing.T, r *rig) {
		offer := func(conn uint64, body string, ids ...*proto.Identity) bool {
			return r.f.TrySubmit(&proto.Txn{Conn: conn, Op: int32(jute.OpCreate), Body: []byte(body), Ids: ids}, nil)
		}
		if !offer(1, "a1") || !offer(1, "a2") {
			t.Error("refused although there is room")
		}
		if offer(1, "a3") {
			t.Error("got in although the lanes are full")
		}
		if offer(3, "c1", &proto.Identity{Scheme: "digest", Id: "\xff"}) {
			t.Error("an identity that is no text got in")
		}
		if !offer(2, "b1") {
			t.Error("refused although nothing of the connection is unapplied")
		}
		l := r.announced()
		for range 3 {
			r.commit(l, 1)
		}
		var got []string
		for _, txn := range r.state.log {
			got = append(got, string(txn.Body))
		}
		if want := []string{"a1", "b1", "a2"}; !slices.Equal(got, want) {
			t.Errorf("log %v, want %v", got, want)
		}
	})
}
