package znode

import "testing"

// A node without children and without an owner shares its record with all nodes that have the same access control list, so that a
// million of them take little memory. It still does after a snapshot was read.
func TestRestoredNodesShareTheirRecords(t *testing.T) {
	sharing := func(s *State) (paths []string) {
		s.replicated.tree.walk(func(n *node) bool {
			if n.sharesExtra() {
				paths = append(paths, n.path)
			}
			return true
		})
		return paths
	}
	w := newWorld(t)
	c := w.connect()
	for _, path := range []string{"/a", "/a/b", "/a/c", "/d"} {
		c.must(c.create(path, 0))
	}
	before := sharing(w.s())
	after := sharing(restored(t, encode(t, w.s().Snapshot())))
	if len(before) < 3 || len(after) != len(before) {
		t.Errorf("%d nodes share their records (%v), and after a restore %d (%v)", len(before), before, len(after), after)
	}
}
