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

// A comment that silences an analyzer names one that tools/pinned/analyzers runs, and says why. What names another analyzer
// silences nothing.
func TestSilencedAnalyzersAreRun(t *testing.T) {
	t.Chdir("../..")
	run := []string{"errcheck", "errorlint", "ineffassign"}
	silenced := regexp.MustCompile("//" + `nolint\b(?::(\w+))?(?: // (.+))?`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
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
			if !slices.Contains(run, m[1]) {
				t.Errorf("%s: %q silences %q, which is not run", path, m[0], m[1])
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
