package follower

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// A member reports with each answer to a ping whether it reaches the leader's service. If it has
// not for the sync limit, it closes its clients' connections, repeatedly.
func TestLeaderThatDoesNotAnswerProbes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		id := r.session(l, 9, 0)
		unlinked := func() bool {
			var last *proto.Pong
			for pong := range r.f.pongs(1) {
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
		r.raftLeader.Store(0) // an election: that time does not count
		time.Sleep(20 * tick)
		r.raftLeader.Store(1)
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

// A member that leads is not unlinked, nor is one that knows no leader in raft's term.
func TestUnlinkedFromNobody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		r.lead(self, 2)
		time.Sleep(20 * tick)
		if d := r.f.unlinked(time.Now()); d != 0 {
			t.Errorf("unlinked from itself for %v", d)
		}
		r.lead(1, 3).mute.Store(true)
		r.raftTerm.Store(4)
		time.Sleep(20 * tick)
		if d := r.f.unlinked(time.Now()); d != 0 {
			t.Errorf("unlinked for %v from the leader of an old term", d)
		}
	})
}
