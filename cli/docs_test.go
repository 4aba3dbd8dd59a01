package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// docs/commands.md lists all exit statuses.
func TestStatusesAreDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := ""
	for _, s := range statusMeanings {
		rows += fmt.Sprintf("| %d | %s |\n", s.Status, s.meaning)
	}
	if !strings.Contains(string(page), "|---|---|\n"+rows) {
		t.Errorf("docs/commands.md lacks\n%s", rows)
	}
}
