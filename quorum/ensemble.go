package quorum

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// keyEnsemble is the key in the stable store for the ensemble that this member belongs to: 32 bytes, zeros
// while that is not known. Folders of earlier versions do not have it.
var keyEnsemble = []byte("RollcallEnsemble")

// Ensemble returns the id of the ensemble that this member belongs to. It is not known before this member
// has joined, or has applied what names a new ensemble; see SetEnsemble.
func (n *Node) Ensemble() (id [32]byte, known bool) {
	e := n.cfg.Book.Ensemble()
	return e, e != wire.EnsembleID{}
}

// SetEnsemble stores which ensemble this member belongs to, if it does not know. It waits for the disk.
func (n *Node) SetEnsemble(id [32]byte) error {
	if own, known := n.Ensemble(); known {
		if own != id {
			n.logger.Error("this member's log is of another ensemble than its folder", "folder", fmt.Sprintf("%x", own[:4]), "log", fmt.Sprintf("%x", id[:4]))
		}
		return nil
	}
	if err := writeEnsemble(n.disk.Stable(), id); err != nil {
		return err
	}
	n.cfg.Book.SetEnsemble(id)
	return nil
}

func writeEnsemble(stable *disk.Stable, id wire.EnsembleID) error {
	if err := stable.Set(keyEnsemble, id[:]); err != nil {
		return fmt.Errorf("quorum: write state: %w", err)
	}
	return nil
}

// readEnsemble reads which ensemble this member belongs to. Data of which nobody knows that are used only with the
// server list for which the folder was made: with another one they could get into another ensemble.
func (n *Node) readEnsemble() error {
	id, err := adoptEnsemble(n.disk)
	if err != nil {
		return err
	}
	n.cfg.Book.SetEnsemble(id)
	switch {
	case id != wire.EnsembleID{} || !n.HasData():
		return nil
	case n.alone():
		return n.nameEnsemble()
	case wire.HashOf(n.disk.Servers()) != n.cfg.Book.Hash():
		return fmt.Errorf("quorum: the data %w, and nobody knows yet which ensemble they belong to: it had [%s], configured is [%s]. The way out: configure the list that the folder has",
			disk.ErrServersChanged, strings.Join(n.disk.Servers(), ", "), strings.Join(wire.Canonical(n.cfg.Peers), ", "))
	}
	return nil
}

// nameEnsemble stores the ensemble of a member that begins a new one. A member that is alone names it itself; for
// others the first leader does (SetEnsemble).
func (n *Node) nameEnsemble() error {
	id := n.cfg.Book.Ensemble()
	if n.alone() && id == (wire.EnsembleID{}) {
		_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	}
	if err := writeEnsemble(n.disk.Stable(), id); err != nil {
		return err
	}
	n.cfg.Book.SetEnsemble(id)
	return nil
}

// adoptEnsemble returns the ensemble of a folder. The data of an earlier version get the hash of the server
// list that the folder was made for. Such members said that hash in place of an ensemble, so members of both
// versions agree.
func adoptEnsemble(data *disk.Data) (id wire.EnsembleID, err error) {
	stored, err := data.Stable().Value(keyEnsemble)
	switch {
	case err != nil:
		return id, fmt.Errorf("quorum: read state: %w", err)
	case len(stored) == len(id) && data.HasData():
		return wire.EnsembleID(stored), nil
	case len(stored) == len(id):
		return id, nil // it began to join one, and asks again
	case len(stored) != 0:
		return id, fmt.Errorf("quorum: the stored ensemble is %w: %d bytes instead of %d", disk.ErrDamaged, len(stored), len(id))
	case !data.HasData():
		return id, nil
	}
	id = wire.HashOf(data.Servers())
	return id, writeEnsemble(data.Stable(), id)
}

// Configuration returns raft's latest configuration, by id. It may not be committed. Before raft runs,
// and before it has a configuration, Configuration returns the one of which a member hears when it joins, or
// the configured servers.
func (n *Node) Configuration() []wire.Peer {
	if servers := n.Latest(); len(servers) > 0 {
		return servers
	}
	if heard := n.heard.Load(); heard != nil {
		return slices.Clone(heard.latest.servers)
	}
	return wire.Sorted(n.cfg.Peers)
}

// Latest returns raft's latest configuration, by id. It may not be committed. It is empty before raft runs, and
// before raft has one.
func (n *Node) Latest() []wire.Peer { return n.latest().servers }

// Follows reports whether the configuration that is committed, as far as this member knows, is what the server
// list wants. Of the servers to add, to make voters or to move, only those in present count.
func (n *Node) Follows(present []uint32) bool {
	have := n.Configuration()
	if c := n.committed(); len(c.servers) > 0 && !slices.Equal(have, c.servers) {
		return false
	}
	return follows(have, n.wantedPeers(), present)
}

func follows(have, want []wire.Peer, present []uint32) bool {
	for _, h := range have {
		if w, stays := find(want, h.ID); !stays || w.Observer && !h.Observer {
			return false
		}
	}
	for _, w := range want {
		if h, in := find(have, w.ID); (!in || h != w) && slices.Contains(present, w.ID) {
			return false
		}
	}
	return true
}

// Voters returns the ids of the voters in raft's latest configuration, in order.
func (n *Node) Voters() []uint32 {
	return wire.Voters(n.Configuration())
}

// configured reports whether this member is in its own latest configuration, as a voter or not.
func (n *Node) configured() bool {
	return slices.ContainsFunc(n.Configuration(), func(p wire.Peer) bool { return p.ID == n.cfg.Self })
}

// wantedPeers returns the server list that raft's configuration is to follow. If the state has none, that is the
// configured one after a recovery. Otherwise the configuration stays as it is: each leader would change it to what it
// is configured with.
func (n *Node) wantedPeers() []wire.Peer {
	if n.cfg.Wanted != nil {
		if peers, ok := n.cfg.Wanted(); ok {
			return wire.Sorted(peers)
		}
	}
	if n.Recovery() != 0 {
		return wire.Sorted(n.cfg.Peers)
	}
	return n.Configuration()
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
