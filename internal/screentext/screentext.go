// Package screentext prepares text that others chose, such as paths and addresses, for terminals and reports. It
// escapes what a terminal would obey, and measures and cuts text by the columns that it takes.
package screentext

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Escape replaces control characters, escape sequences, bidirectional controls and invalid UTF-8 with escapes such
// as \x1b and \u202e.
func Escape(text string) string {
	if IsPrintableASCII(text) {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 1<<16:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
	}
	return b.String()
}

// IsPrintableASCII reports whether text has only the characters from space to ~.
func IsPrintableASCII[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// Truncate returns the longest beginning of escaped text that takes at most so many columns.
func Truncate(text string, columns int) string {
	for i, r := range text {
		if columns -= Columns(string(r)); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// Columns returns the width of escaped text in terminal columns.
func Columns(text string) int {
	if IsPrintableASCII(text) {
		return len(text)
	}
	n := 0
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me): // drawn over the one before
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
