package migrate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"rollcall/migrate/datadir"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// WriteImage writes the planned state as an image, and returns its digest. It returns an error if the plan has
// Rejections.
func (p *ImportPlan) WriteImage(w io.Writer) (digest uint64, err error) {
	if len(p.Rejections) > 0 {
		return 0, errors.New("migrate: " + strings.Join(p.Rejections, "; "))
	}
	out, err := znode.NewImageWriter(w, p.ImageHead())
	if err != nil {
		return 0, err
	}
	for _, id := range sessionIDs(p.state) {
		if err := out.WriteSession(p.imageSession(id)); err != nil {
			return 0, err
		}
	}
	if err := p.state.Walk(func(n *datadir.Node) error { return out.WriteNode(p.imageNode(n)) }); err != nil {
		return 0, err
	}
	digest, err = out.Close()
	if err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	return digest, nil
}

// ImageHead returns the head of the image.
func (p *ImportPlan) ImageHead() znode.ImageHead {
	return znode.ImageHead{
		Index: firstImageIndex, Zxid: p.Zxid, TimeMs: p.Now, Term: znode.Term{Term: p.Term, Index: firstImageIndex},
		Members: p.highestSessionIDs(), SessionCount: uint64(p.Sessions), NodeCount: uint64(p.Nodes),
	}
}

// imageSession returns a session with its client's password, which ZooKeeper computes from the id. ZooKeeper's files do
// not have the time when a session was opened, so CreatedMs is the time of the last change.
func (p *ImportPlan) imageSession(id jute.SessionID) znode.Session {
	return znode.Session{
		ID: id, Timeout: time.Duration(p.state.Sessions[id]) * time.Millisecond, Password: datadir.SessionPassword(id),
		OwnerIndex: firstImageIndex, CreatedMs: p.Now,
	}
}

// imageNode converts a node for the image.
func (p *ImportPlan) imageNode(n *datadir.Node) znode.ImageNode {
	to := znode.ImageNode{
		Path: n.Path, Data: n.Data, ACL: n.ACL, Czxid: n.Czxid, Mzxid: n.Mzxid, Pzxid: n.Pzxid, Ctime: n.Ctime,
		Mtime:   n.Mtime,
		Version: n.Version, Aversion: n.Aversion, CreateCount: int64(n.Creates),
	}
	switch p.state.Kind(n) {
	case datadir.Ephemeral:
		to.OwnerSession = jute.SessionID(n.Owner)
	case datadir.Container:
		to.Container = true
	case datadir.TTL:
		to.TTLMs = n.TTL()
	}
	if n.Path == configPath && !isSetByClient(n) { // every member keeps its own text there
		to.Data, to.Mzxid, to.Mtime, to.Version = nil, 0, 0, 0
	}
	return to
}
