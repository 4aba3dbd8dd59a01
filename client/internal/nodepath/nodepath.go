// Package nodepath splits the paths of nodes.
package nodepath

import "strings"

// Parent returns the path of a node's parent. The root is its own parent.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// SplitLast splits a path into that of its parent, or "" if the path has one name, and its last name.
func SplitLast(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}
