package rollcall_test

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"rollcall/operator/backup"
	"rollcall/znode"
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

// filesOfTree returns the paths of all files except those below testdata and below hidden directories.
func filesOfTree(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || path != "." && strings.HasPrefix(name, ".")):
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

// Every row that a page cites from docs/performance.md is there, with the same figures.
func TestCitedFigures(t *testing.T) {
	const measured = "docs/performance.md"
	all := pages(t)
	rows := comparisons(all[measured])
	cited := 0
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if path == measured {
			continue
		}
		for _, row := range comparisons(all[path]) {
			cited++
			if !slices.Contains(rows, row) {
				t.Errorf("%s has a row that is not in %s:\n%s", path, measured, row)
			}
		}
	}
	if cited == 0 {
		t.Error("no page cites a figure")
	}
}

// comparisons returns the rows of all tables whose first columns are case, figure, ZooKeeper,
// Rollcall and ratio. It drops all further columns, and replaces an empty case by the one above it.
func comparisons(text string) (rows []string) {
	const columns = 5
	inside, last := false, ""
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case !strings.HasPrefix(line, "|") || len(cells) < columns:
			inside = false
		case strings.Join(cells[:columns], "|") == "case|figure|ZooKeeper|Rollcall|ratio":
			inside = true
		case inside && !strings.HasPrefix(cells[0], "---"):
			if cells[0] != "" {
				last = cells[0]
			}
			cells[0] = last
			rows = append(rows, strings.Join(cells[:columns], " | "))
		}
	}
	return rows
}

// README.md has one table of figures before its tour. The pages to which it links have the others.
func TestReadmeHasOneTableBeforeTheTour(t *testing.T) {
	before, _, found := strings.Cut(pages(t)["README.md"], "\n## A tour\n")
	if tables := strings.Count(before, "\n|---|"); !found || tables != 1 || len(comparisons(before)) == 0 {
		t.Errorf("README.md has a tour: %t, %d tables before it, and %d rows of figures there; want one table of figures", found, tables, len(comparisons(before)))
	}
}

// The commands of docs/getting-started.md leave its clone before anything but make writes a file, and run the interpreter that
// has Debian's kazoo.
func TestGettingStartedLeavesTheClone(t *testing.T) {
	commands := strings.Join(codeLine.FindAllString(pages(t)["docs/getting-started.md"], -1), "\n")
	inside, outside, left := strings.Cut(commands, " && cd ../rollcall-trial\n")
	if !left || strings.ContainsAny(inside, ">") || strings.Contains(inside, " serve ") || strings.Contains(inside, " up\n") || strings.Contains(outside, "bin/rollcall") {
		t.Errorf("the page works in its clone, or leaves it by no cd ../rollcall-trial:\n%s", commands)
	}
	if !strings.HasSuffix(commands, "$ cd .. && rm -r rollcall-trial") {
		t.Error("the last command of the page does not remove what it has made")
	}
	for line := range strings.Lines(commands) {
		if at := strings.Index(line, "python3 "); at >= 0 && !strings.HasSuffix(line[:at], "$ /usr/bin/") {
			t.Errorf("another interpreter than Debian's may have no kazoo: %s", line)
		}
	}
}

// docs/upgrade.md has a row for each format of the log that this version knows, and for no other, and the version of backups.
func TestUpgradePage(t *testing.T) {
	page, err := os.ReadFile("docs/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	var formats []string
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+) \| .*\| version \d+ \|$`).FindAllStringSubmatch(string(page), -1) {
		formats = append(formats, m[1])
	}
	var want []string
	for n := range znode.FormatLevel {
		want = append(want, fmt.Sprint(n+1))
	}
	if !slices.Equal(formats, want) {
		t.Errorf("docs/upgrade.md has the formats %q, and this version knows %q", formats, want)
	}
	for _, row := range []string{
		fmt.Sprintf("| An entry of the log | its format; the newest is %d |", znode.FormatLevel),
		fmt.Sprintf("| A backup | %d, around a snapshot |", backup.Version),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("docs/upgrade.md lacks %q", row)
		}
	}
}
