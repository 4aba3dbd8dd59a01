package client

import (
	"fmt"
	"strings"

	"rollcall/zk/jute"
)

// chroot is the path of the node that all paths of a Client begin at. It is "" for the root; otherwise it begins with a
// slash and does not end with one.
type chroot string

// CheckPath returns an ErrBadArguments unless a node may have the path. Every call does so before it sends anything: a
// chroot goes before a path as it is, so that with /app a path such as 2 would be that of another node, /app2.
func CheckPath(path string) error {
	if jute.ValidPath(path) {
		return nil
	}
	return fmt.Errorf("%w: %.200q is not a path: it must begin with a slash, must not end with one, and must have no empty "+
		"part, no . or .. and no control characters", ErrBadArguments, path)
}

// checkPath returns an ErrBadArguments unless the path of the operation is valid. A create with a sequential mode may
// have one that ends with a slash, because a number follows it.
func (o *Operation) checkPath() error {
	if o.mode.IsSequential() && strings.HasSuffix(o.path, "/") && len(o.path) > 1 {
		return CheckPath(strings.TrimSuffix(o.path, "/"))
	}
	return CheckPath(o.path)
}

// serverPath returns a path as the servers know it.
func (r chroot) serverPath(path string) string {
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

// callerPath returns a path as the caller knows it.
func (r chroot) callerPath(path string) string {
	if path == string(r) && path != "" {
		return "/"
	}
	return strings.TrimPrefix(path, string(r))
}

// createdPath returns the path of a node that was created, as the caller knows it: asked, if it has no number.
func (r chroot) createdPath(created []byte, asked string) string {
	if r == "" && string(created) == asked {
		return asked
	}
	return r.callerPath(string(created))
}

// localBelow returns a path as the caller knows it. ok is false if it is neither that of the node at prefix, which the
// caller knows, nor of one below.
func (r chroot) localBelow(path, prefix string) (local string, ok bool) {
	rest, ok := strings.CutPrefix(path, strings.TrimSuffix(r.serverPath(prefix), "/"))
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return r.callerPath(path), true
}

// joinLines returns lines as a list with commas, or nil for none.
func joinLines(lines []string) []byte {
	if lines == nil {
		return nil
	}
	return []byte(strings.Join(lines, ","))
}
