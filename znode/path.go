package znode

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// ValidPath reports whether a node may have this path:
//
//   - it begins with a slash and, except for the root, does not end with one;
//   - no part of it is empty, "." or "..";
//   - it has no control character, surrogate, private or special character, and none beyond the
//     basic multilingual plane.
//
// Bytes that are not UTF-8 are read as U+FFFD, which is special.
func ValidPath(path string) bool {
	if path == rootPath {
		return true
	}
	rest, ok := strings.CutPrefix(path, "/")
	for more := true; ok && more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		ok = part != "" && part != "." && part != ".." && validName(part)
	}
	return ok
}

// validName reports whether all characters of one part of a path are allowed.
func validName(part string) bool {
	for i := 0; i < len(part); i++ {
		c := part[i]
		if c < 0x20 || c == 0x7f {
			return false
		}
		if c >= utf8.RuneSelf {
			return validRunes(part[i:])
		}
	}
	return true
}

// validRunes is validName for text that is not only ASCII.
func validRunes(part string) bool {
	for _, r := range part {
		switch {
		case r < 0x20, r >= 0x7f && r < 0xa0, r >= 0xd800 && r <= 0xf8ff, r >= 0xfff0:
			return false
		}
	}
	return true
}

// cutPath splits a path, which has a slash, into its parent and its name. The parent of a node
// right below the root is "".
func cutPath(path string) (parent, last string) {
	i := strings.LastIndexByte(path, '/')
	return path[:i], path[i+1:]
}

// borrow returns b as a string that shares its memory, so it is valid only as long as b does not
// change. Use it for lookups and never keep it.
func borrow(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}
