package lockorder

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root = "../../.."
	page = root + "/docs/dev/locks.md"
)

// row is a row of the page's table: a lock that is held, those that may be taken then, and the reason.
var row = regexp.MustCompile("(?m)^\\| `([^`|]+)` \\| ([^|]+) \\| ([^|]+) \\|$")

// packagesOfMember returns the packages of Rollcall that a member needs.
func packagesOfMember(t *testing.T) (own []string) {
	t.Helper()
	list := exec.Command("go", "list", "-deps", "./member")
	list.Dir = root
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(text)) {
		if strings.HasPrefix(name, module) {
			own = append(own, name)
		}
	}
	return own
}

// The table of docs/dev/locks.md has each pair of locks that the code of a member takes one under the other, and no other pair. Each
// lock is taken in the order of the table: a row takes none of an earlier row.
func TestLocksAreTakenInOrder(t *testing.T) {
	found, err := Load(root, packagesOfMember(t)...)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 50 {
		t.Errorf("%d pairs are found; the analysis no longer sees the locks", len(found))
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var earlier []string
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		held := cells[1]
		earlier = append(earlier, held)
		for _, taken := range strings.Split(strings.ReplaceAll(cells[2], "`", ""), ", ") {
			pair := Pair{held, taken}
			if found[pair] == "" {
				t.Errorf("the page has %s under %s, which the code does not take", taken, held)
			}
			if slices.Contains(earlier, taken) {
				t.Errorf("%s is taken under %s, which comes after it in the order", taken, held)
			}
			delete(found, pair)
		}
	}
	for pair, place := range found {
		t.Errorf("the page does not have %s, which is taken under %s in %s", pair.Taken, pair.Held, place)
	}
}
