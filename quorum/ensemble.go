package quorum

import (
	"crypto/rand"
	"fmt"
	"slices"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// keyEnsemble is the key in the stable store for the ensemble that this member belongs to: 32 bytes. A member without data
// may have one of an ensemble into which it has begun to come; it counts for nothing.
var keyEnsemble = []byte("RollcallEnsemble")

// Ensemble returns the id of the ensemble that this member belongs to. It is known as soon as there are data, or as this
// member comes into an ensemble.
func (n *Node) Ensemble() (id [32]byte, known bool) {
	e := n.cfg.Book.Ensemble()
	return e, e != wire.EnsembleID{}
}

func drawEnsemble() (id wire.EnsembleID) {
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	return id
}

func writeEnsemble(stable *disk.Stable, id wire.EnsembleID) error {
	if err := stable.Set(keyEnsemble, id[:]); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// readEnsemble reads which ensemble this member's data belong to.
func (n *Node) readEnsemble() error {
	if !n.HasData() {
		return nil
	}
	stored, err := n.disk.Stable().Value(keyEnsemble)
	switch {
	case err != nil:
		return fmt.Errorf("quorum: read state: %w", err)
	case len(stored) != len(wire.EnsembleID{}):
		return fmt.Errorf("quorum: the stored ensemble is %w: %d bytes instead of %d", disk.ErrDamaged, len(stored), len(wire.EnsembleID{}))
	}
	n.cfg.Book.SetEnsemble(wire.EnsembleID(stored))
	return nil
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

// keyList is the key in the stable store for the newest server list of the ensemble that the caller has stored.
var keyList = []byte("RollcallList")

// StoreList stores the ensemble's server list, which the next process finds in List. It waits for the disk.
func (n *Node) StoreList(list []byte) error {
	if err := n.disk.Stable().Set(keyList, list); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// List returns the server list that an earlier process of this member has stored, or nil.
func (n *Node) List() []byte { return n.list }

func (n *Node) readList() (err error) {
	if n.list, err = n.disk.Stable().Value(keyList); err != nil {
		return fmt.Errorf("quorum: read state: %w", err)
	}
	return nil
}
