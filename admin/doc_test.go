package admin

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/words.md has the table of metrics, row for row.
func TestDocsHaveTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/words.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "| Key | Kind | Unit | Who | Meaning |\n|---|---|---|---|---|\n")
	if !ok {
		t.Fatal("docs/words.md: no table of keys")
	}
	var want strings.Builder
	for i := range table {
		m := &table[i]
		name := "`zk_" + m.name + "`"
		if m.kind >= summary {
			name = fmt.Sprintf("`zk_*_%s`", m.name)
		}
		fmt.Fprintf(&want, "| %s | %v | %s | %v | %s |\n", name, m.kind, m.unit, m.who, m.help)
	}
	if got, _, _ := strings.Cut(rest, "\n\n"); got+"\n" != want.String() {
		t.Errorf("the table in docs/words.md differs from the program's, which is\n%s", want.String())
	}
}

// Every row is complete, and no two metrics have the same name.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	var s Stats
	for i := range table {
		m := &table[i]
		m.each(&s, func(name, _ string) {
			if seen[name] {
				t.Errorf("%s is in the table twice", name)
			}
			seen[name] = true
		})
		if m.help == "" || (m.value == nil) == (m.sum == nil) || (m.sum != nil) != (m.kind >= summary) {
			t.Errorf("row %q is not complete", m.name)
		}
	}
}
