package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// refill flushes the touches and acknowledges them, with the given sessions rejected.
func (s *fakePings) refill(number uint64, refused ...int64) {
	s.t.Helper()
	s.ping(&proto.Ping{Number: number})
	s.ack(s.pong(0), refused...)
}

func (s *fakePings) ack(pong *proto.Pong, refused ...int64) {
	s.t.Helper()
	if len(pong.Batches) == 0 {
		s.t.Fatal("nothing to acknowledge")
	}
	through := pong.Batches[len(pong.Batches)-1].Number
	s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: through, Refused: refused}})
}

// A lease is valid until 0.9 of its timeout after the create was first sent, and later after the
// last acknowledged touch.
func TestVouched(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		check := func(id jute.SessionID, from time.Time, what string) {
			t.Helper()
			end := from.Add(timeout / 10 * 9)
			if !r.f.leases.isValid(id, end) || r.f.leases.isValid(id, end.Add(1)) {
				t.Errorf("%s: vouched for at 0.9 T: %t, just after: %t", what, r.f.leases.isValid(id, end), r.f.leases.isValid(id, end.Add(1)))
			}
		}
		began := time.Now()
		id := r.session(l, 8, time.Second)
		check(id, began, "created")
		if r.f.leases.isValid(id+1, began) {
			t.Error("vouches for a session that no connection holds")
		}

		r.f.Touch(id, timeout)
		heard := time.Now()
		time.Sleep(time.Second)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(time.Second)
		check(id, began, "not acknowledged")
		s.ping(&proto.Ping{Number: 2})
		s.ack(s.pong(0))
		check(id, heard, "sent twice")

		// A connection that was granted a shorter timeout than that in an old batch.
		r.f.Touch(id, 10*timeout)
		heard = time.Now()
		s.refill(3)
		check(id, heard, "touched with more than is granted")
		r.f.Touch(id, timeout/2)
		time.Sleep(time.Second)
		s.refill(4)
		check(id, heard, "touched with less than is granted")
	})
}

// A create that was sent again gives a lease from its first sending.
func TestVouchedFromFirstSending(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		began := time.Now()
		r.submit(8, jute.OpCreateSession, "new")
		synctest.Wait()
		time.Sleep(time.Second)
		r.commit(r.lead(2, 2), 1)
		end := began.Add(timeout / 10 * 9)
		if !r.f.leases.isValid(8, end) || r.f.leases.isValid(8, end.Add(1)) {
			t.Errorf("vouched for at 0.9 T: %t, just after: %t", r.f.leases.isValid(8, end), r.f.leases.isValid(8, end.Add(1)))
		}
	})
}

// If a create is applied when its lease has already run out, the leader is queried before the reply, and the lease is
// valid from then on. This works only once: later the client must be heard from.
func TestLateHandshakeIsVouchedFor(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		id := r.session(l, 8, timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(tick / flushesPerTick)
		if r.f.IsVouched(id) {
			t.Fatal("vouched for before anybody was asked")
		}
		sent := time.Now()
		result := make(chan error, 1)
		go func() { result <- r.f.Vouch(t.Context(), id) }()
		synctest.Wait()
		pong := s.pong(0)
		wantFlushed(t, pong, map[uint64][]int64{1: {8}})
		s.ack(pong)
		if err := <-result; err != nil {
			t.Errorf("Vouch: %v", err)
		}
		end := sent.Add(timeout / 10 * 9)
		if !r.f.leases.isValid(id, end) || r.f.leases.isValid(id, end.Add(1)) {
			t.Errorf("vouched for at 0.9 T: %t, just after: %t", r.f.leases.isValid(id, end), r.f.leases.isValid(id, end.Add(1)))
		}
		time.Sleep(timeout)
		if err := r.f.Vouch(t.Context(), id); !errors.Is(err, ErrNotVouched) {
			t.Errorf("Vouch of a client that has not been heard since: %v", err)
		}
		s.ping(&proto.Ping{Number: 2})
		wantFlushed(t, s.pong(0), nil)
	})
}

// What ends a lease, and what does not.
func TestLeaseEnds(t *testing.T) {
	s := znode.Session{ID: 8, Owner: znode.SessionOwner{Member: 1, Conn: 99}}
	tests := []struct {
		name string
		do   func(f *Follower)
		ends bool
	}{
		{"its connection is gone", func(f *Follower) { f.Detach(8, 8) }, true},
		{"another connection is gone", func(f *Follower) { f.Detach(8, 7) }, false},
		{"it moved away", func(f *Follower) { f.SessionAttached(s, znode.SessionOwner{Member: self, Conn: 8}) }, true},
		{"it moved, but not from here", func(f *Follower) { f.SessionAttached(s, znode.SessionOwner{Member: 1, Conn: 8}) }, false},
		{"another one moved away", func(f *Follower) { f.SessionAttached(znode.Session{ID: 9}, znode.SessionOwner{Member: self, Conn: 8}) }, false},
		{"it was closed", func(f *Follower) { f.SessionClosed(s, znode.SessionEnd{Reason: znode.ReasonClosed}) }, true},
		{"it expired", func(f *Follower) { f.SessionClosed(s, znode.SessionEnd{Reason: znode.ReasonExpired}) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				id := r.session(r.announced(), 8, 0)
				tt.do(r.f)
				if got := !r.f.IsVouched(id); got != tt.ends {
					t.Errorf("ended: %t, want %t", got, tt.ends)
				}
			})
		})
	}
}

// Vouch sends the touches at once, and all waiting calls are answered by the same flush.
func TestVouch(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		a, b := r.session(l, 1, 0), r.session(l, 2, 0)
		if err := r.f.Vouch(t.Context(), a); err != nil {
			t.Errorf("already vouched for: %v", err)
		}
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(timeout)
		r.f.Touch(a, timeout)
		r.f.Touch(b, timeout)
		began := time.Now()
		results := make(chan error)
		for range 10 {
			for _, id := range []jute.SessionID{a, b} {
				go func() { results <- r.f.Vouch(t.Context(), id) }()
			}
		}
		pong := s.pong(0)
		if pong.Number != 0 || pong.Proof != 0 {
			t.Errorf("flushed with number %d, proof %d", pong.Number, pong.Proof)
		}
		wantFlushed(t, pong, map[uint64][]int64{1: {1, 2}})
		s.silent()
		s.ack(pong)
		for range 20 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if time.Since(began) != 0 || len(r.f.leases.vouchWaits) != 0 {
			t.Errorf("took %v, %d still wait", time.Since(began), len(r.f.leases.vouchWaits))
		}
	})
}

// Flushes requested in quick succession keep their distance, and none is forgotten.
func TestFlushesKeepDistance(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		id := r.session(l, 1, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{})
		time.Sleep(timeout)
		ask := func() {
			r.f.Touch(id, timeout)
			go func() { _ = r.f.Vouch(t.Context(), id) }()
			synctest.Wait()
		}
		ask()
		if got := len(s.pong(0).Batches); got != 1 {
			t.Errorf("%d batches", got)
		}
		ask()
		s.silent()
		began := time.Now()
		if got := len(s.pong(tick).Batches); got != 2 || time.Since(began) != tick/flushesPerTick {
			t.Errorf("%d batches after %v, want 2 after %v", got, time.Since(began), tick/flushesPerTick)
		}
		time.Sleep(tick)
	})
}

// Vouch succeeds when the last touch is acknowledged. It gives up after half a tick, when the session is rejected or
// gone, and with its context.
func TestVouchEnds(t *testing.T) {
	tests := []struct {
		name  string
		do    func(r *rig, s *fakePings, cancel func())
		err   error
		after time.Duration
	}{
		{"nobody acknowledges", func(*rig, *fakePings, func()) {}, ErrNotVouched, tick / 2},
		{"acknowledged in time", func(r *rig, s *fakePings, _ func()) {
			time.Sleep(tick / 4)
			s.ack(s.pong(0))
		}, nil, tick / 4},
		{"refused", func(r *rig, s *fakePings, _ func()) { s.ack(s.pong(0), 8) }, ErrRefused, 0},
		{"detached", func(r *rig, s *fakePings, _ func()) { r.f.Detach(8, 8) }, errNotHeld, 0},
		{"expired", func(r *rig, s *fakePings, _ func()) {
			r.f.SessionClosed(znode.Session{ID: 8}, znode.SessionEnd{Reason: znode.ReasonExpired})
		}, ErrRefused, 0},
		{"given up", func(_ *rig, _ *fakePings, cancel func()) { cancel() }, context.Canceled, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				id := r.session(r.announced(), 8, 0)
				s := r.pings(1, 1001)
				defer s.cancel()
				time.Sleep(timeout)
				s.ping(&proto.Ping{Number: 1})
				s.pong(0)
				time.Sleep(tick / 4) // unasked flushes keep apart
				r.f.Touch(id, timeout)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began := time.Now()
				result := make(chan error, 1)
				go func() { result <- r.f.Vouch(ctx, id) }()
				synctest.Wait()
				tt.do(r, s, cancel)
				if err := <-result; !errors.Is(err, tt.err) || time.Since(began) != tt.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), tt.err, tt.after)
				}
				if n := len(r.f.leases.vouchWaits); n != 0 {
					t.Errorf("%d still wait", n)
				}
			})
		})
	}
	t.Run("not held", func(t *testing.T) {
		bubble(t, nil, func(t *testing.T, r *rig) {
			if err := r.f.Vouch(t.Context(), 8); !errors.Is(err, errNotHeld) {
				t.Errorf("%v, want %v", err, errNotHeld)
			}
		})
	})
}

// A Vouch that gives up leaves the others that wait for the same session waiting.
func TestOneVouchGivesUp(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		id := r.session(r.announced(), 8, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(tick / 4) // unasked flushes keep apart
		r.f.Touch(id, timeout)
		ctx, cancel := context.WithCancel(t.Context())
		first, others := make(chan error, 1), make(chan error, 2)
		go func() { first <- r.f.Vouch(ctx, id) }()
		for range cap(others) {
			go func() { others <- r.f.Vouch(t.Context(), id) }()
		}
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first one: %v, want %v", err, context.Canceled)
		}
		began := time.Now()
		s.ack(s.pong(0))
		for range cap(others) {
			if err := <-others; err != nil || time.Since(began) != 0 {
				t.Errorf("another one: %v after %v", err, time.Since(began))
			}
		}
		if n := len(r.f.leases.vouchWaits); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// A Vouch renews no lease by itself, however many events are sent to a silent client.
func TestVouchIsNoTouch(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		id := r.session(r.announced(), 8, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		s.ping(&proto.Ping{})
		time.Sleep(timeout)
		if err := r.f.Vouch(t.Context(), id); !errors.Is(err, ErrNotVouched) {
			t.Errorf("Vouch: %v, want %v", err, ErrNotVouched)
		}
		s.ping(&proto.Ping{Number: 1})
		pong := s.pong(0)
		wantFlushed(t, pong, nil)
		if pong.Number != 1 {
			t.Error("an unasked flush without anything in it")
		}
	})
}

// A session that the leader rejects is cut off and has no lease. The others keep theirs.
func TestRefused(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		a, b := r.session(l, 1, 0), r.session(l, 2, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(time.Second)
		began := time.Now()
		r.f.Touch(a, timeout)
		r.f.Touch(b, timeout)
		r.f.Touch(3, timeout) // attached nowhere here
		s.refill(1, int64(b), 3)
		if !slices.Equal(r.cut, []jute.SessionID{b}) {
			t.Errorf("cut %v, want %v", r.cut, b)
		}
		if !r.f.leases.isValid(a, began.Add(timeout/10*9)) || r.f.leases.isValid(b, began) {
			t.Errorf("vouched for: %t, %t", r.f.leases.isValid(a, began.Add(timeout/10*9)), r.f.leases.isValid(b, began))
		}
	})
}

// A rejection takes effect before this member has applied the entries that the leader has committed. Renewals wait for
// these entries.
func TestRefusedAheadOfItsCommit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		kept, refused := r.session(l, 1, 0), r.session(l, 2, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(time.Second)
		sent := time.Now()
		r.f.Touch(kept, timeout)
		r.f.Touch(refused, timeout)
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		old := &proto.Ack{Incarnation: ourBoot, Through: 1, Refused: []int64{int64(kept)}, Commit: r.state.index + 1}
		s.nonce = 999
		s.ping(&proto.Ping{Ack: old})
		if synctest.Wait(); len(r.cutSoFar()) != 0 {
			t.Error("the refusal of a leader that is not the present one counts")
		}
		s.nonce = 1001
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Refused: []int64{int64(refused)}, Commit: r.state.index + 1}})
		synctest.Wait()
		if got := r.cutSoFar(); !slices.Equal(got, []jute.SessionID{refused}) || r.f.IsVouched(refused) {
			t.Errorf("cut %v before the commit is applied, want %v", got, refused)
		}
		end := sent.Add(timeout / 10 * 9)
		if r.f.leases.isValid(kept, end) {
			t.Error("renewed before the commit is applied")
		}
		r.apply()
		synctest.Wait()
		if got := r.cutSoFar(); !r.f.leases.isValid(kept, end) || len(got) != 1 {
			t.Errorf("the commit is applied: cut %v; the other one renewed: %t", got, r.f.leases.isValid(kept, end))
		}
	})
}

// A rejection does not cut a connection that has requested to close its session: the close may be the cause of the
// rejection, which then may come before the reply. But the session has no lease any more.
func TestRefusedWhileClosing(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		closes, lives := r.session(l, 1, 0), r.session(l, 2, 0)
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(time.Second)
		r.f.Touch(closes, timeout)
		r.f.Touch(lives, timeout)
		r.submit(uint64(closes), jute.OpCloseSession, "")
		r.submit(uint64(lives), jute.OpSetData, "")
		s.refill(1, int64(closes), int64(lives))
		if got := r.cutSoFar(); !slices.Equal(got, []jute.SessionID{lives}) {
			t.Errorf("cut %v, want %v", got, lives)
		}
		if r.f.IsVouched(closes) {
			t.Error("vouches for a session that the leader refused")
		}
	})
}

// A long list of rejected sessions comes in parts, and takes effect with the last part.
func TestRefusedInParts(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		ids := []jute.SessionID{r.session(l, 1, 0), r.session(l, 2, 0), r.session(l, 3, 0), r.session(l, 4, 0)}
		s := r.pings(1, 1001)
		defer s.cancel()
		time.Sleep(timeout)
		for _, id := range ids {
			r.f.Touch(id, timeout)
		}
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Refused: []int64{1}}})
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Refused: []int64{2}}})
		if len(r.cut) != 0 {
			t.Errorf("cut %v before it is said which batches are meant", r.cut)
		}
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Refused: []int64{3}, Through: 1}})
		slices.Sort(r.cut)
		if !slices.Equal(r.cut, ids[:3]) {
			t.Errorf("cut %v, want %v", r.cut, ids[:3])
		}
		for i, id := range ids {
			if got := r.f.IsVouched(id); got != (i == 3) {
				t.Errorf("session %s vouched for: %t", id, got)
			}
		}
	})
}

// A session is not cut if it came back to this member after the rejected batch was sent. The rejection concerns the time
// when another member had the session. That batch does not renew its lease either.
func TestRefusedBeforeItCameBack(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		id := r.session(l, 1, 0)
		time.Sleep(time.Second)
		r.f.Touch(id, timeout)
		s.ping(&proto.Ping{Number: 1}) // refused, as the session has moved away
		s.pong(0)
		time.Sleep(time.Second)

		began := time.Now()
		r.submit(5, jute.OpAttach, "back")
		synctest.Wait()
		l.got[len(l.got)-1].Session = int64(id)
		time.Sleep(time.Second)
		r.f.Touch(id, timeout)
		s.ping(&proto.Ping{Number: 2}) // flushed before the attach is applied
		s.pong(0)
		r.commit(l, 1)
		time.Sleep(time.Second)
		r.f.Touch(id, timeout)
		s.ping(&proto.Ping{Number: 3})
		pong := s.pong(0)
		wantFlushed(t, pong, map[uint64][]int64{1: {1}, 2: {1}, 3: {1}})
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 1, Refused: []int64{int64(id)}}})
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 2, Refused: []int64{int64(id)}}})
		end := began.Add(timeout / 10 * 9)
		if len(r.cut) != 0 || !r.f.leases.isValid(id, end) || r.f.leases.isValid(id, end.Add(1)) {
			t.Errorf("cut %v; vouched for at 0.9 T after the attach was sent: %t, just after: %t",
				r.cut, r.f.leases.isValid(id, end), r.f.leases.isValid(id, end.Add(1)))
		}
		s.ping(&proto.Ping{Ack: &proto.Ack{Incarnation: ourBoot, Through: 3, Refused: []int64{int64(id)}}})
		if !slices.Equal(r.cut, []jute.SessionID{id}) || !slices.Equal(r.conns, []uint64{5}) {
			t.Errorf("cut %v on connections %v by a refusal of what was flushed since, want %v on 5", r.cut, r.conns, id)
		}
	})
}

// If a client was heard from and this is not acknowledged, its connection is cut when its lease
// ends, even if there is nothing to send. The client can then still find another member in time. A
// silent client's connection is left alone.
func TestLapsedConnectionIsCut(t *testing.T) {
	for _, flushed := range []bool{true, false} {
		t.Run(fmt.Sprintf("flushed=%t", flushed), func(t *testing.T) {
			bubble(t, nil, func(t *testing.T, r *rig) {
				l := r.announced()
				s := r.pings(1, 1001)
				defer s.cancel()
				began := time.Now()
				heard, silent := r.session(l, 8, 0), r.session(l, 9, 0)
				time.Sleep(timeout / 2)
				r.f.Touch(heard, timeout)
				if flushed {
					s.ping(&proto.Ping{Number: 1})
					s.pong(0)
				}
				time.Sleep(time.Until(began.Add(timeout / 10 * 9)))
				synctest.Wait()
				if got := r.cutSoFar(); len(got) > 0 {
					t.Errorf("cut %v while they are vouched for", got)
				}
				time.Sleep(r.f.cfg.Tick/lapsesPerTick + 1)
				synctest.Wait()
				if got := r.cutSoFar(); !slices.Equal(got, []jute.SessionID{heard}) || !slices.Equal(r.conns, []uint64{8}) {
					t.Errorf("cut %v on connections %v, want %v on 8 and not the silent %v", got, r.conns, heard, silent)
				}
			})
		})
	}
}
