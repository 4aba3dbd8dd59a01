package audit

import (
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// appendText appends untrusted text so that it stays within its field and line, and is harmless in a terminal.
// Unprintable characters become \uXXXX, and invalid UTF-8 \ufffd. An ellipsis replaces the text after most bytes. With
// json, the text is the inside of a JSON string. Otherwise it is a value in ZooKeeper's format, where commas separate
// names.
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

// plainPrefix returns the length of the prefix of visible ASCII that needs no escape. Nearly all texts have no other
// bytes.
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
