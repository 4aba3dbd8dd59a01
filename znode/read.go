package znode

import (
	"bytes"
	"slices"
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// The methods of this file need at least the read lock. A nil path is null, and the empty path is the root,
// as on the wire. If a Watcher is passed, the read and setting the watch are one step. Callers may keep the
// results, but must not change them.

// Exists returns a node's Stat. It sets a watch if the identities may read the node, and also if the node
// does not exist (NoNode).
func (s *State) Exists(path []byte, who []*proto.Identity, w Watcher) (jute.Stat, jute.Code) {
	switch {
	case path == nil:
		return jute.Stat{}, jute.MarshallingError
	case bytes.IndexByte(path, 0) >= 0:
		return jute.Stat{}, jute.BadArguments
	}
	state := &s.replicated
	n := state.tree.nodeAt(borrowString(path))
	if n == nil {
		if w != nil {
			s.watches.addDataWatch(strings.Clone(borrowString(path)), w)
		}
		return jute.Stat{}, jute.NoNode
	}
	if !state.term.mayAccess(n.acl, jute.PermRead, who) {
		return jute.Stat{}, jute.NoAuth
	}
	if w != nil {
		s.watches.addDataWatch(n.path, w)
	}
	return n.stat(), jute.OK
}

// GetData returns a node's data, nil if they are null, and its Stat. It sets a watch if the code is OK.
func (s *State) GetData(path []byte, who []*proto.Identity, w Watcher) ([]byte, jute.Stat, jute.Code) {
	n, code := s.replicated.permittedNode(path, jute.PermRead, who)
	if code != jute.OK {
		return nil, jute.Stat{}, code
	}
	if w != nil {
		s.watches.addDataWatch(n.path, w)
	}
	return n.data.bytes(), n.stat(), jute.OK
}

// Children returns the sorted names of a node's children, and its Stat. It sets a watch on the children if
// the code is OK. The names must not be used after the lock is released: see FreezeChildren.
func (s *State) Children(path []byte, who []*proto.Identity, w Watcher) (ChildNames, jute.Stat, jute.Code) {
	n, code := s.replicated.permittedNode(path, jute.PermRead, who)
	if code != jute.OK {
		return ChildNames{}, jute.Stat{}, code
	}
	if w != nil {
		s.watches.addChildWatch(n.path, w)
	}
	return n.names(), n.stat(), jute.OK
}

// ChildrenAfter returns the sorted names of a node's children after a name: up to limit of them, until they
// have size bytes. more reports whether there are others. The cost is in proportion to the result.
func (c TreeView) ChildrenAfter(
	path []byte, after string, limit, size int, who []*proto.Identity,
) (names []string, more bool, code jute.Code) {
	n, code := c.permittedNode(path, who)
	if code != jute.OK || n.sharesExtra() {
		return nil, false, code
	}
	for child := range n.children.from(nodeName(after)) {
		switch {
		case string(child) == after:
		case len(names) == limit || size <= 0:
			return names, true, jute.OK
		default:
			names = append(names, string(child))
			size -= len(child)
		}
	}
	return names, false, jute.OK
}

// GetACL returns a node's list and its Stat. Hashes of digest entries are masked for a client that may read
// but not administer the node.
func (s *State) GetACL(path []byte, who []*proto.Identity) ([]jute.ACL, jute.Stat, jute.Code) {
	state := &s.replicated
	n, code := state.permittedNode(path, jute.PermRead|jute.PermAdmin, who)
	if code != jute.OK {
		return nil, jute.Stat{}, code
	}
	return n.acl.visibleEntries(state.term.mayAccess(n.acl, jute.PermAdmin, who)), n.stat(), jute.OK
}

// NodeSize returns a node's bytes of data and number of children, or zeros if there is no such node.
func (s *State) NodeSize(path []byte) (data, children int) {
	if n := s.replicated.tree.nodeAt(borrowString(path)); n != nil {
		return n.data.len(), int(n.numChildren())
	}
	return 0, 0
}

// AllChildrenNumber returns the number of nodes below a node. As in ZooKeeper, the empty path counts one more
// than the root.
func (c TreeView) AllChildrenNumber(path []byte, who []*proto.Identity) (int32, jute.Code) {
	n, code := c.permittedNode(path, who)
	if code != jute.OK {
		return 0, code
	}
	count := c.tree.countDescendants(n)
	if len(path) == 0 {
		count++
	}
	return int32(count), jute.OK
}

// SetWatches sets the watches that a client had on another connection when it had seen all changes up to the
// relative zxid. If a node has changed since, SetWatches calls missed with the event for this client instead
// of setting a one-shot watch. The calls are in the order of the lists. Persistent watches are set without
// checking for changes. If a list or a path of a one-shot watch is null, SetWatches returns MarshallingError
// and sets nothing.
//
// For a node that the client may not read, it neither calls missed nor sets a one-shot watch, whether or not
// the node has changed: the client chooses the zxid, and CheckWatch tells it of the watch and of its end.
func (s *State) SetWatches(req *jute.SetWatches2, w Watcher, missed func(t jute.EventType, path []byte)) jute.Code {
	if !ValidSetWatches(req) {
		return jute.MarshallingError
	}
	client := nodeReader{rules: &s.replicated.term.Rules, watcher: w}
	tree := &s.replicated.tree
	for _, path := range req.Data {
		switch n := tree.nodeAt(borrowString(path)); {
		case n == nil:
			missed(jute.EventNodeDeleted, path)
		case !client.mayRead(n.acl):
		case n.mzxid > req.RelativeZxid:
			missed(jute.EventNodeDataChanged, path)
		default:
			s.watches.addDataWatch(n.path, w)
		}
	}
	for _, path := range req.Exist {
		switch n := tree.nodeAt(borrowString(path)); {
		case n == nil:
			s.watches.addDataWatch(strings.Clone(borrowString(path)), w)
		case client.mayRead(n.acl):
			missed(jute.EventNodeCreated, path)
		}
	}
	for _, path := range req.Child {
		switch n := tree.nodeAt(borrowString(path)); {
		case n == nil:
			missed(jute.EventNodeDeleted, path)
		case !client.mayRead(n.acl):
		case n.lastChildZxid() > req.RelativeZxid:
			missed(jute.EventNodeChildrenChanged, path)
		default:
			s.watches.addChildWatch(n.path, w)
		}
	}
	for _, path := range req.Persistent {
		_ = s.AddWatch(path, jute.AddWatchPersistent, w) // a valid mode, as is the next
	}
	for _, path := range req.Recursive {
		_ = s.AddWatch(path, jute.AddWatchPersistentRecursive, w)
	}
	return jute.OK
}

// nodeReader decides which nodes a connection may read. It compares the connection's identities with a list only
// once, because nodes often share their list, and a comparison can take many steps (hasAnyPerm).
type nodeReader struct {
	rules    *Rules
	watcher  Watcher
	client   principal
	verdicts map[*acl]bool // nil until a list needs a comparison
}

func (r *nodeReader) mayRead(a *acl) bool {
	if r.rules.SkipACL || a.worldPerms&jute.PermRead != 0 {
		return true
	}
	verdict, known := r.verdicts[a]
	if !known {
		if r.verdicts == nil {
			r.verdicts = make(map[*acl]bool)
		}
		verdict = r.client.setIdentities(r.watcher.Identities()).hasAnyPerm(a, jute.PermRead, r.rules)
		r.verdicts[a] = verdict
	}
	return verdict
}

// ValidSetWatches reports whether SetWatches would set the watches of a request, so that it can be served in
// parts.
func ValidSetWatches(req *jute.SetWatches2) bool {
	for _, list := range [][][]byte{req.Data, req.Exist, req.Child} {
		if list == nil || slices.ContainsFunc(list, func(path []byte) bool { return path == nil }) {
			return false
		}
	}
	return req.Persistent != nil && req.Recursive != nil
}

// permittedNode returns the node at path if one of the identities has any of the permissions on it.
func (c *replicatedState) permittedNode(path []byte, perms jute.Perm, who []*proto.Identity) (*node, jute.Code) {
	if path == nil {
		return nil, jute.MarshallingError
	}
	return checkNodeAccess(c.tree.nodeAt(borrowString(path)), perms, who, &c.term.Rules)
}

// checkNodeAccess returns n if it exists and one of the identities has any of the permissions on it.
func checkNodeAccess(n *node, perms jute.Perm, who []*proto.Identity, rules *Rules) (*node, jute.Code) {
	switch {
	case n == nil:
		return nil, jute.NoNode
	case !rules.mayAccess(n.acl, perms, who):
		return nil, jute.NoAuth
	}
	return n, jute.OK
}
