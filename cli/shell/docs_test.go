package shell

import (
	"os"
	"strings"
	"testing"
)

// docs/commands/nodes.md lists all verbs as help prints them.
func TestDocsHaveTheVerbs(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(usageText(verbTable()), "\n")
	var want strings.Builder
	for line := range strings.Lines(list + "\n") {
		want.WriteString("    " + strings.TrimSpace(line) + "\n")
	}
	if !strings.Contains(string(page), "\n\n"+want.String()+"\n") {
		t.Errorf("docs/commands/nodes.md lacks\n%s", &want)
	}
}
