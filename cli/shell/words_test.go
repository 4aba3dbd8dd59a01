package shell

import (
	"slices"
	"strings"
	"testing"
)

// These are the words that zkCli.sh 3.8.0 makes of lines.
func TestSplit(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []string
	}{
		{`ls /`, []string{"ls", "/"}},
		{"  ls \t /  ", []string{"ls", "/"}},
		{`create "/a b" 'c d'`, []string{"create", "/a b", "c d"}},
		{`create /a "it's"`, []string{"create", "/a", "it's"}},
		{`create /a 'it''s'`, []string{"create", "/a", "it", "s"}},
		{`create /a ""`, []string{"create", "/a", ""}},
		{`get /q"x y"`, []string{"get", `/q"x`, `y"`}},
		{`get "/q`, []string{"get", "/q"}},
		{`create /a "b"c`, []string{"create", "/a", "b", "c"}},
		{`create /a {"k":"v"}`, []string{"create", "/a", `{"k":"v"}`}},
		{`create /a \"b`, []string{"create", "/a", `\"b`}},
		{"get /\u00e9\U0001f600", []string{"get", "/\u00e9\U0001f600"}},
		{"get /\xff", []string{"get", "/\xff"}},
		{"   ", []string{" "}},
		{`"`, nil},
		{``, nil},
	} {
		if got := splitLine(tt.line); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.line, got, tt.want)
		}
	}
}

// A line is made of its words, blanks and quotes.
func FuzzSplit(f *testing.F) {
	for _, line := range []string{`create "/a b" 'c'`, `"'"'`, "a\"b 'c", " \t", "\xff\x00"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		rest := line
		for _, word := range splitLine(line) {
			i := strings.Index(rest, word)
			if i < 0 || strings.Trim(rest[:i], " \t\n\v\f\r\"'") != "" {
				t.Fatalf("%q: the word %q is not the next one in %q", line, word, rest)
			}
			rest = rest[i+len(word):]
		}
		if strings.Trim(rest, " \t\n\v\f\r\"'") != "" {
			t.Fatalf("%q: %q is in no word", line, rest)
		}
	})
}
