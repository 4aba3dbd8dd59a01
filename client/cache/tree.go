package cache

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
)

// nodeBytes is the memory of a node without its data and its name, with its place in its parent's map. It was measured
// by BenchmarkLoad.
const nodeBytes = 350

// node is the copy of one node.
type node struct {
	Node
	children map[string]*node // nil: none
}

// tree has the nodes of a Cache. Its paths are relative to the root, whose path is "".
type tree struct {
	root   *node // nil: it does not exist
	bytes  int
	count  int
	newest client.Zxid // the last transaction of which the tree has a change
}

// findNode returns the node at a path, or nil.
func (t *tree) findNode(path string) *node {
	n := t.root
	for n != nil && path != "" {
		var name string
		name, path, _ = strings.Cut(path, "/")
		n = n.children[name]
	}
	return n
}

// isOlder reports whether a node as of stat is older than the copy.
func (n *node) isOlder(stat client.Stat) bool {
	return stat.Created < n.Stat.Created || stat.Created == n.Stat.Created && stat.Changed < n.Stat.Changed
}

// setNode stores a node as it was read, unless the copy is newer or the parent is missing. It returns the copy, and
// whether the copy existed and has changed.
func (t *tree) setNode(path string, data []byte, stat client.Stat) (n *node, existed, changed bool) {
	n = t.findNode(path)
	if existed = n != nil; existed {
		if n.isOlder(stat) {
			return n, true, false
		}
		changed = n.Stat.Changed != stat.Changed // a node that was created again has a later change
		t.bytes += len(data) - len(n.Data)
		n.Data, n.Stat = data, stat
		t.newest = max(t.newest, stat.Created, stat.Changed)
		return n, true, changed
	}
	n = &node{Node: Node{Data: data, Stat: stat}}
	if path == "" {
		t.root = n
	} else {
		parentPath, name := nodepath.SplitLast(path)
		parent := t.findNode(parentPath)
		if parent == nil {
			return nil, false, false
		}
		if parent.children == nil {
			parent.children = map[string]*node{}
		}
		name = strings.Clone(name)
		parent.children[name] = n
		t.bytes += len(name)
	}
	t.bytes += nodeBytes + len(data)
	t.count++
	t.newest = max(t.newest, stat.Created, stat.Changed)
	return n, false, true
}

// removeNode removes a node and all nodes below it, and calls removed with the path of each, the lowest first.
func (t *tree) removeNode(path string, removed func(path string, n *node)) {
	n := t.findNode(path)
	if n == nil {
		return
	}
	for _, name := range n.childNames() {
		t.removeNode(nodepath.Join(path, name), removed)
	}
	if path == "" {
		t.root = nil
	} else {
		parentPath, name := nodepath.SplitLast(path)
		parent := t.findNode(parentPath)
		delete(parent.children, name)
		t.bytes -= len(name)
	}
	t.bytes -= nodeBytes + len(n.Data)
	t.count--
	removed(path, n)
}

// childNames returns the names of a node's children, sorted.
func (n *node) childNames() []string { return slices.Sorted(maps.Keys(n.children)) }

// relativePath returns a path relative to the root. ok is false if the path is neither the root nor below it.
func (k *Cache) relativePath(path string) (relative string, ok bool) {
	if path == k.root {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(k.root, "/")+"/")
}

// fullPath returns the path for the Client of a path relative to the root.
func (k *Cache) fullPath(relative string) string { return nodepath.Below(k.root, relative) }

// copyOf returns a node for the caller.
func (n *node) copyOf() Node {
	c := n.Node
	c.Stat.NumChildren = len(n.children)
	return c
}

// Get returns the copy of a node. ok is false if the node is missing in the copy.
func (k *Cache) Get(path string) (n Node, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.findNode(path)
	if found == nil {
		return Node{}, false
	}
	return found.copyOf(), true
}

// findNode returns the copy of a node, or nil if it is missing in the copy. The lock is held.
func (k *Cache) findNode(path string) *node {
	relative, ok := k.relativePath(path)
	if !ok {
		return nil
	}
	return k.tree.findNode(relative)
}

// Children returns the names of a node's children, sorted. ok is false if the node is missing in the copy.
func (k *Cache) Children(path string) (names []string, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := k.findNode(path)
	if found == nil {
		return nil, false
	}
	return found.childNames(), true
}

// Range returns a node and all nodes below it with their paths, each parent before its children, and children sorted.
// Each node is as of the moment when it is passed on. Nodes that are deleted meanwhile can be left out.
func (k *Cache) Range(path string) iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) { k.rangeBelow(path, yield) }
}

func (k *Cache) rangeBelow(path string, yield func(string, Node) bool) bool {
	n, ok := k.Get(path)
	if !ok {
		return true
	}
	if !yield(path, n) {
		return false
	}
	names, _ := k.Children(path)
	for _, name := range names {
		if !k.rangeBelow(nodepath.Join(path, name), yield) {
			return false
		}
	}
	return true
}

// Size returns the number of nodes in the copy, and the bytes that count for Config.MaxBytes.
func (k *Cache) Size() (nodes, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tree.count, k.tree.bytes
}
