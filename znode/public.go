package znode

import "rollcall/zk/jute"

// IsPublic reports whether everybody may know that a node is at path: every node above it exists, and has a list that lets
// everybody read it. It stops at the first node that is missing. The caller holds at least the read lock.
func (c TreeView) IsPublic(path string) bool {
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
