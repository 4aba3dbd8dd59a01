package jute

import (
	"strings"
	"unicode/utf8"
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
	if path == "/" {
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
