package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// programsOfGuide match the Go files that pages below docs/guide quote. All are compiled, and tests run the programs.
var programsOfGuide = []string{"client/examples/*/*.go", "client/example_*_test.go", "integration/observing/*.go"}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

// Each block of Go on a page of the guide is a part of a program that is compiled.
func TestGuideQuotesPrograms(t *testing.T) {
	t.Chdir("../..")
	var programs []string
	for _, pattern := range programsOfGuide {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			programs = append(programs, string(text))
		}
	}
	quoted := 0
	for path, text := range pages(t) {
		if !strings.HasPrefix(path, "docs/guide/") {
			continue
		}
		for _, block := range goBlock.FindAllStringSubmatch(text, -1) {
			quoted++
			if !isQuoted(programs, block[1]) {
				t.Errorf("%s has a block that is in none of %v:\n%s", path, programsOfGuide, block[1])
			}
		}
	}
	const least = 15
	if quoted < least {
		t.Errorf("%d blocks of Go in docs/guide, want at least %d", quoted, least)
	}
}

// Each row of the guide's table of servers is a case of the test that dials them.
func TestGuideServersAreDialed(t *testing.T) {
	t.Chdir("../..")
	example, err := os.ReadFile("client/example_dial_test.go")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableOf(t, "docs/guide/client.md", "| Servers | Config |")
	if len(rows) < 8 {
		t.Errorf("%d rows, want 8 or more", len(rows))
	}
	cases := regexp.MustCompile(`:\s+\{`).ReplaceAllString(string(example), ": {")
	for _, cells := range rows {
		want := `"` + named(cells[0])[0] + `": ` + strings.TrimPrefix(named(cells[1])[0], "client.Config") + ","
		if !strings.Contains(cases, want) {
			t.Errorf("client/example_dial_test.go does not have %s", want)
		}
	}
}

var beginOfLine = regexp.MustCompile(`(?m)^(.)`)

// isQuoted reports whether block is a run of whole lines of one of programs. In the program they may be indented by a
// tab.
func isQuoted(programs []string, block string) bool {
	indented := beginOfLine.ReplaceAllString(block, "\t$1")
	return slices.ContainsFunc(programs, func(program string) bool {
		return strings.Contains("\n"+program, "\n"+block) || strings.Contains("\n"+program, "\n"+indented)
	})
}
