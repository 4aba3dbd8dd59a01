package cli

import (
	"bytes"
	"strings"
)

// This file writes YAML. Libraries take forty times as long for it as for JSON, which a list of 100,000
// sessions shows. Values are JSON's, and a text in quotes is one of JSON's: YAML reads both likewise.

// appendYAML appends a value in the block style of YAML, with a line end. text is the value as JSON on one
// line, as package encoding/json writes it.
func appendYAML(b, text []byte) []byte {
	b, _ = appendValue(b, text, 0)
	return b
}

// yamlStep is how many columns the content of a mapping or sequence is further to the right.
const yamlStep = 2

// appendValue appends the value at the beginning of text, which stands at a column, and returns the rest of text.
func appendValue(b, text []byte, column int) (_, rest []byte) {
	first := text[0]
	switch {
	case first != '{' && first != '[':
		scalar, rest := cutScalar(text)
		return append(append(b, unquoteYAML(scalar)...), '\n'), rest
	case text[1] == '}' || text[1] == ']':
		return append(append(b, text[:2]...), '\n'), text[2:]
	}
	text = text[1:]
	for begin := true; ; begin = false {
		if !begin {
			b = append(b, strings.Repeat(" ", column)...)
		}
		if first == '{' {
			b, text = appendField(b, text, column)
		} else {
			b, text = appendValue(append(b, "- "...), text, column+yamlStep)
		}
		next := text[0] // a comma, or the end
		if text = text[1:]; next != ',' {
			return b, text
		}
	}
}

// appendField appends a key and its value. What is not on the key's line is further to the right.
func appendField(b, text []byte, column int) (_, rest []byte) {
	key, rest := cutScalar(text)
	b = append(append(b, unquoteYAML(key)...), ':')
	rest = rest[1:] // the colon
	if nested := (rest[0] == '{' || rest[0] == '[') && rest[1] != '}' && rest[1] != ']'; nested {
		b = append(append(b, '\n'), strings.Repeat(" ", column+yamlStep)...)
	} else {
		b = append(b, ' ')
	}
	return appendValue(b, rest, column+yamlStep)
}

// cutScalar returns the text, number or word at the beginning of text, and the rest.
func cutScalar(text []byte) (scalar, rest []byte) {
	if text[0] != '"' {
		end := bytes.IndexAny(text, ",:]}")
		if end < 0 {
			end = len(text)
		}
		return text[:end], text[end:]
	}
	end := 1
	for text[end] != '"' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	return text[:end+1], text[end+1:]
}

// unquoteYAML returns a scalar of JSON without its quotes, if every version of YAML reads it as a text then.
func unquoteYAML(scalar []byte) []byte {
	if scalar[0] != '"' {
		return scalar
	}
	inside := scalar[1 : len(scalar)-1]
	if len(inside) == 0 || !isLetter(inside[0]) && inside[0] != '/' || yamlWords[strings.ToLower(string(inside))] {
		return scalar
	}
	for i, c := range inside {
		blank := c == ' ' && i < len(inside)-1 && inside[i+1] != ' '
		if !isLetter(c) && (c < '0' || c > '9') && !blank && !strings.ContainsRune("/_.@-", rune(c)) {
			return scalar
		}
	}
	return inside
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// yamlWords are the texts of letters that some version of YAML reads as something else.
var yamlWords = map[string]bool{"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true, "false": true, "null": true}
