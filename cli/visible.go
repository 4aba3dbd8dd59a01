package cli

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// EscapeUnprintable returns text with everything replaced that a terminal would not simply show: control
// characters, escape sequences, characters that change the direction of writing, and bytes that are no
// UTF-8. They become \x1b, \u202e and so on. Clients choose paths, addresses and identities, so what a
// command prints of them goes through this.
func EscapeUnprintable(text string) string {
	if isPrintableASCII(text) {
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

// isPrintableASCII reports whether text has printable ASCII characters only.
func isPrintableASCII[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// truncateColumns returns the beginning of text that takes at most that many columns. The text must be visible.
func truncateColumns(text string, columns int) string {
	for i, r := range text {
		if columns -= displayColumns(string(r)); columns < 0 {
			return text[:i]
		}
	}
	return text
}

// displayColumns returns how many columns of a terminal text takes. It must be visible.
func displayColumns(text string) int {
	if isPrintableASCII(text) {
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
