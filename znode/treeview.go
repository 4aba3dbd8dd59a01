package znode

import (
	"bytes"
	"iter"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// ChildNames lists the names of a node's children as they were when it was taken. It never changes, and needs
// no lock. The zero value is empty.
type ChildNames struct {
	children     sortedMap[nodeName, *node]
	prefixLength int // of the parent and a slash in each path
}

// Count returns the number of names.
func (l ChildNames) Count() int { return l.children.length }

// All yields the names in order.
func (l ChildNames) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for child := range l.children.values() {
			if !yield(child.path[l.prefixLength:]) {
				return
			}
		}
	}
}

func (n *node) names() ChildNames {
	if n.sharesExtra() {
		return ChildNames{}
	}
	return ChildNames{n.children, len(strings.TrimSuffix(n.path, rootPath)) + len("/")}
}

// EphemeralPaths lists the paths of a session's ephemeral nodes as they were when it was taken. It never
// changes, and needs no lock.
type EphemeralPaths struct {
	ephemerals sortedMap[ephemeralKey, struct{}]
	owner      jute.SessionID
	prefix     string
}

// ephemeralsWithPrefix returns the paths that begin with prefix. A prefix that is null, blank or "/" selects all;
// spaces and control characters around the slash are ignored.
func (t *tree) ephemeralsWithPrefix(id jute.SessionID, prefix []byte) EphemeralPaths {
	switch string(bytes.TrimFunc(prefix, func(r rune) bool { return r <= ' ' })) {
	case "", rootPath:
		prefix = nil
	}
	return EphemeralPaths{t.ephemerals, id, string(prefix)}
}

// All yields the paths in order.
func (l EphemeralPaths) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		for e := range l.ephemerals.from(ephemeralKey{l.owner, l.prefix}) {
			if e.owner != l.owner || !strings.HasPrefix(e.path, l.prefix) || !yield(e.path) {
				return
			}
		}
	}
}

// MoreThan reports whether there are more than n paths, in at most n+1 steps.
func (l EphemeralPaths) MoreThan(n int) bool {
	for range l.All() {
		if n--; n < 0 {
			return true
		}
	}
	return false
}

// TreeView is the tree at one time, for reads that set no watch.
type TreeView struct {
	tree  tree
	rules Rules
}

// TreeView returns the present tree. It must not be used after the lock is released.
func (s *State) TreeView() TreeView {
	return TreeView{tree: s.replicated.tree, rules: s.replicated.term.Rules}
}

// FreezeTree returns a copy of the tree in O(1). It never changes, and needs no lock. From then on, a node of
// the copy is copied before it changes, with all nodes above it, so callers make few copies.
func (s *State) FreezeTree() TreeView {
	c := TreeView{tree: s.replicated.tree.copy(), rules: s.replicated.term.Rules}
	s.gen.Add(1)
	return c
}

// FreezeChildren is Children for a list that is read without the lock, at the same cost for any number of
// names. The next change of a node copies it, as after FreezeTree.
func (s *State) FreezeChildren(path []byte, who []*proto.Identity, w Watcher) (ChildNames, jute.Stat, jute.Code) {
	names, stat, code := s.Children(path, who, w)
	if code == jute.OK {
		s.gen.Add(1)
	}
	return names, stat, code
}

// GetData is State.GetData.
func (c TreeView) GetData(path []byte, who []*proto.Identity) ([]byte, jute.Stat, jute.Code) {
	n, code := c.permittedNode(path, who)
	if code != jute.OK {
		return nil, jute.Stat{}, code
	}
	return n.data.bytes(), n.stat(), jute.OK
}

// Children lists the names of a node's children.
func (c TreeView) Children(path []byte, who []*proto.Identity) (ChildNames, jute.Code) {
	n, code := c.permittedNode(path, who)
	if code != jute.OK {
		return ChildNames{}, code
	}
	return n.names(), jute.OK
}

// Ephemerals lists the paths of a session's ephemeral nodes that begin with prefix, in order. See
// ephemeralsWithPrefix.
func (c TreeView) Ephemerals(id jute.SessionID, prefix []byte) EphemeralPaths {
	return c.tree.ephemeralsWithPrefix(id, prefix)
}

func (c TreeView) permittedNode(path []byte, who []*proto.Identity) (*node, jute.Code) {
	if path == nil {
		return nil, jute.MarshallingError
	}
	return checkNodeAccess(c.tree.nodeAt(borrowString(path)), jute.PermRead, who, &c.rules)
}

// HasPublicAncestors reports whether everyone may know that a node is at path: all nodes above exist, and their lists
// let everyone read them. The caller holds at least the read lock.
func (c TreeView) HasPublicAncestors(path string) bool {
	for end := range len(path) {
		if path[end] != '/' {
			continue
		}
		above := c.tree.nodeAt(path[:end])
		if above == nil || !c.rules.mayAccess(above.acl, jute.PermRead, nil) {
			return false
		}
	}
	return path != ""
}
