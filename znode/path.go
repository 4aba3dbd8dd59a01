package znode

import (
	"strings"
	"unsafe"
)

// splitPath splits a path, which has a slash, into its parent and its name. The parent of a node
// right below the root is "".
func splitPath(path string) (parent, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// borrowString returns b as a string that shares its memory, so it is valid only as long as b does not
// change. Use it for lookups and never keep it.
func borrowString(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
