package quorum

import (
	"crypto/rand"
	"slices"

	"rollcall/quorum/wire"
)

func drawEnsemble() (id wire.EnsembleID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}

// Follows reports whether the configuration that is committed, as far as this member knows, is what the server
// list wants. Of the servers to add, to make voters or to move, only those in present count.
func (n *Node) Follows(present []uint32) bool {
	return n.status.configurationCommitted() && follows(n.status.Configuration(), n.wantedPeers(), present)
}

func follows(have, want []wire.Peer, present []uint32) bool {
	for _, h := range have {
		if w, stays := find(want, h.ID); !stays || w.Observer && !h.Observer {
			return false
		}
	}
	for _, w := range want {
		if h, in := find(have, w.ID); (!in || h.Line() != w) && slices.Contains(present, w.ID) {
			return false
		}
	}
	return true
}

// listed reports whether the state has a server list of this ensemble. Without one, the ensemble is only beginning.
func (n *Node) listed() bool {
	if n.cfg.Wanted == nil {
		return true
	}
	_, ok := n.cfg.Wanted()
	return ok
}

// wantedPeers returns the server list that raft's configuration is to follow, by id: that of the state, or the configured one
// while the state has none of this ensemble.
func (n *Node) wantedPeers() []wire.Peer {
	if n.cfg.Wanted != nil {
		if peers, ok := n.cfg.Wanted(); ok {
			return wire.Sorted(peers)
		}
	}
	return wire.Sorted(n.cfg.Peers)
}

// wants reports whether the server list wants a member to vote.
func (n *Node) wants(id uint32) bool { return slices.Contains(wire.Voters(n.wantedPeers()), id) }

// WantedChanged tells this node that Config.Wanted returns another list. It does not block.
func (n *Node) WantedChanged() {
	select {
	case n.wanted <- struct{}{}:
	default:
	}
}
