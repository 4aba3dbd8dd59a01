package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// statusMeanings are the rows of the table in docs/commands.md.
var statusMeanings = []struct {
	Status
	meaning string
}{
	{OK, "it is done"},
	{Failed, "it failed; the last line on stderr says why"},
	{UsageError, "the command line is wrong, and nothing was asked"},
	{NotFound, "there is no such session or node"},
	{Denied, "credentials are missing or wrong, or do not allow it"},
	{Unavailable, "no member answers, or the one that was asked cannot serve the request now"},
	{OutcomeUnknown, "the outcome of a change is not known: the connection broke before the answer"},
	{Conflict, "the node or the list of servers is not as the change requires: it exists already, has children or has " +
		"another version, or too few voters would be alive"},
}

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
