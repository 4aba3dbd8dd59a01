package client

import (
	"errors"
	"slices"
	"testing"
	"unsafe"

	"rollcall/zk/jute"
)

// secondRound returns a comparison in the second round, of nodes that were known in the first one, and the events that
// it emits. What was missed lies between the transactions 100 and 200.
func secondRound(kind watchKind, root *watchedNode) (c *comparison, lines *[]string) {
	k := newWatchedNodes(kind)
	k.round = 1
	if root != nil {
		k.setRoot(root)
	}
	k.rootRound, k.round = 1, 2
	lines = &[]string{}
	c = &comparison{nodes: k, root: "/a", from: 100, now: 200, emit: func(e Event) { *lines = append(*lines, text(e)) }}
	return c, lines
}

// knownNode returns a node that was read in the first round.
func knownNode() *watchedNode {
	return &watchedNode{created: 10, changed: 20, childrenChanged: 30, version: 3, childrenVersion: 4, round: 1}
}

// A comparison of the root reports what has changed since, in the order of the transactions.
func TestCompareRoot(t *testing.T) {
	same := Stat{Created: 10, Changed: 20, ChildrenChanged: 30, Version: 3, ChildrenVersion: 4}
	with := func(change func(s *Stat)) Stat {
		s := same
		change(&s)
		return s
	}
	hidden := func() *watchedNode {
		n := knownNode()
		n.hidden = true
		return n
	}
	unsure := knownNode()
	unsure.created, unsure.changed = NoZxid, NoZxid
	for _, tt := range []struct {
		name  string
		known *watchedNode // nil: it was missing
		stat  Stat
		want  []string
	}{
		{"the same", knownNode(), same, nil},
		{"set once", knownNode(), with(func(s *Stat) { s.Changed, s.Version = 150, 4 }), []string{"data changed /a 150"}},
		{"set twice", knownNode(), with(func(s *Stat) { s.Changed, s.Version = 150, 5 }), []string{"gap /a 20-150"}},
		{"set, with the version that it had", knownNode(), with(func(s *Stat) { s.Changed = 150 }), []string{"gap /a 20-150"}},
		{"a child more", knownNode(), with(func(s *Stat) { s.ChildrenChanged, s.ChildrenVersion = 160, 5 }), []string{"children changed /a 160"}},
		{"children twice", knownNode(), with(func(s *Stat) { s.ChildrenChanged, s.ChildrenVersion = 160, 6 }), []string{"gap /a 30-160"}},
		{"children before data", knownNode(), Stat{Created: 10, Changed: 170, ChildrenChanged: 160, Version: 4, ChildrenVersion: 5}, []string{"children changed /a 160", "data changed /a 170"}},
		{"another node", knownNode(), Stat{Created: 150, Changed: 150, ChildrenChanged: 150}, []string{"gap /a 30-150"}},
		{"another node, set", knownNode(), Stat{Created: 150, Changed: 170, ChildrenChanged: 160, Version: 1, ChildrenVersion: 1}, []string{"gap /a 30-170"}},
		{"another node with children", knownNode(), Stat{Created: 150, Changed: 150, ChildrenChanged: 180, ChildrenVersion: 1}, []string{"gap /a 30-180"}},
		{"hidden before", hidden(), with(func(s *Stat) { s.Changed = 150 }), []string{"gap /a -1-150"}},
		{"hidden before, children", hidden(), with(func(s *Stat) { s.ChildrenChanged = 160 }), []string{"gap /a -1-160"}},
		{"unsure", unsure, with(func(s *Stat) { s.Created, s.Changed = 150, 150 }), nil},
		{"missing before", nil, Stat{Created: 150, Changed: 150, ChildrenChanged: 150}, []string{"gap /a 100-149", "created /a 150"}},
		{"missing before, and set", nil, Stat{Created: 150, Changed: 155, ChildrenChanged: 150, Version: 1}, []string{"gap /a 100-149", "created /a 150", "data changed /a 155"}},
		{"missing before, and set twice", nil, Stat{Created: 150, Changed: 155, ChildrenChanged: 150, Version: 2}, []string{"gap /a 100-149", "created /a 150", "gap /a 150-155"}},
		{"missing before, with a child", nil, Stat{Created: 150, Changed: 150, ChildrenChanged: 156, ChildrenVersion: 1}, []string{"gap /a 100-149", "created /a 150", "children changed /a 156"}},
		{"missing before, with children", nil, Stat{Created: 150, Changed: 150, ChildrenChanged: 156, ChildrenVersion: 2}, []string{"gap /a 100-149", "created /a 150", "gap /a 150-156"}},
	} {
		c, lines := secondRound(nodeWatch, tt.known)
		if names := c.handleRead("", nil, tt.stat, nil); names != nil {
			t.Errorf("%s: %q are to be read", tt.name, names)
		}
		if !slices.Equal(*lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, *lines, tt.want)
		}
		n := c.nodes.root
		learned := watchedNode{
			created: tt.stat.Created, changed: tt.stat.Changed, childrenChanged: tt.stat.ChildrenChanged,
			version: tt.stat.Version, childrenVersion: tt.stat.ChildrenVersion, round: 2,
		}
		if n == nil || n.created != learned.created || n.changed != learned.changed || n.childrenChanged != learned.childrenChanged ||
			n.version != learned.version || n.childrenVersion != learned.childrenVersion || n.round != 2 || n.hidden || c.nodes.rootRound != 2 {
			t.Errorf("%s: learned %+v, want %+v", tt.name, n, learned)
		}
	}
}

// The name of a child does not keep the memory of the list that it comes from.
func TestNamesKeepNoList(t *testing.T) {
	c, _ := secondRound(treeWatch, knownNode())
	list := "a name of a list, and another one"
	c.handleRead("", nil, Stat{Created: 10, ChildrenVersion: 6}, []string{list[:6], list[22:]})
	begin := uintptr(unsafe.Pointer(unsafe.StringData(list)))
	for name := range c.nodes.root.children {
		if at := uintptr(unsafe.Pointer(unsafe.StringData(name))); at >= begin && at < begin+uintptr(len(list)) {
			t.Errorf("%s shares the memory of the list", name)
		}
	}
	if n := len(c.nodes.root.children); n != 2 {
		t.Errorf("%d children are known", n)
	}
}

// A comparison of a tree reports the children that are gone, the lowest first, and a Gap if some came and went.
func TestCompareNames(t *testing.T) {
	family := func(change func(root *watchedNode)) (*comparison, *[]string) {
		root := knownNode()
		c, lines := secondRound(treeWatch, root)
		for _, name := range []string{"b", "c"} {
			c.nodes.addChild(root, name, knownNode())
		}
		c.nodes.addChild(root.children["b"], "x", knownNode())
		c.nodes.addChild(root.children["b"].children["x"], "y", knownNode())
		if change != nil {
			change(root)
		}
		return c, lines
	}
	for _, tt := range []struct {
		name     string
		change   func(root *watchedNode)
		names    []string
		children int32 // the version of the children; 4 before
		want     []string
	}{
		{"the same", nil, []string{"b", "c"}, 4, nil},
		{"one came", nil, []string{"b", "c", "d"}, 5, nil},
		{"one went", nil, []string{"b"}, 5, []string{"deleted /a/c 100--1"}},
		{"a family went", nil, []string{"c"}, 5, []string{"deleted /a/b/x/y 100--1", "deleted /a/b/x 100--1", "deleted /a/b 100--1"}},
		{"one came and one went", nil, []string{"b", "d"}, 6, []string{"deleted /a/c 100--1"}},
		{"one came and went", nil, []string{"b", "c"}, 6, []string{"gap /a 30-160"}},
		{"one came again", nil, []string{"b", "c"}, 5, []string{"gap /a 30-160"}},
		{"hidden before", func(root *watchedNode) { root.hidden = true }, []string{"b", "c"}, 6, []string{"gap /a -1-160"}},
		{"another node", func(root *watchedNode) { root.created = 5 }, []string{"b", "c"}, 6, []string{"gap /a 30-160"}},
	} {
		c, lines := family(tt.change)
		stat := Stat{Created: 10, Changed: 20, ChildrenChanged: 160, Version: 3, ChildrenVersion: tt.children}
		if toRead := c.handleRead("", nil, stat, tt.names); !slices.Equal(toRead, tt.names) {
			t.Errorf("%s: %q are to be read, want %q", tt.name, toRead, tt.names)
		}
		if !slices.Equal(*lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, *lines, tt.want)
		}
		for _, name := range []string{"b", "c", "d"} {
			if known := c.nodes.root.children[name] != nil; known != slices.Contains(tt.names, name) {
				t.Errorf("%s: %s is known: %t", tt.name, name, known)
			}
		}
	}
	c, lines := family(nil)
	c.handleRead("b", nil, Stat{Created: 10, Changed: 155, ChildrenChanged: 30, Version: 4, ChildrenVersion: 4}, []string{"x"})
	c.handleRead("d", nil, Stat{}, nil) // its parent is not read yet
	c.handleRead("e", errors.New("unreadable"), Stat{}, nil)
	c.handleRead("d/e", jute.NoNode, Stat{}, nil)
	c.handleRead("b/d", jute.NoNode, Stat{}, nil)
	c.handleRead("b/x", jute.NoNode, Stat{}, nil)
	c.handleRead("c", jute.NoAuth, Stat{}, nil)
	want := []string{"data changed /a/b 155", "deleted /a/b/x/y 100--1", "deleted /a/b/x 100--1", "gap /a/c 100-200 below"}
	if !slices.Equal(*lines, want) || c.nodes.rootRound != 1 {
		t.Errorf("%q, want %q; the root was read in round %d", *lines, want, c.nodes.rootRound)
	}
	if n := c.nodes.findNode("c"); !n.hidden || n.round != 2 {
		t.Errorf("a node that is hidden: %+v", n)
	}
}

// A root that is missing, or hidden, is reported with what was below it.
func TestCompareMissingRoot(t *testing.T) {
	family := func() *watchedNode { return knownNode() }
	for _, tt := range []struct {
		name string
		root *watchedNode
		code error
		want []string
	}{
		{"gone", family(), jute.NoNode, []string{"deleted /a/b 100--1", "deleted /a/c 100--1", "deleted /a 100--1"}},
		{"still missing", nil, jute.NoNode, []string{"gap /a 100-200"}},
		{"hidden", family(), jute.NoAuth, []string{"gap /a 100-200 below"}},
		{"missing before, and hidden", nil, jute.NoAuth, []string{"gap /a 100-200 below"}},
	} {
		c, lines := secondRound(treeWatch, tt.root)
		if tt.root != nil {
			c.nodes.addChild(tt.root, "c", knownNode())
			c.nodes.addChild(tt.root, "b", knownNode())
		}
		c.handleRead("", tt.code, Stat{}, nil)
		if !slices.Equal(*lines, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, *lines, tt.want)
		}
		if (c.nodes.root == nil) != errors.Is(tt.code, jute.NoNode) || c.nodes.rootRound != 2 {
			t.Errorf("%s: the root is %+v, of round %d", tt.name, c.nodes.root, c.nodes.rootRound)
		}
		if want := map[bool]int{true: watchedNodeBytes}[c.nodes.root != nil]; c.nodes.bytes != want {
			t.Errorf("%s: %d bytes are kept, want %d", tt.name, c.nodes.bytes, want)
		}
	}
	k := newWatchedNodes(treeWatch)
	k.round = 1
	c := &comparison{nodes: k, root: "/a", from: 100, now: 200, silent: true, emit: func(e Event) { t.Errorf("silent, and %s", text(e)) }}
	c.handleRead("", jute.NoNode, Stat{}, nil)
	c.handleRead("", nil, Stat{Created: 150, Changed: 150, ChildrenChanged: 150}, []string{"b"})
}

// A root that was never read has not come and gone.
func TestCompareFirst(t *testing.T) {
	for code, want := range map[error][]string{nil: {"created /a 150"}, jute.NoNode: nil} {
		c, lines := secondRound(nodeWatch, nil)
		c.nodes.rootRound = 0
		c.handleRead("", code, Stat{Created: 150, Changed: 150, ChildrenChanged: 150}, nil)
		if !slices.Equal(*lines, want) {
			t.Errorf("%v: %q, want %q", code, *lines, want)
		}
	}
}
