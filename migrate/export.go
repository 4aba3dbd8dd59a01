package migrate

import (
	"cmp"
	"fmt"
	"io"
	"path"

	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Losses describes the parts of a state that ZooKeeper's files cannot express.
type Losses struct {
	Nodes, Sessions int // that carry over
	// NativeSessions is the number of sessions that were opened in Rollcall. ZooKeeper computes a session's password from
	// its id, so it does not know the passwords of these clients: they get new sessions, and their ephemeral nodes are
	// removed when the old sessions expire.
	NativeSessions   int
	NativeEphemerals int // nodes of such sessions
	EndedNodes       int // nodes left by sessions that have ended; they do not carry over
	TTLs             int // ZooKeeper removes these when it starts, unless extendedTypesEnabled is set there
	// UsedUpParents is the number of nodes below which sequential names have passed the last number of ZooKeeper, and
	// UsedUpParent the first of them. ZooKeeper gives that last number again there, or fails.
	UsedUpParents int
	UsedUpParent  string
}

// ToZooKeeper converts the state of an image to ZooKeeper's. term is the last one that the member knows; ZooKeeper's
// next epoch is a later one.
func ToZooKeeper(image io.Reader, term uint64) (*datadir.State, Losses, error) {
	b := exporter{state: datadir.NewState(), nativeSessions: map[jute.SessionID]bool{}, changedParents: map[string]bool{}}
	h, _, err := znode.ReadImage(image, znode.ImageVisitor{Head: b.setZxid, Session: b.addSession, Node: b.addNode})
	if err != nil {
		return nil, Losses{}, fmt.Errorf("migrate: %w", err)
	}
	if latest := max(term, h.Term.Term); latest > maxEpoch {
		return nil, Losses{}, fmt.Errorf("migrate: term %d is too high for an epoch of ZooKeeper; it must be at most %d",
			latest, maxEpoch)
	}
	b.recordRemovals()
	b.state.Epoch = max(datadir.Epoch(b.state.Zxid), int64(max(term, h.Term.Term)))
	b.losses.Nodes, b.losses.Sessions, b.losses.NativeSessions = b.state.Len(), len(b.state.Sessions),
		len(b.nativeSessions)
	return b.state, b.losses, nil
}

// exporter fills a state of ZooKeeper's from the parts of an image.
type exporter struct {
	state          *datadir.State
	nativeSessions map[jute.SessionID]bool // sessions with a password that ZooKeeper does not know
	changedParents map[string]bool         // the parents of nodes that do not carry over
	losses         Losses
}

func (b *exporter) setZxid(h znode.ImageHead) error {
	b.state.Zxid = h.Zxid
	return nil
}

// recordRemovals records the removal of the nodes that do not carry over in their parents, as a transaction of its own.
// A client that sets its watch on such a parent again is then notified that the children have changed.
func (b *exporter) recordRemovals() {
	if len(b.changedParents) == 0 {
		return
	}
	b.state.Zxid++
	for parent := range b.changedParents {
		b.state.Get(parent).Pzxid = b.state.Zxid
	}
}

func (b *exporter) addSession(s znode.Session) error {
	b.state.Sessions[s.ID] = int32(s.Timeout.Milliseconds())
	if s.Password != datadir.SessionPassword(s.ID) {
		b.nativeSessions[s.ID] = true
	}
	return nil
}

func (b *exporter) addNode(n znode.ImageNode) error {
	to := datadir.Node{
		Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime,
		Mtime:   n.Mtime,
		Version: n.Version, Aversion: n.Aversion, Creates: int32(min(n.CreateCount, jute.MaxZooKeeperSequence)),
	}
	if n.CreateCount > jute.MaxZooKeeperSequence {
		b.losses.UsedUpParents++
		b.losses.UsedUpParent = cmp.Or(b.losses.UsedUpParent, n.Path)
	}
	switch {
	case n.OwnerSession != 0:
		if _, lives := b.state.Sessions[n.OwnerSession]; !lives {
			b.losses.EndedNodes++
			b.changedParents[path.Dir(n.Path)] = true
			return nil
		}
		if b.nativeSessions[n.OwnerSession] {
			b.losses.NativeEphemerals++
		}
		to.Owner = int64(n.OwnerSession)
	case n.Container:
		to.Owner = datadir.ContainerOwner
	case n.TTLMs != 0:
		b.losses.TTLs++
		to.Owner = datadir.TTLOwner(n.TTLMs)
	}
	if n.Path == configPath && (n.Mzxid == 0 || n.Version < 0) { // ZooKeeper writes its own text when it starts
		to.Data, to.Mzxid, to.Mtime, to.Version = []byte{}, 0, 0, 0
	}
	return b.state.Add(to)
}
