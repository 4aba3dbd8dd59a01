package follower

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/znode"
)

// testLeadership returns a leadership of member self, whose raft takes member 1 for its leader.
func testLeadership(raft *fakeRaft) *leadership {
	raft.leader.Store(1)
	return newLeadership(&Config{Self: self, Monotonic: monotonic.System{}, Raft: raft})
}

// A member that leads is not unlinked, nor is one that knows no leader in raft's term.
func TestUnlinkedFromNobody(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		r.announced()
		r.lead(self, 2)
		time.Sleep(20 * tick)
		if d := r.f.leadership.unreachedFor(time.Now()); d != 0 {
			t.Errorf("unlinked from itself for %v", d)
		}
		r.lead(1, 3).mute.Store(true)
		r.raft.term.Store(4)
		time.Sleep(20 * tick)
		if d := r.f.leadership.unreachedFor(time.Now()); d != 0 {
			t.Errorf("unlinked for %v from the leader of an old term", d)
		}
	})
}

// A leader may have some streams, and one more replaces the oldest. A TermStart retires the one before it in raft's
// same term, and ends its context. A snapshot's term counts only if it is newer.
func TestLeadershipKeepsTheNewest(t *testing.T) {
	var raft fakeRaft
	raft.term.Store(5)
	l := testLeadership(&raft)
	l.startTerm(znode.Term{Term: 5, Nonce: 50, Leader: 1, Index: 10}, znode.LeaderCause{})
	ping := &proto.Ping{Term: 5, Nonce: 50, Leader: 1}
	first, second := &pingStream{}, &pingStream{}
	for _, s := range []*pingStream{first, second, first, second, {}, {}, {}, second} {
		if err := l.acceptPing(s, ping); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(l.pingStreams(), s) {
			t.Error("a stream that was accepted is not kept")
		}
	}
	if err := l.acceptPing(first, ping); status.Code(err) != codes.Aborted {
		t.Errorf("the replaced stream: %v, want Aborted", err)
	}
	l.dropStream(first)
	if n := len(l.pingStreams()); n != maxLeaderStreams {
		t.Errorf("%d streams after the end of the replaced one, want %d", n, maxLeaderStreams)
	}
	old := l.currentTerm()
	l.startTerm(znode.Term{Term: 5, Nonce: 51, Leader: 1, Index: 11}, znode.LeaderCause{})
	if old.ctx.Err() == nil || l.currentTerm().Nonce != 51 {
		t.Error("the old term goes on")
	}
	if err := l.acceptPing(second, ping); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("ping of the retired nonce: %v, want FailedPrecondition", err)
	}
	for i, want := range []uint64{51, 52} {
		l.startTermIfNewer(znode.Term{Term: 5, Nonce: 52, Leader: 1, Index: uint64(11 + i)})
		if got := l.currentTerm().Nonce; got != want {
			t.Errorf("nonce %d after a snapshot with the term of index %d, want %d", got, 11+i, want)
		}
	}
}
