package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// directives are the unquoted values in a token, by their names in small letters.
type directives map[string]string

// knownDirectives are the directives that matter. Others are ignored, as RFC 2831 requires.
const knownDirectives = " username realm nonce cnonce nc qop digest-uri response maxbuf charset cipher authzid "

func (d directives) hasKey(key string) bool {
	_, ok := d[key]
	return ok
}

// parseDirectives reads a token: directives with commas between them. Spaces may be around each part, and
// between two commas there may be nothing. A known directive may occur once.
func parseDirectives(token []byte) (directives, error) {
	d := directives{}
	rest := trimSpaces(string(token))
	for rest != "" {
		if rest[0] == ',' {
			rest = trimSpaces(rest[1:])
			continue
		}
		key, after, ok := strings.Cut(rest, "=")
		key = strings.ToLower(strings.TrimRight(key, spaceChars))
		if !ok || !isName(key) {
			return nil, errors.New("sasl: the token is not a list of directives key=value")
		}
		value, after, err := cutValue(trimSpaces(after))
		if err != nil {
			return nil, fmt.Errorf("sasl: directive %s: %w", quoteShort(key), err)
		}
		if rest = trimSpaces(after); rest != "" && rest[0] != ',' {
			return nil, fmt.Errorf("sasl: directive %s: no comma after its value", quoteShort(key))
		}
		if !strings.Contains(knownDirectives, " "+key+" ") {
			continue
		}
		if d.hasKey(key) {
			return nil, fmt.Errorf("sasl: duplicate directive %s", quoteShort(key))
		}
		d[key] = value
	}
	return d, nil
}

const spaceChars = " \t\r\n"

func trimSpaces(text string) string { return strings.TrimLeft(text, spaceChars) }

func isName(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// cutValue splits text after the value at its beginning. In quotes, a backslash escapes any character.
func cutValue(text string) (value, rest string, err error) {
	if !strings.HasPrefix(text, `"`) {
		end := strings.IndexAny(text, ","+spaceChars)
		if end < 0 {
			end = len(text)
		}
		if end == 0 || strings.ContainsAny(text[:end], `"\`) {
			return "", "", errors.New("its value is empty or has a quote in it")
		}
		return text[:end], text[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], nil
		case '\\':
			if i++; i == len(text) {
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", errors.New("no quote at the end of its value")
}
