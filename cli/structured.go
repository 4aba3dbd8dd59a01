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
)

// printJSON prints one array with a line for each row. After an error the array stays open, so that
// nobody takes it for complete.
func printJSON[T any](out io.Writer, rows iter.Seq2[T, error]) error {
	n, line, one := 0, newLineEncoder(surrogatePair), new(T)
	for row, err := range rows {
		if err != nil {
			return err
		}
		*one = row
		text, err := line.encodeLine(one)
		if err != nil {
			return err
		}
		before := ",\n"
		if n == 0 {
			before = "[\n"
		}
		if _, err := io.WriteString(out, before); err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		_, err := io.WriteString(out, "[]\n")
		return err
	}
	_, err := io.WriteString(out, "\n]\n")
	return err
}

// printYAML prints one sequence.
func printYAML[T any](out io.Writer, rows iter.Seq2[T, error]) error {
	n, line, one := 0, newLineEncoder(longEscape), new(T)
	for row, err := range rows {
		if err != nil {
			return err
		}
		*one = row
		text, err := line.encodeLine(one)
		if err != nil {
			return err
		}
		if _, err := out.Write(appendYAML(nil, append(append([]byte{'['}, text...), ']'))); err != nil { // sequences one after another make one
			return err
		}
		n++
	}
	if n == 0 {
		_, err := io.WriteString(out, "[]\n")
		return err
	}
	return nil
}

// compactJSON returns v as JSON on one line, in characters that a terminal simply shows.
func compactJSON(v any) ([]byte, error) { return encodeLine(v, surrogatePair) }

// encodeLine returns v as JSON on one line. wide escapes characters as escaped says.
func encodeLine(v any, wide func(rune) string) ([]byte, error) {
	return newLineEncoder(wide).encodeLine(v)
}

// lineEncoder writes values as JSON on one line, one after another, and uses its memory again.
type lineEncoder struct {
	escapeWide func(rune) string // as escaped says
	text       bytes.Buffer
	enc        *json.Encoder
}

func newLineEncoder(wide func(rune) string) *lineEncoder {
	l := &lineEncoder{escapeWide: wide}
	l.enc = json.NewEncoder(&l.text)
	l.enc.SetEscapeHTML(false)
	return l
}

// encodeLine returns v as JSON. It is overwritten by the next call. A json.RawMessage stays as it is, if it is plain.
func (l *lineEncoder) encodeLine(v any) ([]byte, error) {
	if raw, ok := v.(*json.RawMessage); ok && isPrintableASCII(*raw) {
		return *raw, nil
	}
	l.text.Reset()
	if err := l.enc.Encode(v); err != nil {
		return nil, err
	}
	return escapeEncoded(bytes.TrimSuffix(l.text.Bytes(), []byte("\n")), l.escapeWide), nil
}

// indentedJSON returns v as JSON for people.
func indentedJSON(v any) ([]byte, error) {
	text, err := compactJSON(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// encodeYAML returns v as YAML, with the keys of its JSON in their order.
func encodeYAML(v any) ([]byte, error) {
	text, err := encodeLine(v, longEscape)
	if err != nil {
		return nil, err
	}
	return appendYAML(nil, text), nil
}

// escapeEncoded returns JSON or YAML with everything escaped that a terminal would not simply show. Such
// characters can only be in quotes there. wide escapes those of more than 16 bits.
func escapeEncoded(text []byte, wide func(rune) string) []byte {
	if isPrintableASCII(text) {
		return text
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case unicode.IsPrint(r) || r == '\n':
			b.WriteRune(r)
		case r < 1<<16:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(wide(r))
		}
	}
	return []byte(b.String())
}

// surrogatePair escapes a character as JSON does.
func surrogatePair(r rune) string {
	high, low := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, high, low)
}

// longEscape escapes a character as YAML does.
func longEscape(r rune) string { return fmt.Sprintf(`\U%08x`, r) }
