package quorum

import (
	"testing"

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
