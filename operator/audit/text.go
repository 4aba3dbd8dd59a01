package audit

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// appendText appends a text that a stranger may have chosen, so that it stays within its field and its line, and
// does nothing to a terminal. What is not printed is written as \uXXXX, and what is no UTF-8 as \ufffd. If the text
// has more than most bytes, the rest is left out, and an ellipsis stands for it. With json it is the inside of a
// string of JSON. Otherwise it is the value of a field of ZooKeeper's format, where a comma separates names.
func appendText(b []byte, text string, most int, json bool) []byte {
	cut := len(text) > most
	if cut {
		for i := 1; i < utf8.UTFMax && !utf8.RuneStart(text[most]); i++ {
			most-- // not within a character
		}
		text = text[:most]
	}
	for len(text) > 0 {
		n := plainPrefix(text, json)
		b = append(b, text[:n]...)
		if text = text[n:]; text == "" {
			break
		}
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == '\\' || r == '"' && json:
			b = append(b, '\\', byte(r))
		case r == utf8.RuneError && size == 1 || !unicode.IsPrint(r):
			b = appendEscape(b, r)
		default:
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	if cut {
		b = append(b, "…"...)
	}
	return b
}

// plainPrefix returns how many bytes at the beginning of a text are visible ASCII that is written as it is. Nearly all texts
// are plain.
func plainPrefix(text string, json bool) int {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '\\' || c == '"' && json {
			return i
		}
	}
	return len(text)
}

// appendEscape appends \uXXXX, or two of them for a character beyond the first plane, as in JSON.
func appendEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return appendEscape(appendEscape(b, high), low)
	}
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
