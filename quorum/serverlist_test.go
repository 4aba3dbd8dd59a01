package quorum

import (
	"slices"
	"testing"
	"testing/synctest"

	"rollcall/quorum/wire"
)

// TestServerList checks that the configured list counts until the state has one, and that a change is not lost.
func TestServerList(t *testing.T) {
	configured := []wire.Peer{{ID: 2}, {ID: 1}}
	if l := newServerList(&Config{Peers: configured}); !l.stateHasList() || !l.wantsVote(2) {
		t.Error("without a state, the configured list does not count")
	}
	inState := false
	l := newServerList(&Config{Peers: configured, WantedServers: func() ([]wire.Peer, bool) {
		return []wire.Peer{{ID: 3}, {ID: 2, Observer: true}}, inState
	}})
	if got := l.wantedServers(); l.stateHasList() || len(got) != 2 || got[0].ID != 1 || !l.wantsVote(2) || l.wantsVote(3) {
		t.Errorf("before the state has a list, it is %v, want the configured one", got)
	}
	inState = true
	if got := l.wantedServers(); !l.stateHasList() || len(got) != 2 || got[0].ID != 2 || l.wantsVote(2) || !l.wantsVote(3) {
		t.Errorf("the list is %v, want that of the state", got)
	}
	l.notifyChanged()
	l.notifyChanged() // does not wait
	if len(l.changed) != 1 {
		t.Error("a change was lost")
	}
}

// A leader hands over to a voter that keeps its vote by the server list. If none does, it hands over to one that leaves.
func TestTransferTargetsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		rest := others(lead)
		for _, tt := range []struct{ list, want []uint32 }{
			{[]uint32{1, 2, 3}, rest},
			{[]uint32{lead, rest[1]}, rest[1:]},
			{[]uint32{lead}, rest},
		} {
			var list []wire.Peer
			for _, id := range tt.list {
				list = append(list, e.peers[id-1])
			}
			n := e.members[lead].node
			transfer := &Transfer{status: n.status, serverList: newServerList(&Config{
				WantedServers: func() ([]wire.Peer, bool) { return list, true },
			})}
			var got []uint32
			for _, p := range transfer.possibleTargets() {
				got = append(got, p.ID)
			}
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("with the list %d, member %d may hand over to %d, want %d", tt.list, lead, got, tt.want)
			}
		}
	})
}
