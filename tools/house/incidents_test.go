package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	incidentRow  = regexp.MustCompile(`(?m)^\| (\d+) \| .* \| (.*) \|$`)
	namedTest    = regexp.MustCompile("`((?:[a-z]+/)*[a-z]+)\\.(Test\\w+)`")
	namedCase    = regexp.MustCompile(`case (\d+) \(([^)]+)\)`)
	linkToReason = regexp.MustCompile(`\]\((?:[\w/.-]+\.md)?(?:#[\w-]+)?\)`)
)

// Each incident names a test or a case, or links to the place that argues why it cannot happen here. Each test is in the directory
// that the page names, and each case has its number and name.
func TestIncidents(t *testing.T) {
	t.Chdir("../..")
	page := readFile(t, "docs/incidents.md")
	for _, m := range incidentRow.FindAllStringSubmatch(page, -1) {
		if !namedTest.MatchString(m[2]) && !namedCase.MatchString(m[2]) && !linkToReason.MatchString(m[2]) {
			t.Errorf("incident %s names no test, and links to no reason", m[1])
		}
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
