package house

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// pages returns the text of every Markdown page of the tree by its path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for path := range filesOfTree(t) {
		if filepath.Ext(path) != ".md" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		found[path] = string(text)
	}
	return found
}

// filesOfTree returns the paths of all files except those below testdata and below hidden directories other than .github.
func filesOfTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || path != "." && name != ".github" && strings.HasPrefix(name, ".")):
			return filepath.SkipDir
		case !d.IsDir():
			found[path] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

var (
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```$")
	codeLine  = regexp.MustCompile("(?m)^(    |\t).*$") // a command or its output
	link      = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
)

func withoutCode(text string) string {
	return codeLine.ReplaceAllString(codeBlock.ReplaceAllString(text, ""), "")
}

// links returns the targets of the links on a page.
func links(text string) (targets []string) {
	for _, m := range link.FindAllStringSubmatch(withoutCode(text), -1) {
		targets = append(targets, m[1])
	}
	return targets
}

// anchors returns the names that links use for the headings of a page: in lower case, with a hyphen
// for each space and without punctuation.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(withoutCode(text), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return names
}

// Every relative link on a page leads to a file that exists. If it names a heading, the file has
// that heading.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Chdir("../..")
	all := pages(t)
	checked := 0
	for path, text := range all {
		for _, target := range links(text) {
			to, err := url.Parse(target)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if to.IsAbs() {
				continue
			}
			checked++
			file := path
			if to.Path != "" {
				file = filepath.Join(filepath.Dir(path), filepath.FromSlash(to.Path))
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s: there is no such file", path, target)
				continue
			}
			if to.Fragment != "" && !slices.Contains(anchors(all[file]), to.Fragment) {
				t.Errorf("%s links to %s: %s has no such heading", path, target, file)
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d relative links on all pages; the pattern for links no longer finds them", checked)
	}
}

// The index links to every page below docs, and README.md links to the index.
func TestDocsIndex(t *testing.T) {
	t.Chdir("../..")
	const index = "docs/README.md"
	all := pages(t)
	listed := links(all[index])
	for path := range all {
		inside, ok := strings.CutPrefix(path, "docs/")
		if ok && path != index && !slices.Contains(listed, inside) {
			t.Errorf("%s has no link to %s", index, path)
		}
	}
	if !slices.Contains(links(all["README.md"]), index) {
		t.Errorf("README.md has no link to %s", index)
	}
}

// Every test that a page below docs names exists, in the package that the page names.
func TestDocsNameTests(t *testing.T) {
	t.Chdir("../..")
	names := regexp.MustCompile("`(?:[a-z]+/)*([a-z]+)\\.(Test\\w+)`")
	sources := map[string]string{} // by the last part of the package's path; the root's is rollcall
	for path := range filesOfTree(t) {
		if strings.HasSuffix(path, "_test.go") {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pkg := filepath.Base(filepath.Dir(path))
			if pkg == "." {
				pkg = "rollcall"
			}
			sources[pkg] += string(text)
		}
	}
	for path, text := range pages(t) {
		if !strings.HasPrefix(path, "docs/") {
			continue
		}
		for _, m := range names.FindAllStringSubmatch(text, -1) {
			if !strings.Contains(sources[m[1]], "func "+m[2]+"(t *testing.T)") {
				t.Errorf("%s names %s.%s, which does not exist", path, m[1], m[2])
			}
		}
	}
}
