package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A leader is deposed while an entry of its own waits for its commit, and learns at once that another leader has committed
// something at that index. The server without a vote, which has not heard of the new leader, must not get the old entry: it would
// apply it.
func TestNonvoterGetsNothingOfADeposedLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		e.beginListed(3)
		e.start(4)
		e.propose(listPrefix+"1 2 3 (4)", 1, 2, 3)
		e.follows(1, "1 2 3 (4)")
		e.awaitJoined(4)
		if e.leader(1, 2, 3) != 1 {
			t.Fatal("member 1 does not lead")
		}
		for _, id := range []uint32{2, 3} {
			e.net.partition(1, id)
			e.net.partition(4, id)
		}
		lost := e.members[1].node.Propose([]byte("lost"), nil)
		second := e.members[2].node
		if err := second.transport.StandForElection(time.Second); err != nil {
			t.Fatal(err)
		}
		e.wait("member 2 to lead", second.status.IsLeader)
		if !e.members[1].node.status.IsLeader() {
			t.Fatal("member 1 leads no more: this shows nothing")
		}
		won := second.Propose([]byte("won"), nil)
		if err := won.Error(); err != nil {
			t.Fatal(err)
		}
		e.net.set(e.net.cut, 2, 1, false)
		e.wait("member 1 to apply", func() bool { return slices.Contains(e.members[1].machine.commands(), "won") })
		if err := e.outcome(lost); err == nil {
			t.Fatal("the entry of the former leader is committed: this shows nothing")
		}
		time.Sleep(time.Second)
		if got := e.members[4].machine.commands(); slices.Contains(got, "lost") {
			t.Errorf("the server without a vote has applied %q, and the others %q", got, second.fsm.stateMachine.(*machine).commands())
		}
		e.net.heal()
		e.wait("member 4 to apply", func() bool { return slices.Equal(e.members[4].machine.commands(), e.members[2].machine.commands()) })
	})
}
