package znode

import (
	"bytes"
	"iter"

	"rollcall/zk/jute"
)

// NodeDifference is a node that differs between two trees, an earlier and a later one.
type NodeDifference struct {
	Path          string
	Before, After *jute.Stat // nil if the tree has no such node
	// What differs of a node that both trees have. A node that was deleted and created again has another Czxid.
	Data, ACL, Owner bool
}

// DiffTrees calls each with the nodes at and below top that differ between two trees, in the order of a walk, until it returns
// false. A node whose children alone have changed is not among them. Parts that a frozen copy still shares with the tree cost
// nothing. Memory grows with the depth of the trees.
func DiffTrees(before, after TreeView, top string, each func(NodeDifference) bool) {
	diffNode(before.tree.nodeAt(top), after.tree.nodeAt(top), each)
}

// diffNode compares the subtrees at two nodes with the same path, of which one may be nil. It reports whether to continue.
func diffNode(x, y *node, each func(NodeDifference) bool) bool {
	if x == y {
		return true
	}
	if d, differs := compareNodes(x, y); differs && !each(d) {
		return false
	}
	nextX, stopX := iter.Pull(childrenOf(x))
	defer stopX()
	nextY, stopY := iter.Pull(childrenOf(y))
	defer stopY()
	a, moreX := nextX()
	b, moreY := nextY()
	for moreX || moreY {
		left, right := a, b
		switch {
		case !moreX || moreY && b.path < a.path:
			left = nil
		case !moreY || a.path < b.path:
			right = nil
		}
		if !diffNode(left, right, each) {
			return false
		}
		if left != nil {
			a, moreX = nextX()
		}
		if right != nil {
			b, moreY = nextY()
		}
	}
	return true
}

// childrenOf yields the children of a node, which may be nil, in order.
func childrenOf(n *node) iter.Seq[*node] {
	return func(yield func(*node) bool) {
		if n == nil || n.sharesExtra() {
			return
		}
		for child := range n.children.values() {
			if !yield(child) {
				return
			}
		}
	}
}

// compareNodes returns the difference of two nodes, of which one may be nil, and whether there is one.
func compareNodes(x, y *node) (d NodeDifference, differs bool) {
	if x != nil {
		stat := x.stat()
		d.Path, d.Before = x.path, &stat
	}
	if y != nil {
		stat := y.stat()
		d.Path, d.After = y.path, &stat
	}
	if x == nil || y == nil {
		return d, true
	}
	d.Data = d.Before.Version != d.After.Version || !bytes.Equal(x.data.bytes(), y.data.bytes())
	d.ACL = d.Before.Aversion != d.After.Aversion || x.acl.text != y.acl.text
	d.Owner = d.Before.EphemeralOwner != d.After.EphemeralOwner
	return d, d.Data || d.ACL || d.Owner || d.Before.Czxid != d.After.Czxid
}
