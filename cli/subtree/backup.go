package subtree

import (
	"errors"
	"fmt"

	"rollcall/operator/backup"
	"rollcall/znode"
)

// ErrNotInBackup says that a backup does not have the node that is wanted of it.
var ErrNotInBackup = errors.New("the backup has no node")

// SourceFromBackup returns the subtree at from in a backup. read reads the whole backup with all checks, and is called now and again by Source.Read. The
// nodes of the servers are left out, unless from is below theirs. Ephemeral nodes are counted and not loaded.
func (s Space) SourceFromBackup(from string, read func(znode.ImageVisitor) (backup.Head, error)) (Source, error) {
	source := Source{Summary: Summary{Path: from}}
	nodes := func(each func(*Record) error) (backup.Head, error) {
		p := &subtreePicker{space: s, top: from, onRecord: each}
		return read(znode.ImageVisitor{Node: p.pickNode})
	}
	head, err := nodes(func(n *Record) error {
		if source.Count++; source.Count == 1 && n.Owner != "" {
			return fmt.Errorf("%s is an ephemeral node, which is not restored", n.Path)
		}
		if n.Owner != "" {
			source.Ephemerals++
		}
		return nil
	})
	switch {
	case err != nil:
		return source, err
	case source.Count == 0:
		return source, fmt.Errorf("%w %s", ErrNotInBackup, s.FullPath(from))
	}
	source.Read = func(each func(*Record) error) error {
		now, err := nodes(each)
		if err == nil && (now.Index != head.Index || now.Digest != head.Digest) {
			err = errors.New("the backup was changed while it was restored")
		}
		return err
	}
	return source, nil
}

// subtreePicker picks the nodes of a subtree out of those of a backup, which come in the order of Space.Walk.
type subtreePicker struct {
	space      Space
	top        string
	onRecord   func(*Record) error
	skippedTop string // a node that is left out with all below it
}

func (p *subtreePicker) pickNode(n znode.ImageNode) error {
	path := p.space.ShortPath(n.Path)
	switch {
	case !IsBelow(n.Path, p.space.FullPath(p.top)), p.skippedTop != "" && IsBelow(path, p.skippedTop):
		return nil
	case p.space.IsServersOwn(path) && !IsBelow(p.top, ServersNode):
		p.skippedTop = path
		return nil
	}
	r := &Record{Path: path, Data: n.Data, ACL: n.ACL, Container: n.Container, TTL: n.TTLMs}
	if n.OwnerSession != 0 {
		r.Owner = n.OwnerSession.String()
	}
	return p.onRecord(r)
}
