package quorum

import (
	"testing"

	"rollcall/quorum/wire"
)

// TestStatusBeforeRaft checks what a member shows before its raft runs.
func TestStatusBeforeRaft(t *testing.T) {
	peers := []wire.Peer{{ID: 2, Addr: "two:1"}, {ID: 1, Addr: "one:1"}}
	s := &Status{addressBook: wire.NewAddressBook(1, peers), configuredPeers: peers}
	if s.Term() != 0 || s.LastIndex() != 0 || s.LastTerm() != 0 || s.LeaderID() != 0 || s.IsLeader() || s.isLeaderIn(0) {
		t.Error("raft has a state before it runs")
	}
	if s.isConfigured() || s.isVoter() || s.isOnlyVoter() || s.hasCaughtUp() || s.configurationCommitted() || s.ConfigurationHasMajorityOf(peers) {
		t.Error("this disk takes part before raft runs")
	}
	if got := s.ConfiguredMembers(); len(s.Servers()) != 0 || len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 {
		t.Errorf("the servers are %v and the configuration %v, want none and the configured list", s.Servers(), got)
	}
}
