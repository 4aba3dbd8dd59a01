package shell

import (
	"os"
	"strings"
	"testing"
)

// docs/commands/nodes.md names all verbs in the order of help.
func TestDocsHaveTheVerbs(t *testing.T) {
	page, err := os.ReadFile("../../docs/commands/nodes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(usageText(verbTable()), "\n")
	var verbs []string
	for line := range strings.Lines(list) {
		if words := strings.Fields(line); len(words) > 0 {
			verbs = append(verbs, "`"+words[0]+"`")
		}
	}
	if want := strings.Join(verbs, ", ") + "."; !strings.Contains(string(page), want) {
		t.Errorf("docs/commands/nodes.md lacks\n%s", want)
	}
}
