package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"unicode"
	"unicode/utf16"

	"rollcall/internal/screentext"
)

// printArray prints one array of rows as JSON, with a line for each row, or as YAML. After an error the array of JSON stays
// open, so that it does not look complete.
func printArray[T any](out io.Writer, format string, rows iter.Seq2[T, error]) error {
	encoder, one := newLineEncoder(format), new(T)
	before, end := "[\n", "[]\n"
	for row, err := range rows {
		if err != nil {
			return err
		}
		*one = row
		text, err := encoder.encodeLine(one)
		if err != nil {
			return err
		}
		if encoder.isYAML { // sequences one after another make one
			before, end = "", ""
			text = appendJSONAsYAML(nil, append(append([]byte{'['}, text...), ']'))
		}
		if _, err = out.Write(append([]byte(before), text...)); err != nil {
			return err
		}
		if !encoder.isYAML {
			before, end = ",\n", "\n]\n"
		}
	}
	_, err := io.WriteString(out, end)
	return err
}

// encodeObject returns v as indented JSON or as YAML.
func encodeObject(format string, v any) ([]byte, error) {
	encoder := newLineEncoder(format)
	text, err := encoder.encodeLine(v)
	switch {
	case err != nil:
		return nil, err
	case encoder.isYAML:
		return appendJSONAsYAML(nil, text), nil
	}
	var b bytes.Buffer
	err = json.Indent(&b, text, "", "  ")
	return append(b.Bytes(), '\n'), err
}

// lineEncoder encodes values as single lines of JSON, and reuses its buffer. isYAML is set if they become YAML, which escapes
// runes above 16 bits in another way.
type lineEncoder struct {
	isYAML bool
	text   bytes.Buffer
	enc    *json.Encoder
}

func newLineEncoder(format string) *lineEncoder {
	l := &lineEncoder{isYAML: format == "yaml"}
	l.enc = json.NewEncoder(&l.text)
	l.enc.SetEscapeHTML(false)
	return l
}

// encodeLine returns v as JSON, valid until the next call. It passes printable ASCII of a json.RawMessage
// through.
func (l *lineEncoder) encodeLine(v any) ([]byte, error) {
	if raw, ok := v.(*json.RawMessage); ok && screentext.IsPrintableASCII(*raw) {
		return *raw, nil
	}
	l.text.Reset()
	if err := l.enc.Encode(v); err != nil {
		return nil, err
	}
	return l.escapeEncoded(bytes.TrimSuffix(l.text.Bytes(), []byte("\n"))), nil
}

// escapeEncoded escapes unprintable runes in JSON or YAML, where they occur only in quotes.
func (l *lineEncoder) escapeEncoded(text []byte) []byte {
	if screentext.IsPrintableASCII(text) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&b, `\u%04x`, r)
		case l.isYAML:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		}
	}
	return []byte(b.String())
}

// appendJSONAsYAML appends a value in YAML's block style, with a line end. text is one line of encoding/json: YAML
// libraries take forty times as long, which matters in a list of 100,000 sessions. Scalars and quoted texts of
// JSON are valid YAML.
func appendJSONAsYAML(b, text []byte) []byte {
	b, _ = appendValue(b, text, 0)
	return b
}

const yamlStep = 2

// appendValue appends the first value of text at a column, and returns the rest of text.
func appendValue(b, text []byte, column int) (_, rest []byte) {
	first := text[0]
	switch {
	case first != '{' && first != '[':
		scalar, rest := cutScalar(text)
		return append(append(b, unquoteIfPlain(scalar)...), '\n'), rest
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

// appendField appends a key and its value. A nested value starts on the next line.
func appendField(b, text []byte, column int) (_, rest []byte) {
	key, rest := cutScalar(text)
	b = append(append(b, unquoteIfPlain(key)...), ':')
	rest = rest[1:] // the colon
	if nested := (rest[0] == '{' || rest[0] == '[') && rest[1] != '}' && rest[1] != ']'; nested {
		b = append(append(b, '\n'), strings.Repeat(" ", column+yamlStep)...)
	} else {
		b = append(b, ' ')
	}
	return appendValue(b, rest, column+yamlStep)
}

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

// unquoteIfPlain removes the quotes of a string that every version of YAML reads as a string without them.
func unquoteIfPlain(scalar []byte) []byte {
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

// yamlWords are read as another type by some version of YAML.
var yamlWords = map[string]bool{
	"y": true, "n": true, "yes": true, "no": true, "on": true, "off": true, "true": true,
	"false": true, "null": true,
}
