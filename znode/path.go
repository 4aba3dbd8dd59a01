package znode

import (
	"strings"
	"unsafe"
)

// splitPath splits a path into its parent and its name. The parent of a node right below the root is "". The
// path must have a slash.
func splitPath(path string) (parent, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// parentPath returns the path of a node's parent. The node is not the root.
func parentPath(path string) string {
	if parent, _ := splitPath(path); parent != "" {
		return parent
	}
	return rootPath
}

// borrowString returns b as a string that shares its memory. It is valid until b changes. Use it for lookups
// and never keep it.
func borrowString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
