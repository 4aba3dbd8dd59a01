package follower

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// The reply to a ping has the marks, with their version, and the wall clock. A proof has neither.
func TestPongHasMarks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.raft.term.Store(1)
		r.state.marks = []znode.StateHash{{Index: 3, Digest: 33}, {Index: 7, Digest: 77}}
		s := r.pings(1, 11)
		s.ping(&proto.Ping{Number: 1})
		pong := s.pong(0)
		if want := time.Now().UnixMilli(); pong.ClockMs != want {
			t.Errorf("clock %d, want %d", pong.ClockMs, want)
		}
		m := pong.StateHashes
		if m == nil || m.Version != znode.DigestVersion || len(m.Indexes) != 2 || m.Indexes[1] != 7 || len(m.Digests) != 2 || m.Digests[1] != 77 {
			t.Errorf("marks %v", m)
		}
		s.ping(&proto.Ping{Proof: 1})
		if pong := s.pong(0); pong.StateHashes != nil || pong.ClockMs != 0 {
			t.Errorf("a proof with %v", pong)
		}
		s.hangUp()
	})
}

// A member reports with each reply to a ping whether it reaches the leader's service. If it has not reached it for the
// sync limit, it closes its clients' connections, repeatedly.
func TestLeaderThatDoesNotAnswerProbes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		id := r.session(l, 9, 0)
		unlinked := func() bool {
			var last *proto.Pong
			for pong := range r.f.renewer.flushAsPongs(pingReply{number: 1}) {
				last = pong
			}
			return last.Unlinked
		}
		time.Sleep(20 * tick)
		if unlinked() || len(r.cutSoFar()) != 0 {
			t.Fatalf("unlinked %t, %v cut, with a leader that answers", unlinked(), r.cutSoFar())
		}
		l.mute.Store(true)
		time.Sleep(tick + tick/probesPerTick)
		synctest.Wait()
		if !unlinked() || r.probed.Load() == 0 {
			t.Errorf("unlinked %t a tick and a probe after the last answer, %d probes without one; want true, and one", unlinked(), r.probed.Load())
		}
		time.Sleep(2 * tick)
		r.raft.leader.Store(0) // an election: that time does not count
		time.Sleep(20 * tick)
		r.raft.leader.Store(1)
		time.Sleep(4 * tick)
		if got := r.cutSoFar(); len(got) != 0 {
			t.Errorf("%v cut before the sync limit", got)
		}
		time.Sleep(2 * tick)
		if got := r.cutSoFar(); !slices.Contains(got, id) {
			t.Errorf("%v cut past the sync limit, want %v", got, id)
		}
		l.mute.Store(false)
		time.Sleep(2 * tick)
		if unlinked() {
			t.Error("unlinked with a leader that answers again")
		}
		synctest.Wait()
		r.submit(9, jute.OpCreate, "later")
		before := len(r.cutSoFar())
		time.Sleep(2 * testSyncLimit * tick)
		if got := r.cutSoFar(); len(got) != before {
			t.Errorf("%d connections cut later on", len(got)-before)
		}
	})
}

// A member without a link to the leader closes and counts each connection once, however long its link is missing. A client
// that connects meanwhile is closed and counted, too.
func TestUnlinkedConnsAreCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raft fakeRaft
		raft.term.Store(1)
		cut := &rig{}
		cfg := &Config{
			Self: self, Boot: ourBoot, Tick: tick, SyncLimit: testSyncLimit, Clients: cut, Monotonic: monotonic.System{},
		}
		leadership := testLeadership(&raft)
		leadership.startTerm(znode.Term{Term: 1, Nonce: 5, Leader: 1, Index: 1}, znode.LeaderCause{})
		r := newRenewer(cfg, slog.New(slog.DiscardHandler), newLeases(cfg.Monotonic), leadership)
		r.leases.grantLease(8, 1, timeout, time.Now())
		r.leases.grantLease(9, 2, timeout, time.Now())
		for i := range 4 {
			if i == 2 {
				r.leases.grantLease(10, 3, timeout, time.Now())
			}
			r.closeUnlinkedConns(time.Now().Add(testSyncLimit * tick))
		}
		if got := cut.cutSoFar(); len(got) != 3 || r.counters.unlinkedConns.Load() != 3 {
			t.Errorf("closed %v, counted %d; want each of the three sessions once", got, r.counters.unlinkedConns.Load())
		}
	})
}

// A touch renews its session's lease once the leader has acknowledged it and the commit is applied here. The lease counts from
// the touch, as the leader's table does, and not from the flush.
func TestRenewer(t *testing.T) {
	t.Run("another member leads", func(t *testing.T) { testRenewer(t, 1) })
	t.Run("this member leads", func(t *testing.T) { testRenewer(t, self) })
}

func testRenewer(t *testing.T, leader uint32) {
	synctest.Test(t, func(t *testing.T) {
		var raft fakeRaft
		raft.term.Store(1)
		cut := &rig{}
		cfg := &Config{
			Self: self, Boot: ourBoot, Tick: tick, SyncLimit: testSyncLimit, State: &fakeState{}, Clients: cut, Monotonic: monotonic.System{},
			Raft: &raft, WallClock: time.Now,
		}
		leadership := testLeadership(&raft)
		leadership.startTerm(znode.Term{Term: 1, Nonce: 5, Leader: leader, Index: 1}, znode.LeaderCause{})
		r := newRenewer(cfg, slog.New(slog.DiscardHandler), newLeases(cfg.Monotonic), leadership)
		r.leases.grantLease(9, 1, timeout, time.Now())
		r.leases.stampNewLeases(time.Now())
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = r.ackLoop(ctx) }()
		time.Sleep(tick)
		r.touches.Touch(9, timeout, time.Now())
		end := time.Now().Add(leaseSpan(timeout))
		time.Sleep(tick / 4)
		for pong := range r.flushAsPongs(pingReply{number: 1}) {
			if len(pong.Batches) != 1 || len(pong.Batches[0].Sessions) != 1 {
				t.Fatalf("pong %v, want one touch", pong)
			}
			if err := r.acks.queueAckFrom(&proto.Ping{Nonce: 5, Ack: &proto.Ack{Incarnation: ourBoot, Through: pong.Batches[0].Number, Commit: 2}}); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if r.leases.isValid(9, end) {
			t.Error("renewed before the commit is applied")
		}
		r.appliedIndex.Store(2)
		r.acks.signalIfDue(2)
		synctest.Wait()
		if !r.leases.isValid(9, end) || r.leases.isValid(9, end.Add(1)) || len(cut.cutSoFar()) != 0 {
			t.Error("not renewed from the touch on, or for too long")
		}
	})
}

// hangUp ends the stream, and waits for its end.
func (s *fakePings) hangUp() {
	s.cancel()
	err := <-s.ended
	s.t.Logf("the stream ended: %v", err)
}
