package rollcall_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The number of incidents on docs/incidents.md.
const incidents = 42

var (
	incidentRow  = regexp.MustCompile(`(?m)^\| (\d+) \| .* \| (.*) \|$`)
	namedTest    = regexp.MustCompile("`((?:[a-z]+/)*[a-z]+)\\.(Test\\w+)`")
	namedCase    = regexp.MustCompile(`case (\d+) \(([^)]+)\)`)
	namedDrills  = regexp.MustCompile("Drills? (`[a-z-]+`(?:, `[a-z-]+`)*)")
	linkToReason = regexp.MustCompile(`\]\((?:[\w/.-]+\.md)?(?:#[\w-]+)?\)`)
)

// Each incident has one row, which names a test or links to the place that argues why it cannot happen here. Each test
// is in the directory that the page names, each case has its number and name, and each drill is in the catalogue.
func TestIncidents(t *testing.T) {
	page := readFile(t, "docs/incidents.md")
	rows := map[int]int{}
	for _, m := range incidentRow.FindAllStringSubmatch(page, -1) {
		number, _ := strconv.Atoi(m[1])
		rows[number]++
		if !namedTest.MatchString(m[2]) && !linkToReason.MatchString(m[2]) {
			t.Errorf("incident %d names no test, and links to no reason", number)
		}
	}
	for number := 1; number <= incidents; number++ {
		if rows[number] != 1 {
			t.Errorf("incident %d has %d rows, want 1", number, rows[number])
		}
	}
	if len(rows) != incidents {
		t.Errorf("%d incidents, want %d", len(rows), incidents)
	}
	for _, m := range namedTest.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(testsIn(t, m[1]), "func "+m[2]+"(t *testing.T)") {
			t.Errorf("%s has no test %s", m[1], m[2])
		}
	}
	for _, m := range namedCase.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(testsIn(t, "integration/cases"), "number: "+m[1]+`, name: "`+m[2]+`"`) {
			t.Errorf("case %s is not called %q", m[1], m[2])
		}
	}
}

// Every drill that docs/incidents.md names is one of rollcall drill.
func TestIncidentsNameDrills(t *testing.T) {
	catalogue, err := os.ReadFile("operator/drill/catalogue.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range namedDrills.FindAllStringSubmatch(readFile(t, "docs/incidents.md"), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			name = strings.Trim(name, "`")
			if !strings.Contains(string(catalogue), `"`+name+`"`) {
				t.Errorf("there is no drill %s", name)
			}
		}
	}
}

// testsIn returns the text of all test files of a directory.
func testsIn(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(readFile(t, file))
	}
	return all.String()
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
