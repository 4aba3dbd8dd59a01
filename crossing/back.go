package crossing

import (
	"fmt"
	"io"

	"rollcall/jute"
	"rollcall/zkdata"
	"rollcall/znode"
)

// Losses says what ZooKeeper's files cannot express of a state, and what else is special about it.
type Losses struct {
	Nodes, Sessions int // that carry over
	// Born is how many of the sessions were opened in Rollcall. ZooKeeper computes a session's password from its id and
	// so does not know the ones that these clients hold: their clients get new sessions, and their ephemeral nodes go
	// when the sessions' time is over.
	Born           int
	BornEphemerals int // nodes of such sessions
	Ended          int // nodes left by sessions that have ended; they are left out
	TTLs           int // ZooKeeper removes these when it starts, unless extendedTypesEnabled is set there
}

// Back returns the state that an image has as ZooKeeper's.
func Back(image io.Reader) (*zkdata.State, Losses, error) {
	b := back{state: zkdata.NewState(), born: map[jute.SessionID]bool{}}
	if _, _, err := znode.ReadImage(image, znode.Visitor{Head: b.head, Session: b.session, Node: b.node}); err != nil {
		return nil, Losses{}, fmt.Errorf("crossing: %w", err)
	}
	b.losses.Nodes, b.losses.Sessions, b.losses.Born = b.state.Len(), len(b.state.Sessions), len(b.born)
	return b.state, b.losses, nil
}

// back fills a state of ZooKeeper's from the parts of an image.
type back struct {
	state  *zkdata.State
	born   map[jute.SessionID]bool // sessions with a password that ZooKeeper does not know
	losses Losses
}

func (b *back) head(h znode.Head) error {
	b.state.Zxid, b.state.Epoch = h.Zxid, zkdata.Epoch(h.Zxid)
	return nil
}

func (b *back) session(s znode.Session) error {
	b.state.Sessions[s.ID] = int32(s.Timeout.Milliseconds())
	if s.Password != zkdata.Password(s.ID) {
		b.born[s.ID] = true
	}
	return nil
}

func (b *back) node(n znode.Node) error {
	to := zkdata.Node{
		Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime, Mtime: n.Mtime,
		Version: n.Version, Aversion: n.Aversion, Creates: n.Creates,
	}
	switch {
	case n.Owner != 0:
		if _, lives := b.state.Sessions[n.Owner]; !lives {
			b.losses.Ended++
			return nil
		}
		if b.born[n.Owner] {
			b.losses.BornEphemerals++
		}
		to.Owner = int64(n.Owner)
	case n.Container:
		to.Owner = zkdata.ContainerOwner
	case n.TTL != 0:
		b.losses.TTLs++
		to.Owner = zkdata.TTLOwner(n.TTL)
	}
	if n.Path == configPath && n.Mzxid == 0 {
		to.Data = []byte{} // ZooKeeper writes its own text when it starts
	}
	return b.state.Add(to)
}
