package quorum

import (
	"slices"

	"rollcall/quorum/wire"
)

// serverList is the server list that raft's configuration follows: the one in the state, or the configured one
// while the state has none of this ensemble. It is safe for concurrent use.
type serverList struct {
	stateList       func() ([]wire.Peer, bool) // see Config.WantedServers; nil: there is no state with a list
	configuredPeers []wire.Peer
	changed         chan struct{} // see notifyChanged; one place
}

func newServerList(cfg *Config) *serverList {
	return &serverList{stateList: cfg.WantedServers, configuredPeers: cfg.Peers, changed: make(chan struct{}, 1)}
}

// wantedServers returns the list, by id.
func (l *serverList) wantedServers() []wire.Peer {
	if l.stateList != nil {
		if peers, ok := l.stateList(); ok {
			return wire.SortedByID(peers)
		}
	}
	return wire.SortedByID(l.configuredPeers)
}

func (l *serverList) wantsVote(id uint32) bool {
	return slices.Contains(wire.VoterIDs(l.wantedServers()), id)
}

// stateHasList reports whether the state has a list of this ensemble. Without one, the ensemble is only beginning.
func (l *serverList) stateHasList() bool {
	if l.stateList == nil {
		return true
	}
	_, ok := l.stateList()
	return ok
}

// notifyChanged reports that the list has changed. It does not wait.
func (l *serverList) notifyChanged() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}
