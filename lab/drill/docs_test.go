package drill

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rollcall/lab/judge"
)

// docs/drills.md names each drill, and has a line for each rule.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/drills.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range All() {
		if !strings.Contains(string(page), "`"+d.Name+"`") {
			t.Errorf("docs/drills.md lacks the drill %s", d.Name)
		}
	}
	rules := 0
	for rule, promise := range judge.Promises() {
		rules++
		if row := fmt.Sprintf("* `%s`: %s\n", rule, promise); !strings.Contains(string(page), row) {
			t.Errorf("docs/drills.md lacks %s", row)
		}
	}
	_, list, _ := strings.Cut(string(page), "\n## What is judged\n")
	list, _, _ = strings.Cut(list, "\n### The longest pause\n")
	if found := strings.Count(list, "\n* `"); found != rules {
		t.Errorf("docs/drills.md has %d lines of rules, want %d", found, rules)
	}
}
