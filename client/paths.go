package client

import (
	"strings"

	"rollcall/zk/jute"
)

// chroot is the path of the node that all paths of a Client begin at. It is "" for the root; otherwise it begins with a
// slash and does not end with one.
type chroot string

// full returns a path as the servers know it.
func (r chroot) full(path string) string {
	switch {
	case r == "":
		return path
	case path == "/":
		return string(r)
	}
	return string(r) + path
}

// appendPath appends a path as the servers know it, with its length before it.
func (r chroot) appendPath(b []byte, path string) []byte {
	if r != "" && path == "/" {
		path = ""
	}
	b = jute.AppendInt32(b, int32(len(r)+len(path)))
	return append(append(b, r...), path...)
}

// local returns a path as the caller knows it.
func (r chroot) local(path string) string {
	if path == string(r) && path != "" {
		return "/"
	}
	return strings.TrimPrefix(path, string(r))
}

// parentOf returns the path of a node's parent.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "/"
}

// pathBelow returns the path of a child.
func pathBelow(path, name string) string {
	switch {
	case name == "":
		return path
	case path == "/":
		return "/" + name
	}
	return path + "/" + name
}

// joined returns lines as a list with commas, or nil for none.
func joined(lines []string) []byte {
	if lines == nil {
		return nil
	}
	return []byte(strings.Join(lines, ","))
}
