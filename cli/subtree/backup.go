package subtree

import (
	"errors"
	"fmt"

	"rollcall/operator/backup"
	"rollcall/znode"
)

// ErrNotThere says that a backup does not have the node that is wanted of it.
var ErrNotThere = errors.New("the backup has no node")

// FromBackup returns the subtree at from in a backup. read reads the whole backup with all checks, and is called now and again by Source.Read. The
// nodes of the servers are left out, unless from is below theirs. Ephemeral nodes are counted and not loaded.
func (s Space) FromBackup(from string, read func(znode.ImageVisitor) (backup.Head, error)) (Source, error) {
	source := Source{Summary: Summary{Path: from}}
	nodes := func(each func(*Record) error) (backup.Head, error) {
		p := &pick{space: s, from: from, each: each}
		return read(znode.ImageVisitor{Node: p.node})
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
		return source, fmt.Errorf("%w %s", ErrNotThere, s.Full(from))
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

// pick picks the nodes of a subtree out of those of a backup, which come in the order of Space.Walk.
type pick struct {
	space Space
	from  string
	each  func(*Record) error
	left  string // a node that is left out with all below it
}

func (p *pick) node(n znode.ImageNode) error {
	path := p.space.Short(n.Path)
	switch {
	case !IsBelow(n.Path, p.space.Full(p.from)), p.left != "" && IsBelow(path, p.left):
		return nil
	case p.space.Own(path) && !IsBelow(p.from, Servers):
		p.left = path
		return nil
	}
	r := &Record{Path: path, Data: n.Data, ACL: n.ACL, Container: n.Container, TTL: n.TTLMs}
	if n.OwnerSession != 0 {
		r.Owner = n.OwnerSession.String()
	}
	return p.each(r)
}
