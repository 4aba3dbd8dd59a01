package follower

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// wantSum checks how many measurements a histogram has, and their sum.
func wantSum(t *testing.T, what string, got metrics.Buckets, count uint64, sum time.Duration) {
	t.Helper()
	if got.Count != count || got.Sum != sum.Seconds() {
		t.Errorf("%s: %d measurements of %v s together, want %d of %v", what, got.Count, got.Sum, count, sum)
	}
}

// A gap in the writes is counted once, with the first write that is applied after a change of leader. It
// begins with the last write applied before, or with the first one that waited. If no write waited
// when the leader changed, there is no gap.
func TestWriteGaps(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		gaps := func() metrics.Buckets { return r.f.Stats().WriteGaps }

		r.submit(8, jute.OpSetData, "a")
		time.Sleep(time.Second)
		r.commit(l, 1)
		wantSum(t, "no change of leader", gaps(), 0, 0)

		time.Sleep(time.Minute)
		l = r.lead(2, 2)
		r.submit(8, jute.OpSetData, "b")
		time.Sleep(time.Second)
		r.commit(l, 1)
		wantSum(t, "nothing waited", gaps(), 0, 0)

		time.Sleep(time.Hour)
		r.submit(8, jute.OpSetData, "c")
		time.Sleep(2 * time.Second)
		r.submit(9, jute.OpSetData, "d")
		r.submit(8, jute.OpSetData, "e")
		l = r.lead(1, 3)
		time.Sleep(time.Second)
		r.commit(l, 1)
		wantSum(t, "two waited", gaps(), 1, 3*time.Second)
		time.Sleep(time.Second)
		r.lead(2, 4)
		l = r.lead(1, 5)
		time.Sleep(time.Second)
		r.commit(l, 1)
		wantSum(t, "one waited on, over two changes", gaps(), 2, (3+2)*time.Second)
		time.Sleep(time.Second)
		r.commit(l, 1)
		wantSum(t, "the leader stays", gaps(), 2, (3+2)*time.Second)

		r.submit(7, jute.OpCreateSession, "f")
		r.lead(2, 6)
		r.f.Detach(7, 7) // its write becomes an empty one, which still waits
		time.Sleep(time.Second)
		l = r.lead(1, 7)
		r.commit(l, 1)
		wantSum(t, "the connection has ended", gaps(), 3, (3+2+1)*time.Second)
	})
}

// Before the member is announced it replays its log, and no change of leader in it is a gap.
func TestNoGapsInAReplay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.submit(8, jute.OpAttach, "a")
		time.Sleep(time.Minute)
		l := r.announced()
		r.commit(l, 1)
		wantSum(t, "the first write", r.f.Stats().WriteGaps, 0, 0)
	})
}

// The queues are as long as what is in them.
func TestQueuesAreShown(t *testing.T) {
	bubble(t, func(cfg *Config) { cfg.MaxInFlight = 1 }, func(t *testing.T, r *rig) {
		l := r.announced()
		for conn := range uint64(3) {
			r.submit(1+conn, jute.OpSetData, "12345678")
		}
		synctest.Wait()
		want := Stats{WritesInFlight: Queue{1, txnOverhead + 8}, QueuedWrites: Queue{2, 2 * (txnOverhead + 8)}}
		if s := r.f.Stats(); s.WritesInFlight != want.WritesInFlight || s.QueuedWrites != want.QueuedWrites {
			t.Errorf("sent %+v, waiting %+v; want %+v and %+v", s.WritesInFlight, s.QueuedWrites, want.WritesInFlight, want.QueuedWrites)
		}
		for range 3 {
			r.commit(l, 1)
		}
		if s := r.f.Stats(); s.WritesInFlight != (Queue{}) || s.QueuedWrites != (Queue{}) {
			t.Errorf("sent %+v, waiting %+v behind the last", s.WritesInFlight, s.QueuedWrites)
		}
	})
}

// A batch of touches counts from when it was first sent until its acknowledgement. A reply is held from
// the end of the lease until the lease is renewed or not vouched for.
func TestFlushesAndHoldsAreCounted(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		s := r.pings(1, 1001)
		defer s.cancel()
		id := r.session(l, 8, 0)
		r.f.Touch(id, timeout)
		if n := r.f.Stats().PendingTouches; n != 1 {
			t.Errorf("%d touches wait, want 1", n)
		}
		s.ping(&proto.Ping{Number: 1})
		s.pong(0)
		time.Sleep(time.Second)
		s.refill(2)
		wantSum(t, "flushed", r.f.Stats().AckDelays, 1, time.Second)
		if n := r.f.Stats().PendingTouches; n != 0 {
			t.Errorf("%d touches wait, want none", n)
		}

		time.Sleep(timeout)
		r.f.Touch(id, timeout)
		result := make(chan error, 1)
		go func() { result <- r.f.Vouch(t.Context(), id) }()
		pong := s.pong(tick)
		time.Sleep(100 * time.Millisecond)
		s.ack(pong)
		if err := <-result; err != nil {
			t.Error(err)
		}
		wantSum(t, "held", r.f.Stats().VouchWaits, 1, 100*time.Millisecond)
		if err := r.f.Vouch(t.Context(), id); err != nil {
			t.Error(err)
		}
		wantSum(t, "not held", r.f.Stats().VouchWaits, 1, 100*time.Millisecond)
	})
}
