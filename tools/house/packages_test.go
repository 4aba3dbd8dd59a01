package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// packagedPages is where the Debian package has the pages, at their paths in the sources.
const packagedPages = "/usr/share/doc/rollcall/"

// namedPage matches a page in a text of the program or of a configuration, such as docs/admin.md.
var namedPage = regexp.MustCompile(`\bdocs/(?:[a-z-]+/)?[a-z-]+\.md\b`)

// packagedFiles returns the files of deploy/packages/nfpm.yaml that are not built, by where they are installed.
func packagedFiles(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("deploy/packages/nfpm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ Contents []struct{ Src, Dst string } }
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	installed := map[string]bool{}
	for _, c := range config.Contents {
		files, err := filepath.Glob(c.Src)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			dst := c.Dst
			if strings.HasSuffix(dst, "/") {
				dst += path.Base(file)
			}
			installed[dst] = true
		}
	}
	return installed
}

// The Debian package has every page that its configuration, the alerts and the texts of the program name, the alerts, and
// every page for users to which a packaged page links.
func TestPackageHasItsPages(t *testing.T) {
	t.Chdir("../..")
	installed, found := packagedFiles(t), 0
	want := func(by, name string) {
		t.Helper()
		if found++; !installed[packagedPages+name] {
			t.Errorf("%s names %s, which the package does not have", by, name)
		}
	}
	for file := range filesOfTree(t) {
		isCode := filepath.Ext(file) == ".go" && !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "ci/") &&
			!strings.HasPrefix(file, "integration/") && !strings.HasPrefix(file, "lab/bench/") && !strings.HasPrefix(file, "tools/")
		if !isCode && file != "deploy/packages/zoo.cfg" && file != "deploy/alerts.yml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !isCode || strings.Contains(line, `"`) && !strings.HasPrefix(strings.TrimSpace(line), "//") {
				for _, name := range namedPage.FindAllString(line, -1) {
					want(file, name)
				}
			}
		}
	}
	for page, text := range pages(t) {
		if !installed[packagedPages+page] {
			continue
		}
		for _, target := range links(text) {
			name, _, _ := strings.Cut(path.Join(path.Dir(page), target), "#")
			if !strings.Contains(target, "://") && strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/dev/") &&
				(path.Ext(name) == ".md" || path.Ext(name) == ".csv") {
				want(page, name)
			}
		}
	}
	want("docs/production.md", "deploy/alerts.yml")
	if found < 30 {
		t.Errorf("%d pages are named; the pattern no longer finds them", found)
	}
}
