package quorum

import (
	"slices"

	"rollcall/quorum/wire"
)

// serverList is the server list that raft's configuration follows: that of the state, or the configured one
// while the state has none of this ensemble. It is safe for concurrent use.
type serverList struct {
	inState    func() ([]wire.Peer, bool) // see Config.Wanted; nil: there is no state with a list
	configured []wire.Peer
	changed    chan struct{} // see notify; one place
}

func newServerList(cfg *Config) *serverList {
	return &serverList{inState: cfg.Wanted, configured: cfg.Peers, changed: make(chan struct{}, 1)}
}

// servers returns the list, by id.
func (l *serverList) servers() []wire.Peer {
	if l.inState != nil {
		if peers, ok := l.inState(); ok {
			return wire.Sorted(peers)
		}
	}
	return wire.Sorted(l.configured)
}

// wantsVote reports whether the list wants a member to vote.
func (l *serverList) wantsVote(id uint32) bool {
	return slices.Contains(wire.Voters(l.servers()), id)
}

// begun reports whether the state has a list of this ensemble. Without one, the ensemble is only beginning.
func (l *serverList) begun() bool {
	if l.inState == nil {
		return true
	}
	_, ok := l.inState()
	return ok
}

// notify reports that the list has changed. It does not wait.
func (l *serverList) notify() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}
