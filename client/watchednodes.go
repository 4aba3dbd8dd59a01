package client

import (
	"maps"
	"slices"
	"strings"

	"rollcall/client/internal/nodepath"
)

// watchedNodeBytes is the memory of one watchedNode, with its place in its parent's map, without its name.
const watchedNodeBytes = 150

// watchedNode is a Watch's knowledge of a node.
type watchedNode struct {
	created, changed, childrenChanged Zxid // NoZxid: not known

	version, childrenVersion int32
	round                    uint32                  // in which it was read; 0: it was only listed
	hidden                   bool                    // the Client may not read it
	children                 map[string]*watchedNode // nil: none, or not kept
}

// watchedNodes are the nodes that a Watch knows. In each round they are read from the root on, each parent before its
// children. A node that has been read in this round is known exactly: events and replies come in the order of the
// connection. Paths are relative to the root, whose path is "".
type watchedNodes struct {
	kind      watchKind
	root      *watchedNode // nil: it does not exist, or was never read
	rootRound uint32       // in which the root was read last; 0: never
	round     uint32
	bytes     int
}

func newWatchedNodes(kind watchKind) *watchedNodes { return &watchedNodes{kind: kind} }

// findNode returns the node at a path, or nil.
func (k *watchedNodes) findNode(path string) *watchedNode {
	n := k.root
	for n != nil && path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		n = n.children[name]
	}
	return n
}

// applyEvent changes the nodes by an event. It reports whether the event must be passed on. If the node, or the names
// of the children of its parent, are still to be read, the running comparison will find the change instead.
func (k *watchedNodes) applyEvent(e Event, path string, comparing bool) (passes bool) {
	if path == "" {
		return k.applyToRoot(e, comparing)
	}
	parentPath, name := nodepath.SplitLast(path)
	parent := k.findNode(parentPath)
	if parent == nil || parent.round != k.round {
		return !comparing
	}
	n := parent.children[name]
	switch e.Type {
	case NodeCreated:
		if n != nil {
			k.removeChild(parent, name)
		}
		k.addChild(parent, name, newWatchedNode(e.Zxid, k.round))
		parent.countChild(e.Zxid)
	case NodeDeleted:
		if n != nil {
			k.removeChild(parent, name)
		}
		parent.countChild(e.Zxid)
	case DataChanged:
		return k.applyToData(n, e, comparing)
	}
	return true
}

// lostBelow returns the paths of the nodes that are known below a node, the lowest first, if an event ends the node
// before it is read in this round. The nodes are gone, and no event of them was passed on.
func (k *watchedNodes) lostBelow(e Event, path string) (lost []string) {
	if path == "" || e.Type != NodeDeleted && e.Type != NodeCreated {
		return nil
	}
	parentPath, name := nodepath.SplitLast(path)
	parent := k.findNode(parentPath)
	if parent == nil || parent.round != k.round {
		return nil // the comparison finds that the node is gone
	}
	if n := parent.children[name]; n != nil && n.round != k.round {
		lost = n.appendBelow(lost, path)
	}
	return lost
}

// appendBelow appends the paths of the nodes below one at path, the lowest first.
func (n *watchedNode) appendBelow(paths []string, path string) []string {
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		child := nodepath.Join(path, name)
		paths = append(n.children[name].appendBelow(paths, child), child)
	}
	return paths
}

func (k *watchedNodes) applyToRoot(e Event, comparing bool) (passes bool) {
	if k.rootRound != k.round {
		return !comparing
	}
	switch e.Type {
	case NodeCreated:
		k.setRoot(newWatchedNode(e.Zxid, k.round))
	case NodeDeleted:
		k.setRoot(nil)
	case ChildrenChanged:
		if k.root != nil {
			k.root.countChild(e.Zxid)
		}
	case DataChanged:
		return k.applyToData(k.root, e, comparing)
	}
	return true
}

func (k *watchedNodes) applyToData(n *watchedNode, e Event, comparing bool) (passes bool) {
	if n == nil {
		return true
	}
	if n.round != k.round {
		return !comparing
	}
	n.changed = e.Zxid
	n.version++
	return true
}

// newWatchedNode returns a node that an event has reported.
func newWatchedNode(zxid Zxid, round uint32) *watchedNode {
	return &watchedNode{created: zxid, changed: zxid, childrenChanged: zxid, round: round}
}

// countChild records that a child was created or deleted.
func (n *watchedNode) countChild(zxid Zxid) {
	n.childrenChanged = zxid
	n.childrenVersion++
}

func (k *watchedNodes) addChild(parent *watchedNode, name string, n *watchedNode) {
	if parent.children == nil {
		parent.children = map[string]*watchedNode{}
	}
	parent.children[name] = n
	k.bytes += watchedNodeBytes + len(name)
}

// removeChild removes a child and all nodes below it.
func (k *watchedNodes) removeChild(parent *watchedNode, name string) {
	k.forgetChildren(parent.children[name])
	delete(parent.children, name)
	k.bytes -= watchedNodeBytes + len(name)
}

func (k *watchedNodes) forgetChildren(n *watchedNode) {
	for name := range n.children {
		k.removeChild(n, name)
	}
	n.children = nil
}

func (k *watchedNodes) setRoot(n *watchedNode) {
	k.root, k.bytes = n, 0
	k.rootRound = k.round
	if n != nil {
		k.bytes = watchedNodeBytes
	}
}
