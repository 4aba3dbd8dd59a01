package house

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// alert is a rule of deploy/alerts.yml.
type alert struct {
	Alert, Expr, For string
	Labels           struct{ Severity string }
	Annotations      struct{ Summary, Description, Action, Runbook string }
}

// page returns the alert's part of docs/alerts.md.
func (a *alert) page() string {
	severity := strings.ToUpper(a.Labels.Severity[:1]) + a.Labels.Severity[1:]
	if a.For != "" {
		severity += ", after " + a.For
	}
	return fmt.Sprintf("### %s\n\n%s. %s\n\n%s\n", a.Alert, severity, a.Annotations.Description, a.Annotations.Action)
}

// docs/alerts.md has every alert, with what it means and what to do, and deploy/alerts_test.yml has a
// test of each.
func TestAlertsAreDocumented(t *testing.T) {
	t.Chdir("../..")
	var rules struct{ Groups []struct{ Rules []alert } }
	text, err := os.ReadFile("deploy/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile("deploy/alerts_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	n := 0
	for _, g := range rules.Groups {
		for i := range g.Rules {
			a := &g.Rules[i]
			n++
			fmt.Fprintf(&want, "\n%s", a.page())
			if a.Annotations.Summary == "" || a.Annotations.Description == "" || a.Annotations.Action == "" || a.Labels.Severity == "" {
				t.Errorf("%s is not complete", a.Alert)
			}
			if link := packagedPages + "docs/alerts.md#" + strings.ToLower(a.Alert); a.Annotations.Runbook != link {
				t.Errorf("%s: runbook %q, want %s", a.Alert, a.Annotations.Runbook, link)
			}
			if !strings.Contains(string(tests), `{alertname="`+a.Alert+`", alertstate="firing"`) {
				t.Errorf("deploy/alerts_test.yml does not see %s fire", a.Alert)
			}
		}
	}
	_, got, _ := strings.Cut(string(page), "\n## The alerts\n")
	if got != want.String() {
		t.Errorf("docs/alerts.md differs from deploy/alerts.yml, of which it should say%s", want.String())
	}
	if n < 20 {
		t.Errorf("only %d alerts", n)
	}
}
