package znode

import "bytes"

// CorruptForTest damages the state as failing memory would: it flips a bit of a node's data, or adds a byte
// if there are none, and updates nothing else. It takes the write lock, and reports whether the node exists.
func CorruptForTest(s *State, path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	tree := &s.replicated.tree
	if tree.nodeAt(path) == nil {
		return false
	}
	n := tree.writableNode(s.gen.Load(), path)
	if n.data.len() == 0 {
		tree.setData(n, []byte{0})
		return true
	}
	data := bytes.Clone(n.data.bytes())
	data[0] ^= 1
	tree.setData(n, data)
	return true
}
