package shell

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	children := func(path string) []string {
		return map[string][]string{
			"/":     {"app", "apple", "zookeeper", "hostile\x1b[31m", "\u00e9t\u00e9", "\u00e9tage"},
			"/app":  {"one two", "one three", `it's "x" y`, `quo"te`},
			"/only": {"child"},
			"/sp":   {"a b"},
		}[path]
	}
	for _, tt := range []struct{ text, want, choices string }{
		{"get", "get", "get getAcl getAllChildrenNumber getEphemerals"},
		{"getAl", "getAllChildrenNumber ", "getAllChildrenNumber"},
		{"  getAl", "  getAllChildrenNumber ", "getAllChildrenNumber"},
		{"nope", "nope", ""},
		{"ls /ap", "ls /app", "/app /apple"},
		{"ls /z", "ls /zookeeper", "/zookeeper"},
		{"ls /hos", "ls /hos", ""}, // its name is not typed
		{"ls /\u00e9", "ls /\u00e9t", "/\u00e9tage /\u00e9t\u00e9"},
		{"ls /app/o", `ls "/app/one t`, "/app/one three|/app/one two"},
		{`ls "/app/one tw`, `ls "/app/one two`, "/app/one two"},
		{`ls '/app/one tw`, `ls '/app/one two`, "/app/one two"},
		{"ls /app/it", "ls /app/it", ""}, // no quotes fit
		{"ls /app/q", `ls /app/quo"te`, `/app/quo"te`},
		{"ls /only/", "ls /only/child", "/only/child"},
		{"ls /only/x", "ls /only/x", ""},
		{"ls /sp/a", `ls "/sp/a b`, "/sp/a b"},
		{"ls -", "ls -", "-? -R -s -w"},
		{"create -", "create -", "-c -e -s -t"},
		{"nope -", "nope -", ""},
		{"ls x", "ls x", ""},
		{`create "/a b" /z`, `create "/a b" /zookeeper`, "/zookeeper"},
	} {
		got, choices := completeLastWord(tt.text, verbTable(), children)
		sep := " "
		if strings.Contains(tt.choices, "|") {
			sep = "|"
		}
		if got != tt.want || strings.Join(choices, sep) != tt.choices {
			t.Errorf("%q: %q %q, want %q %q", tt.text, got, choices, tt.want, tt.choices)
		}
	}
}

// Nothing but the last word is changed, and it is only made longer.
func FuzzComplete(f *testing.F) {
	for _, text := range []string{"ls /a", `get "/a`, "get 'b", "cr", "ls -", `"`, " \t", "0 /\x80/"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := completeLastWord(text, verbTable(), func(string) []string { return []string{"a b", "ab", "\u00e9"} })
		start, quote := lastWordStart(text)
		word := strings.TrimPrefix(text[start:], quote)
		if !strings.HasPrefix(got, text[:start]) || !strings.HasPrefix(strings.TrimLeft(got[start:], `"'`), strings.TrimLeft(word, `"'`)) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestListed(t *testing.T) {
	if got := formatChoices([]string{"/x/a", "b"}); got != "a  b\n" {
		t.Errorf("%q", got)
	}
	names := strings.Fields(strings.Repeat("name ", maxListed+3))
	if got := formatChoices(names); !strings.HasSuffix(got, "  … and 3 more\n") || strings.Count(got, "name") != maxListed {
		t.Errorf("%q", got)
	}
}
