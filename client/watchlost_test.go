package client

import (
	"slices"
	"testing"
)

// A node that is deleted before a comparison has come to it takes those with it that were known below it. When it has
// been read, its children have events of their own.
func TestLostBelow(t *testing.T) {
	nodes := newWatchedNodes(treeWatch)
	nodes.round = 1
	root, parent := &watchedNode{round: 1}, &watchedNode{round: 1}
	nodes.setRoot(root)
	nodes.addChild(root, "parent", parent)
	nodes.addChild(parent, "b", &watchedNode{round: 1})
	nodes.addChild(parent, "a", &watchedNode{round: 1})
	nodes.addChild(parent.children["a"], "x", &watchedNode{round: 1})
	lost := func(typ EventType, path string, want ...string) {
		t.Helper()
		if got := nodes.lostBelow(Event{Type: typ}, path); !slices.Equal(got, want) {
			t.Errorf("%v of %s: lost %q, want %q", typ, path, got, want)
		}
	}
	nodes.round = 2
	lost(NodeDeleted, "parent") // the root is still to be read
	root.round = 2
	lost(NodeDeleted, "parent", "parent/a/x", "parent/a", "parent/b")
	lost(NodeCreated, "parent", "parent/a/x", "parent/a", "parent/b")
	lost(DataChanged, "parent")
	lost(NodeDeleted, "parent/a") // the comparison finds that
	lost(NodeDeleted, "other")
	parent.round = 2
	lost(NodeDeleted, "parent")
}

// A node whose deletion was not reported has nothing below it when it is created again.
func TestCreatedAgain(t *testing.T) {
	nodes := newWatchedNodes(treeWatch)
	nodes.setRoot(&watchedNode{})
	nodes.addChild(nodes.root, "parent", &watchedNode{})
	before := nodes.bytes
	nodes.addChild(nodes.root.children["parent"], "a", &watchedNode{})
	if !nodes.applyEvent(Event{Type: NodeCreated, Zxid: 9}, "parent", false) {
		t.Error("the event is held back")
	}
	if n := nodes.findNode("parent"); n == nil || n.created != 9 || len(n.children) > 0 || nodes.bytes != before {
		t.Errorf("%+v, %d bytes, want %d", n, nodes.bytes, before)
	}
}
