package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
)

// causeOf returns the kind of the cause for which a member leads, and the member that it names.
func (e *ensemble) causeOf(leader uint32) (proto.LeaderCauseKind, uint32) {
	n := e.members[leader].node
	cause := n.LeaderCauses().Cause(n.Status().Term())
	return cause.Kind, cause.Former
}

// timeoutNow sends one member's request to stand for election to another, whether or not it leads.
func (e *ensemble) timeoutNow(from, to uint32) error {
	self, p := e.members[from].node.status.selfPeer(), e.members[to].server
	req := &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(self.ServerID()), Addr: []byte(self.ServerAddress())}}
	return e.members[from].node.transport.TimeoutNow(p.ServerID(), p.ServerAddress(), req, new(raft.TimeoutNowResponse))
}

// A hand-over that this member has rejected is no cause: neither one of a member that does not lead, nor a late one of a
// leader that was deposed.
func TestRejectedHandOverIsNoCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		forger, heir := others(lead)[0], others(lead)[1]
		e.handOverTo(lead, heir)
		if got := e.leader(1, 2, 3); got != heir {
			t.Fatalf("member %d leads, want %d", got, heir)
		}
		if kind, former := e.causeOf(heir); kind != proto.LeaderCauseKind_LEADER_CAUSE_HANDED_OVER || former != lead {
			t.Errorf("cause %v of member %d, want a hand-over of member %d", kind, former, lead)
		}
		for _, from := range []uint32{forger, lead} { // lead was deposed
			to := forger
			if from == forger {
				to = lead
			}
			if err := e.timeoutNow(from, to); err == nil {
				t.Errorf("member %d takes the leadership that member %d does not have", to, from)
			}
		}
		time.Sleep(standCooldown * time.Second)
		e.kill(heir)
		next := e.leader(e.membersExcept(heir)...)
		if kind, former := e.causeOf(next); kind != proto.LeaderCauseKind_LEADER_CAUSE_DIED || former != heir {
			t.Errorf("cause %v of member %d, want the death of member %d", kind, former, heir)
		}
	})
}

// A live leader that looks dead for a moment is replaced for that reason. The false detection is not the cause of the
// next change, which happens because the leader is silent.
func TestCauseAfterAFalseDetection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		time.Sleep(standCooldown * time.Second)
		e.forge(lead)
		next := e.leader(1, 2, 3)
		if kind, former := e.causeOf(next); kind != proto.LeaderCauseKind_LEADER_CAUSE_DIED || former != lead {
			t.Fatalf("cause %v of member %d, want the believed death of member %d", kind, former, lead)
		}
		time.Sleep(time.Second)
		for _, other := range e.membersExcept(next) {
			e.net.partition(next, other)
		}
		last := e.leader(e.membersExcept(next)...)
		if kind, former := e.causeOf(last); kind != proto.LeaderCauseKind_LEADER_CAUSE_SILENT || former != next {
			t.Errorf("cause %v of member %d, want the silence of member %d", kind, former, next)
		}
		e.net.heal()
	})
}
