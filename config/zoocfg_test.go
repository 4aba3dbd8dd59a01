package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestParseZooCfg(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []setting
	}{
		{name: "empty", text: ""},
		{name: "equals", text: "a=b\n", want: []setting{{"a", "b", "f:1"}}},
		{name: "no end of line", text: "a=b", want: []setting{{"a", "b", "f:1"}}},
		{name: "colon", text: "a:b", want: []setting{{"a", "b", "f:1"}}},
		{name: "blank", text: "a \t b", want: []setting{{"a", "b", "f:1"}}},
		{name: "blanks around", text: " \f a\t= b c \t", want: []setting{{"a", "b c", "f:1"}}},
		{name: "only the first separator counts", text: "server.1=h:2888:3888;2181", want: []setting{{"server.1", "h:2888:3888;2181", "f:1"}}},
		{name: "blank, then a second separator", text: "a = = b", want: []setting{{"a", "= b", "f:1"}}},
		{name: "no value", text: "a\nb=", want: []setting{{"a", "", "f:1"}, {"b", "", "f:2"}}},
		{name: "no key", text: "=b", want: []setting{{"", "b", "f:1"}}},
		{name: "comments", text: "# a=b\n  ! c=d\\\ne=#f", want: []setting{{"e", "#f", "f:3"}}},
		{name: "blank lines and every line end", text: "\n \t\r\na=1\r\rb=2\r\nc=3", want: []setting{{"a", "1", "f:3"}, {"b", "2", "f:5"}, {"c", "3", "f:6"}}},
		{name: "continuation", text: "a=b,\\\n   c,\\\r\n\td\ne=f", want: []setting{{"a", "b,c,d", "f:1"}, {"e", "f", "f:4"}}},
		{name: "comment sign in a continuation", text: "a=b\\\n#c", want: []setting{{"a", "b#c", "f:1"}}},
		{name: "continuation by a blank line", text: "a=b\\\n\nc=d", want: []setting{{"a", "b", "f:1"}, {"c", "d", "f:3"}}},
		{name: "continuation at the end", text: `a=b\`, want: []setting{{"a", "b", "f:1"}}},
		{name: "escaped backslash ends the line", text: "a=b\\\\\nc=d", want: []setting{{"a", `b\`, "f:1"}, {"c", "d", "f:2"}}},
		{name: "escaped separators in a key", text: `a\=b\:c\ d=e`, want: []setting{{"a=b:c d", "e", "f:1"}}},
		{name: "escapes", text: `a=\tb\n\r\f\q\\`, want: []setting{{"a", "b\n\r\fq\\", "f:1"}}},
		{name: "unicode", text: `\u0061=\u00e4\uD83D\uDE00!`, want: []setting{{"a", "ä😀!", "f:1"}}},
		{name: "duplicate", text: "a=1\na=2", want: []setting{{"a", "1", "f:1"}, {"a", "2", "f:2"}}},
		{name: "UTF-8 as it is", text: "dataDir=/däta", want: []setting{{"dataDir", "/däta", "f:1"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseZooCfg("f", []byte(tt.text))
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("parseZooCfg(%q) = %q, %v, want %q", tt.text, got, err, tt.want)
			}
		})
	}
}

func TestParseZooCfgRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"short escape", "a=b\nc=\\u12", `f:2: \u takes four hexadecimal digits; write a backslash as \\`},
		{"not hexadecimal", `\u00zz=b`, `f:1: \u takes four hexadecimal digits; write a backslash as \\`},
		{"signed", `a=\u+123`, `f:1: \u takes four hexadecimal digits; write a backslash as \\`},
		{"lone high surrogate", `a=\ud83dx`, `f:1: \u gives half of a surrogate pair; write both halves, or the character itself`},
		{"lone low surrogate", `a=\ude00\ud83d`, `f:1: \u gives half of a surrogate pair; write both halves, or the character itself`},
		{"half a pair, then rubbish", `a=\ud83d\u12`, `f:1: \u takes four hexadecimal digits; write a backslash as \\`},
		{"too long", strings.Repeat("#", maxCfgSize+1), "f: longer than 1048576 bytes; is it a zoo.cfg?"},
		{"too many lines", strings.Repeat("\r", maxCfgLines+1), "f: more than 10000 lines; is it a zoo.cfg?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := parseZooCfg("f", []byte(tt.text)); err == nil || err.Error() != tt.want {
				t.Errorf("parseZooCfg: %v, want %s", err, tt.want)
			}
		})
	}
}

// readZooCfg reads no more of a file than the limit, whatever the size of the file is.
func TestReadZooCfgBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Fatal(err) // the file system has no sparse files
	}
	if _, err := readZooCfg(path); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("readZooCfg of 1 TiB: %v, want an error", err)
	}
}

// No file may make the parser panic, or return more than the file holds.
func FuzzZooCfg(f *testing.F) {
	f.Add([]byte("tickTime=2000\ndataDir: /data\nserver.1 h:2888:3888;2181\n"))
	f.Add([]byte("# c\r\n! d\ra\\ b=c\\\n d\\u0041\\ud83d\\ude00\\"))
	f.Fuzz(func(t *testing.T, text []byte) {
		settings, err := parseZooCfg("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("error %q does not name the file", err)
			}
			return
		}
		size, last := 0, 0
		for _, s := range settings {
			size += len(s.key) + len(s.value)
			var line int
			if _, err := fmt.Sscanf(s.where, "f:%d", &line); err != nil || line <= last {
				t.Fatalf("%q after line %d", s.where, last)
			}
			last = line
		}
		if ends := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte("\r")); size > len(text) || last > ends+1 {
			t.Fatalf("%d bytes of settings up to line %d, from %d bytes", size, last, len(text))
		}
	})
}
