package shell

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// checkPath returns an error if a path is invalid. zkCli.sh checks paths before it sends a request. The
// position in the message counts UTF-16 units, as in Java.
func checkPath(path string) error {
	switch {
	case path == "":
		return zkCliError("Path length must be > 0")
	case path[0] != '/':
		return zkCliError("Path must start with / character")
	case path == "/":
		return nil
	case strings.HasSuffix(path, "/"):
		return zkCliError("Path must not end with / character")
	}
	position := 0
	for name := range strings.SplitSeq(path[1:], "/") {
		position++ // the slash before the name
		if reason, at := invalidNameReason(name); reason != "" {
			return zkCliError(fmt.Sprintf("Invalid path string \"%s\" caused by %s @%d", path, reason, position+at))
		}
		position += len(utf16.Encode([]rune(name)))
	}
	return nil
}

// invalidNameReason returns the reason why a name is invalid and the UTF-16 position, or "".
func invalidNameReason(name string) (reason string, at int) {
	switch name {
	case "":
		return "empty node name specified", 0
	case ".", "..":
		return "relative paths not allowed", len(name) - 1
	}
	for i, c := range utf16.Encode([]rune(name)) {
		switch {
		case c == 0:
			return "null character not allowed", i
		case c <= 0x1f, 0x7f <= c && c <= 0x9f, 0xd800 <= c && c <= 0xf8ff, 0xfff0 <= c:
			return "invalid character", i
		}
	}
	return "", 0
}

// joinPath returns the path of a child.
func joinPath(parent, child string) string {
	if parent == "/" {
		return parent + child
	}
	return parent + "/" + child
}
