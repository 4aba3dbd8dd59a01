package drill

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rollcall/lab/judge"
)

// docs/drills.md has a line for each drill and for each rule.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/drills.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, d := range All() {
		rows++
		var needs []string
		for _, need := range d.Requirements() {
			needs = append(needs, fmt.Sprintf("`%s`", need))
		}
		if len(needs) == 0 {
			needs = []string{"nothing"}
		}
		if d.Tier == Heavy {
			needs = append(needs, "`full`")
		}
		if row := fmt.Sprintf("* `%s` (%s): %s\n", d.Name, strings.Join(needs, ", "), d.Does); !strings.Contains(string(page), row) {
			t.Errorf("docs/drills.md lacks %s", row)
		}
	}
	for rule, promise := range judge.Promises() {
		rows++
		if row := fmt.Sprintf("* `%s`: %s\n", rule, promise); !strings.Contains(string(page), row) {
			t.Errorf("docs/drills.md lacks %s", row)
		}
	}
	_, lists, _ := strings.Cut(string(page), "\n## What is judged\n")
	lists, _, _ = strings.Cut(lists, "\n## An ensemble that matters\n")
	if found := strings.Count(lists, "\n* `"); found != rows {
		t.Errorf("docs/drills.md has %d lines of drills and rules, want %d", found, rows)
	}
}
