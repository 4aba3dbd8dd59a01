package admin

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// docs/words.md has the list of metrics, line for line.
func TestDocsHaveTheMetrics(t *testing.T) {
	text, err := os.ReadFile("../../docs/words.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range monitorMetrics {
		m := &monitorMetrics[i]
		name := "`zk_" + m.name + "`"
		if m.kind >= summary {
			name = fmt.Sprintf("`zk_*_%s`", m.name)
		}
		var notes []string
		for _, note := range []struct{ text, usual string }{{fmt.Sprint(m.kind), "gauge"}, {m.unit, ""}, {fmt.Sprint(m.scope), "all"}} {
			if note.text != note.usual {
				notes = append(notes, note.text)
			}
		}
		if len(notes) > 0 {
			name += " (" + strings.Join(notes, ", ") + ")"
		}
		fmt.Fprintf(&want, "* %s: %s\n", name, m.help)
	}
	if !strings.Contains(string(text), "\n\n"+want.String()+"\n") {
		t.Errorf("the list in docs/words.md differs from the program's, which is\n%s", want.String())
	}
}

// Every row is complete, and no two metrics have the same name.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	var s Stats
	for i := range monitorMetrics {
		m := &monitorMetrics[i]
		m.eachLine(&s, func(name, _ string) {
			if seen[name] {
				t.Errorf("%s is in the table twice", name)
			}
			seen[name] = true
		})
		if m.help == "" || (m.readValue == nil) == (m.readSummary == nil) || (m.readSummary != nil) != (m.kind >= summary) {
			t.Errorf("row %q is not complete", m.name)
		}
	}
}

// docs/admin.md has the list of endpoints, line for line. Other paths of an endpoint are in its line, and
// ZooKeeper's commands of one method and class share one.
func TestDocsHaveTheEndpoints(t *testing.T) {
	text, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## Endpoints\n\n")
	if !ok {
		t.Fatal("docs/admin.md: no list of endpoints")
	}
	var rows []string
	paths, commands := "", map[string]string{} // the paths of ZooKeeper's commands by method and class
	all := testRoutes(t)
	for i, e := range all {
		path := "`" + strings.TrimSuffix(e.path, "{$}") + "`"
		if strings.HasPrefix(e.path, "/commands") {
			of := fmt.Sprintf("* %s %%s (%v): as in ZooKeeper", e.method, e.kind())
			commands[of] = strings.TrimPrefix(commands[of]+", "+path, ", ")
			continue
		}
		paths += path
		if i+1 < len(all) && all[i+1].isAlias {
			paths += ", "
			continue
		}
		first := e
		for j := i; first.isAlias; j-- {
			first = all[j]
		}
		rows = append(rows, fmt.Sprintf("* %s %s (%v): %s", e.method, paths, e.kind(), first.help))
		paths = ""
	}
	for _, of := range slices.Sorted(maps.Keys(commands)) {
		rows = append(rows, fmt.Sprintf(of, commands[of]))
	}
	want := strings.Join(rows, "\n")
	_, rest, _ = strings.Cut(rest, "\n* GET")
	if got, _, _ := strings.Cut("* GET"+rest, "\n\n"); got != want {
		t.Errorf("the list in docs/admin.md differs from the program's, which is\n%s", want)
	}
}

// kind returns the class of an endpoint, and whether it shows paths, as docs/admin.md has them.
func (e *endpoint) kind() string {
	if e.content == showsPaths {
		return e.access.String() + ", paths"
	}
	return e.access.String()
}
