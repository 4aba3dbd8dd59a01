package power

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rollcall/integration/needs"
)

const markName = "incomplete"

// A restore or an import makes nothing in a directory before its mark there is durable, and names the command. It
// removes the mark of the data when everything else is durable, and succeeds when no loss of power brings it back.
func TestMarksAreDurable(t *testing.T) {
	needs.Check(t, needs.Usual)
	s := saved(t)
	s.server = exported(t, s.backup)
	for _, f := range fillings {
		t.Run(f.name, func(t *testing.T) {
			i := newInterruption(t, f, s)
			changes := i.d.recorder.all()
			for _, name := range []string{"data", "log"}[:len(i.dirs())] {
				i.marksFirst(t, changes, name)
			}
			i.unmarksLast(t, changes)
		})
	}
}

// marksFirst checks what a loss of power leaves when the command makes the first file beside its mark.
func (i *interruption) marksFirst(t *testing.T, changes []change, name string) {
	t.Helper()
	own, marked := directoryIn(changes, name), false
	for place, c := range changes {
		switch {
		case c.on != own || c.kind != makes && c.kind != rename && c.kind != link || c.name == "lock":
			continue
		case c.name == markName:
			marked = true
			continue
		case !marked:
			t.Errorf("%s has %s before its mark", name, c.name)
			return
		}
		dirs, _ := cut(t, changes, place, 1, 0) // nothing is kept that is not durable
		text, err := os.ReadFile(filepath.Join(dirs[0], name, "rollcall", markName))
		if want := "rollcall " + strings.Join(i.args, " ") + "\n"; err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("before %s has %s, a loss of power leaves the mark %q, want %q: %v", name, c.name, text, want, err)
		}
		return
	}
	t.Errorf("nothing was made in %s", name)
}

// unmarksLast checks what a loss of power leaves before the mark of the data is removed, and after the end.
func (i *interruption) unmarksLast(t *testing.T, changes []change) {
	t.Helper()
	own := directoryIn(changes, "data")
	end := slices.IndexFunc(changes, func(c change) bool { return c.on == own && c.kind == remove && c.name == markName })
	if end < 0 {
		t.Fatal("the mark of the data was not removed")
	}
	for seed := range uint64(kinds) {
		for _, place := range []int{end, len(changes)} {
			dirs, o := cut(t, changes, place, 1, seed)
			after := *i
			after.dir = dirs[0]
			err := error(nil)
			if place == end { // as if the removal was kept
				err = os.Remove(filepath.Join(dirs[0], "data", "rollcall", markName))
			}
			left, state, lerr := after.left()
			if err := errors.Join(err, lerr); err != nil || left != complete || state != i.state {
				t.Errorf("power was lost after change %d of %d, the mark of the data is removed, and the disk %v: the directories are %s, digest %x, want %x: %v",
					place, len(changes), o, left, state, i.state, err)
			}
		}
	}
}

// directoryIn returns the number of the member's own directory in the directory of this name. It was made last.
func directoryIn(changes []change, name string) int {
	number := map[string]int{}
	for _, c := range changes {
		if c.kind == makes && c.directory {
			number[fmt.Sprintf("%d/%s", c.on, c.name)] = c.node
		}
		if c.kind == format {
			number = map[string]int{"": c.on}
		}
	}
	return number[fmt.Sprintf("%d/rollcall", number[fmt.Sprintf("%d/%s", number[""], name)])]
}
