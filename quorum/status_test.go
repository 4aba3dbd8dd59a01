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
	if s.isConfigured() || s.isVoter() || s.isOnlyVoter() || s.hasCaughtUp() || s.configurationCommitted() ||
		s.HasFoundingMajority(peers, false) {
		t.Error("this disk takes part before raft runs")
	}
	if got := s.ConfiguredMembers(); len(s.Servers()) != 0 || len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 {
		t.Errorf("the servers are %v and the configuration %v, want none and the configured list", s.Servers(), got)
	}
}

// TestHasFoundingMajority checks who must vote before an ensemble serves for the first time.
func TestHasFoundingMajority(t *testing.T) {
	for _, tt := range []struct {
		listed, voting    []uint32
		byAll, byMajority bool
	}{
		{[]uint32{1}, []uint32{1}, true, true},
		{[]uint32{1, 2}, []uint32{1}, false, false},
		{[]uint32{1, 2}, []uint32{1, 2}, true, true},
		{[]uint32{1, 2, 3}, []uint32{1, 2}, false, true},
		{[]uint32{1, 2, 3}, []uint32{1, 2, 4}, false, true},
		{[]uint32{1, 2, 3}, []uint32{2, 3}, true, true},
		{[]uint32{1, 2, 3, 4}, []uint32{2, 3}, false, false},
		{[]uint32{1, 2, 3, 4}, []uint32{1, 2, 4}, true, true},
		{[]uint32{1, 2, 3, 4, 5}, []uint32{1, 3, 5}, false, true},
		{[]uint32{1, 2, 3, 4, 5}, []uint32{1, 2, 3, 5}, true, true},
	} {
		if byAll, byMajority := hasFoundingMajority(tt.listed, tt.voting, true), hasFoundingMajority(tt.listed, tt.voting, false); byAll != tt.byAll || byMajority != tt.byMajority {
			t.Errorf("%v of %v vote: may serve if founded by all: %t, by a majority: %t", tt.voting, tt.listed, byAll, byMajority)
		}
	}
}
