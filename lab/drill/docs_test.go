package drill

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"rollcall/lab/judge"
)

// docs/drills.md has a row for each drill and for each rule.
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
		if row := fmt.Sprintf("| `%s` | %s | %s |\n", d.Name, d.Does, strings.Join(needs, ", ")); !strings.Contains(string(page), row) {
			t.Errorf("docs/drills.md lacks %s", row)
		}
	}
	for rule, promise := range judge.Promises() {
		rows++
		if row := fmt.Sprintf("| `%s` | %s |\n", rule, promise); !strings.Contains(string(page), row) {
			t.Errorf("docs/drills.md lacks %s", row)
		}
	}
	tables, _, _ := strings.Cut(string(page), "\n## Hooks for an ensemble of yours\n") // it has tables about other things
	if found := strings.Count(tables, "\n| `") - strings.Count(tables, "\n| `--"); found != rows {
		t.Errorf("docs/drills.md has %d rows of drills and rules, want %d", found, rows)
	}
}
