package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ci/test.sh names tests to leave out, or to run alone. A name that no test has does nothing, in silence.
func TestNamedTestsExist(t *testing.T) {
	t.Chdir("../..")
	script, err := os.ReadFile("ci/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func Test(\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			exist[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	lists := regexp.MustCompile(`(?m)^(?:costs|long)='(.+)'$`).FindAllStringSubmatch(string(script), -1)
	if len(lists) != 2 {
		t.Fatalf("ci/test.sh has %d lists of tests, want 2: costs and long", len(lists))
	}
	for _, list := range lists {
		for name := range strings.SplitSeq(list[1], "|") {
			if !exist[name] {
				t.Errorf("ci/test.sh names Test%s, and no test has that name", name)
			}
		}
	}
}
