package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf16"
)

const (
	// A zoo.cfg of 255 servers with every key in it is under 64 KiB.
	maxCfgSize  = 1 << 20
	maxCfgLines = 10_000
)

// lineBlanks are the blanks within a line of Java's properties.
const lineBlanks = " \t\f"

// readZooCfg returns the settings of the file at path, in its order.
func readZooCfg(path string) ([]setting, error) {
	text, err := readPrefix(path, maxCfgSize+1)
	if err != nil {
		return nil, err
	}
	return parseZooCfg(path, text)
}

// readPrefix returns the first bytes of the file at path, at most most of them.
func readPrefix(path string, most int64) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, most))
}

// parseZooCfg reads Java's properties syntax, as ZooKeeper does. It trims blanks around a value. Bytes that are not
// escaped stay as they are: a path is UTF-8 if the file is. name precedes the line number in errors and setting.where.
func parseZooCfg(name string, text []byte) ([]setting, error) {
	if len(text) > maxCfgSize {
		return nil, fmt.Errorf("%s: longer than %d bytes; is it a zoo.cfg?", name, maxCfgSize)
	}
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	text = bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
	if bytes.Count(text, []byte("\n")) > maxCfgLines {
		return nil, fmt.Errorf("%s: more than %d lines; is it a zoo.cfg?", name, maxCfgLines)
	}
	var settings []setting
	lines := strings.Split(string(text), "\n")
	for next := 0; next < len(lines); {
		where := fmt.Sprintf("%s:%d", name, next+1)
		line, used := joinLogicalLine(lines[next:])
		next += used
		if line == "" {
			continue
		}
		rawKey, rawValue := cutSetting(line)
		key, err := unescape(rawKey)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		settings = append(settings, setting{key, strings.TrimSpace(value), where})
	}
	return settings, nil
}

// joinLogicalLine joins the first line with the lines that continue it, and returns their number. A comment is never
// continued. For a comment or a blank line, line is "".
func joinLogicalLine(lines []string) (line string, used int) {
	first := strings.TrimLeft(lines[0], lineBlanks)
	if first == "" || first[0] == '#' || first[0] == '!' {
		return "", 1
	}
	var joined strings.Builder
	for i, part := range lines {
		part = strings.TrimLeft(part, lineBlanks)
		if !continuesOnNextLine(part) {
			joined.WriteString(part)
			return joined.String(), i + 1
		}
		joined.WriteString(part[:len(part)-1])
	}
	return joined.String(), len(lines)
}

// continuesOnNextLine reports whether line ends in a backslash that is not itself escaped.
func continuesOnNextLine(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// cutSetting splits a line at the first blank, = or : that is not escaped.
func cutSetting(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++ // the escaped byte is part of the key
			continue
		}
		if strings.IndexByte(lineBlanks+"=:", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], lineBlanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], lineBlanks)
	}
	return line[:end], value
}

var (
	errEscape    = errors.New(`\u takes four hexadecimal digits; write a backslash as \\`)
	errSurrogate = errors.New(`\u gives half of a surrogate pair; write both halves, or the character itself`)
)

// unescape resolves \t, \n, \r, \f and \uXXXX. Any other escaped byte is itself.
func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			out.WriteByte(text[i])
			continue
		}
		if i++; i == len(text) {
			break // a backslash at the end of the file escapes nothing
		}
		switch text[i] {
		case 't':
			out.WriteByte('\t')
		case 'n':
			out.WriteByte('\n')
		case 'r':
			out.WriteByte('\r')
		case 'f':
			out.WriteByte('\f')
		case 'u':
			char, length, err := unicodeEscape(text[i+1:])
			if err != nil {
				return "", err
			}
			out.WriteRune(char)
			i += length
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String(), nil
}

// unicodeEscape reads four digits after \u, or a surrogate pair.
func unicodeEscape(text string) (char rune, length int, err error) {
	first, ok := hex4(text)
	if !ok {
		return 0, 0, errEscape
	}
	if !utf16.IsSurrogate(first) {
		return first, 4, nil
	}
	if len(text) < 6 || text[4:6] != `\u` {
		return 0, 0, errSurrogate
	}
	second, ok := hex4(text[6:])
	if !ok {
		return 0, 0, errEscape
	}
	char = utf16.DecodeRune(first, second)
	if char == '\uFFFD' {
		return 0, 0, errSurrogate
	}
	return char, 10, nil
}

func hex4(text string) (rune, bool) {
	if len(text) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:4], 16, 16)
	return rune(n), err == nil
}
