package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A comment that silences a linter names one that .golangci.yml enables, and says why. What names another linter silences
// nothing.
func TestSilencedLintersAreEnabled(t *testing.T) {
	t.Chdir("../..")
	settings, err := os.ReadFile(".golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	list, _, _ := strings.Cut(string(settings), "  settings:")
	var enabled []string
	for _, m := range regexp.MustCompile(`(?m)^    - (\w+)$`).FindAllStringSubmatch(list, -1) {
		enabled = append(enabled, m[1])
	}
	if !slices.Contains(enabled, "errorlint") {
		t.Fatalf(".golangci.yml enables %q: errorlint is not among them", enabled)
	}
	silenced := regexp.MustCompile("//" + `nolint\b(?::(\w+(?:,\w+)*))?(?: // (.+))?`)
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && strings.HasPrefix(d.Name(), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go":
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range silenced.FindAllStringSubmatch(string(text), -1) {
			for linter := range strings.SplitSeq(m[1], ",") {
				if !slices.Contains(enabled, linter) {
					t.Errorf("%s: %q silences %q, which is not enabled", path, m[0], linter)
				}
			}
			if m[2] == "" {
				t.Errorf("%s: %q gives no reason", path, m[0])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
