package house

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decision is a page of docs/dev/decisions.
type decision struct {
	title, date, state string
	sections           []string
}

var (
	decisionHead = regexp.MustCompile(`\A# (.+)\n\n\* Date: (\d{4}-\d\d-\d\d)\n\* State: (.+)\n`)
	decisionRow  = regexp.MustCompile(`^\[(.+)\]\(([\w-]+\.md)\)$`)
	replacedBy   = regexp.MustCompile(`^replaced by \[.+\]\(([\w-]+\.md)\)$`)
	replaces     = regexp.MustCompile(`^in force(?:, replaces \[.+\]\(([\w-]+\.md)\))?$`)
)

// decisions returns the pages of decisions by their names. Each has a head with its date and state, and the same sections.
func decisions(t *testing.T) map[string]decision {
	t.Helper()
	found := map[string]decision{}
	for file, text := range pages(t) {
		name, ok := strings.CutPrefix(file, "docs/dev/decisions/")
		if !ok || name == "README.md" {
			continue
		}
		head := decisionHead.FindStringSubmatch(text)
		if head == nil {
			t.Errorf("%s does not begin with a title, a date and a state", file)
			continue
		}
		one := decision{title: head[1], date: head[2], state: head[3]}
		for _, h := range heading.FindAllStringSubmatch(text, -1)[1:] {
			one.sections = append(one.sections, h[1])
		}
		if want := []string{"Context", "Decision", "Costs", "Rejected"}; !slices.Equal(one.sections, want) {
			t.Errorf("%s has the sections %q, want %q", file, one.sections, want)
		}
		found[name] = one
	}
	return found
}

// The index of decisions has a row for each page, with its title, date and state, in the order of the dates.
func TestDecisionsAreListed(t *testing.T) {
	t.Chdir("../..")
	all, before := decisions(t), ""
	for _, cells := range tableOf(t, "docs/dev/decisions/README.md", "| Date | Decision | State |") {
		link := decisionRow.FindStringSubmatch(cells[1])
		if link == nil {
			t.Errorf("%q is no link to a page beside the index", cells[1])
			continue
		}
		page, exists := all[link[2]]
		if !exists || page.title != link[1] || page.date != cells[0] || !strings.HasPrefix(page.state, cells[2]) {
			t.Errorf("the row %q differs from its page: %+v", cells, page)
		}
		if cells[0] < before {
			t.Errorf("%s comes after a decision of %s", link[2], before)
		}
		before = cells[0]
		delete(all, link[2])
	}
	for name := range all {
		t.Errorf("the index has no row for %s", name)
	}
}

// A decision is in force, or another one, which is no older, replaces it and names it.
func TestReplacedDecisionsNameEachOther(t *testing.T) {
	t.Chdir("../..")
	all, replaced := decisions(t), 0
	for name, page := range all {
		if next := replacedBy.FindStringSubmatch(page.state); next != nil {
			replaced++
			later := all[path.Base(next[1])]
			if back := replaces.FindStringSubmatch(later.state); back == nil || back[1] != name || later.date < page.date {
				t.Errorf("%s is replaced by %s, whose date is %q and whose state is %q", name, next[1], later.date, later.state)
			}
			continue
		}
		m := replaces.FindStringSubmatch(page.state)
		if m == nil {
			t.Errorf("%s has the state %q", name, page.state)
		} else if m[1] != "" && !strings.Contains(all[m[1]].state, "("+name+")") {
			t.Errorf("%s replaces %s, whose state is %q", name, m[1], all[m[1]].state)
		}
	}
	if replaced == 0 {
		t.Error("no decision is replaced; replacedBy no longer finds the one that is")
	}
}
