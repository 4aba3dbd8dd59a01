package znode

import (
	"bytes"
	"iter"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Names lists the names of a node's children as they were when it was taken. It never changes, and needs no lock. The zero value
// is empty.
type Names struct {
	children sorted[name, *node]
	skip     int // where the names begin in the paths
}

// Count returns the number of names.
func (l Names) Count() int { return l.children.n }

// All yields the names in order.
func (l Names) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for child := range l.children.values() {
			if !yield(child.path[l.skip:]) {
				return
			}
		}
	}
}

func (n *node) names() Names {
	if n.plain() {
		return Names{}
	}
	return Names{n.children, len(strings.TrimSuffix(n.path, rootPath)) + len("/")}
}

// OwnedPaths lists the paths of a session's ephemeral nodes as they were when it was taken. It never changes, and needs no lock.
type OwnedPaths struct {
	ephemerals sorted[ephemeral, struct{}]
	owner      jute.SessionID
	prefix     string
}

// ownedPaths returns the paths that begin with prefix. A prefix that is null, blank or "/" selects all; spaces and control
// characters around the slash are ignored.
func (t *tree) ownedPaths(id jute.SessionID, prefix []byte) OwnedPaths {
	switch string(bytes.TrimFunc(prefix, func(r rune) bool { return r <= ' ' })) {
	case "", rootPath:
		prefix = nil
	}
	return OwnedPaths{t.ephemerals, id, string(prefix)}
}

// All yields the paths in order.
func (l OwnedPaths) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range l.ephemerals.from(ephemeral{l.owner, l.prefix}) {
			if e.owner != l.owner || !strings.HasPrefix(e.path, l.prefix) || !yield(e.path) {
				return
			}
		}
	}
}

// MoreThan reports whether there are more than n paths. It costs n steps at most.
func (l OwnedPaths) MoreThan(n int) bool {
	for range l.All() {
		if n--; n < 0 {
			return true
		}
	}
	return false
}

// Copy is the tree at one time, for reads. Nothing watches what is read of it.
type Copy struct {
	tree  tree
	rules Rules
}

// Look returns the tree as it is now. It must not be used after the lock is released.
func (s *State) Look() Copy { return Copy{tree: s.tree, rules: s.term.Rules} }

// Freeze returns a copy of the tree in O(1). It never changes, and needs no lock. From then on, a node that the copy has is itself
// copied before it changes, with the nodes above it, so callers make few copies.
func (s *State) Freeze() Copy {
	c := Copy{tree: s.tree.copy(), rules: s.term.Rules}
	s.gen.Add(1)
	return c
}

// FreezeNames is Children for a list that is read without the lock: it costs the same for any number of names. What Freeze says of
// copies holds for it too.
func (s *State) FreezeNames(path []byte, who []*proto.Identity, w Watcher) (Names, jute.Stat, jute.Code) {
	n, code := s.read(path, jute.PermRead, who)
	if code != jute.OK {
		return Names{}, jute.Stat{}, code
	}
	if w != nil {
		s.watches.watchChildren(n.path, w)
	}
	s.gen.Add(1)
	return n.names(), n.stat(), jute.OK
}

// GetData is State.GetData.
func (c Copy) GetData(path []byte, who []*proto.Identity) ([]byte, jute.Stat, jute.Code) {
	n, code := c.read(path, who)
	if code != jute.OK {
		return nil, jute.Stat{}, code
	}
	return n.data.bytes(), n.stat(), jute.OK
}

// Children lists the names of a node's children.
func (c Copy) Children(path []byte, who []*proto.Identity) (Names, jute.Code) {
	n, code := c.read(path, who)
	if code != jute.OK {
		return Names{}, code
	}
	return n.names(), jute.OK
}

// Ephemerals lists the paths that State.GetEphemerals returns.
func (c Copy) Ephemerals(id jute.SessionID, prefix []byte) OwnedPaths {
	return c.tree.ownedPaths(id, prefix)
}

func (c Copy) read(path []byte, who []*proto.Identity) (*node, jute.Code) {
	if path == nil {
		return nil, jute.MarshallingError
	}
	return readable(c.tree.get(borrow(path)), jute.PermRead, who, &c.rules)
}
