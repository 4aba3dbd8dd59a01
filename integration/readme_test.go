package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every test that README.md names exists.
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
				dir = m[1] // a directory below this one
			}
		}
		if sources[dir] == "" {
			sources[dir] = testSources(t, dir)
		}
		if !strings.Contains(sources[dir], "func "+m[2]+"(t *testing.T)") {
			t.Errorf("README.md names %s, which is not in %s", m[2], dir)
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
