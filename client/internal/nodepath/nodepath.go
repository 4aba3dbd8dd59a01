// Package nodepath has the paths of nodes, and random names for them.
package nodepath

import (
	"crypto/rand"
	"fmt"
	"strings"
)

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

// Join returns the path of the child of parent with a name. If parent is "", it is a path relative to some node.
func Join(parent, name string) string {
	switch parent {
	case "":
		return name
	case "/":
		return parent + name
	}
	return parent + "/" + name
}

// Below returns the path of a node by its path relative to root, which is "" for root itself.
func Below(root, relative string) string {
	if relative == "" {
		return root
	}
	return Join(root, relative)
}

// NewUUID returns a random UUID.
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
