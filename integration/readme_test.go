package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that README.md names exists, and its table of mutants matches the code.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	for _, m := range regexp.MustCompile("`(?:([a-z]+(?:/[a-z]+)?)\\.)?(Test\\w+)`").FindAllStringSubmatch(string(text), -1) {
		dir := "."
		if m[1] != "" {
			dir = filepath.Join("..", m[1])
			if _, err := os.Stat(m[1]); err == nil {
				dir = m[1] // a folder below this one
			}
		}
		if sources[dir] == "" {
			sources[dir] = testSources(t, dir)
		}
		if !strings.Contains(sources[dir], "func "+m[2]+"(t *testing.T)") {
			t.Errorf("README.md names %s, which is not in %s", m[2], dir)
		}
	}
	names := map[string]bool{}
	for _, m := range mutants {
		names[m.name+" "+m.file] = true
		if !strings.Contains(string(text), "| "+m.name+" | `"+m.file+"` |") {
			t.Errorf("README.md does not have the mutant %q", m.name)
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|`]+) \\| `([\\w/]+\\.go)` \\|").FindAllStringSubmatch(string(text), -1) {
		if !names[m[1]+" "+m[2]] {
			t.Errorf("README.md has the mutant %q in %s, which the code does not have", m[1], m[2])
		}
	}
}

func testSources(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
