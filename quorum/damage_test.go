package quorum

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// A leader with a damaged state is replaced even if it does not hand over. It is never a candidate
// again, even after restarts, but still stores and votes.
func TestDamagedMemberOnlyVotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		old := e.leader(1, 2, 3)
		rest := others(old)
		if why := e.members[old].node.record.DamageReason(); why != "" {
			t.Fatalf("damaged from the start: %q", why)
		}
		for _, why := range []string{"a bit", "another bit"} {
			if err := e.members[old].node.record.StoreDamage(why); err != nil {
				t.Fatal(err)
			}
		}
		next := e.leader(rest...)
		e.propose("b", rest...)
		e.wait("it to follow", func() bool { return !e.members[old].node.status.IsLeader() })

		third := rest[0] + rest[1] - next
		e.awaitApplied([]string{"a", "b"}, third) // it alone may lead soon, and the damaged one may have b
		e.kill(next)
		if l := e.leader(third, old); l != third {
			t.Errorf("member %d leads", l)
		}
		e.propose("c", third) // with the damaged one's vote, and its disk
		e.awaitApplied([]string{"a", "b", "c"}, third, old)

		e.kill(old)
		e.start(old)
		if why := e.members[old].node.record.DamageReason(); why != "a bit" {
			t.Errorf("after a restart the reason is %q", why)
		}
		e.propose("d", third)
		e.kill(third) // no member is left that may lead
		time.Sleep(20 * time.Second)
		if n := e.members[old].node; n.status.IsLeader() {
			t.Error("it leads")
		}
		peer := e.peers[third-1]
		err := e.members[old].node.transport.RequestPreVote(peer.ServerID(), raft.ServerAddress(peer.Addr), &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
		if !errors.Is(err, errDamagedState) {
			t.Errorf("asks for votes: %v", err)
		}
		e.start(third)
		if l := e.leader(third, old); l != third {
			t.Errorf("member %d leads", l)
		}

		e.kill(old)
		e.wipe(old)
		e.start(old)
		if why := e.members[old].node.record.DamageReason(); why != "" {
			t.Errorf("with an empty directory: %q", why)
		}
	})
}

// Damage is stored in the directory. A recovery removes the record, because the survivor's state is
// the best there is.
func TestRecoverDamagedMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, all := lost(t, 3, 3)
		e.start(1)
		if err := e.members[1].node.record.StoreDamage("a bit"); err != nil {
			t.Fatal(err)
		}
		e.stop(1)
		e.start(1)
		if why := e.members[1].node.record.DamageReason(); why != "a bit" {
			t.Fatalf("after a restart the reason is %q", why)
		}
		e.stop(1)
		e.recover(1)
		e.start(1, 2, 3)
		e.propose("on", 1)
		e.complete(1, 2, 3)
		if why := e.members[1].node.record.DamageReason(); why != "" {
			t.Errorf("recovered, and damaged: %q", why)
		}
		e.awaitApplied(append(all, "on"), 1, 2, 3)
	})
}
