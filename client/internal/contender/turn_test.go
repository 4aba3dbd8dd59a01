package contender

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The contenders of the tests of turns have the kinds of their names' letters, and the numbers 1, 2 and so on.
func contendersOf(kinds string) []string {
	names := make([]string, len(kinds))
	for i, letter := range kinds {
		kind := Reader
		if letter == 'w' {
			kind = Writer
		}
		id := fmt.Sprintf("%08x%s", i, uuid[8:])
		names[i] = CuratorReadWrite.namePrefix(id, kind) + fmt.Sprintf("%010d", i+1)
	}
	return names
}

// contenderNamed returns the contender whose node has the name.
func contenderNamed(t *testing.T, text string) *Contender {
	t.Helper()
	name, ok := CuratorReadWrite.Parse(text)
	if !ok {
		t.Fatalf("%q is no name", text)
	}
	return &Contender{cfg: Config{Parent: "/f", Layout: CuratorReadWrite}, name: name, id: name.ID}
}

// A contender waits for the last earlier one that its WaitsFor selects, whatever the order of the list, and not for later
// ones.
func TestAheadOf(t *testing.T) {
	afterWriters := func(before Kind) bool { return before == Writer }
	for _, tt := range []struct {
		kinds string // the last but one is the contender's
		turn  func(Kind) bool
		want  int // the index of the one that it waits for, or -1
	}{
		{"rw", nil, -1},
		{"rrw", nil, 0},
		{"wrwrrw", nil, 3},
		{"rw", afterWriters, -1},
		{"rrrw", afterWriters, -1},
		{"wrw", afterWriters, 0},
		{"wrwrrw", afterWriters, 2},
	} {
		list := contendersOf(tt.kinds)
		own := len(list) - 2
		x := contenderNamed(t, list[own])
		x.cfg.WaitsFor = tt.turn
		want := ""
		if tt.want >= 0 {
			want = list[tt.want]
		}
		for range list { // all rotations, and both directions
			list = append(list[1:len(list):len(list)], list[0])
			for range 2 {
				slices.Reverse(list)
				got, err := x.positionAmong(t.Context(), list)
				if err != nil || got.predecessor.Text != want || got.mustWait() != (want != "") || got.ahead != own {
					t.Errorf("%s, listed as %q: waits for %q, %d are ahead, %v; want %q, %d", tt.kinds, list, got.predecessor.Text,
						got.ahead, err, want, own)
				}
			}
		}
	}
}

// Numbers after 2147483647 are in order, also beside shorter ones.
func TestAheadOfLongNumbers(t *testing.T) {
	var list []string
	for i, number := range []string{"0000000009", "2147483646", "2147483648", "8999999999", "9000000009000000000", "9000000009000000001"} {
		list = append(list, CuratorReadWrite.namePrefix(fmt.Sprintf("%08x%s", 9-i, uuid[8:]), Writer)+number)
	}
	for i, own := range list {
		got, err := contenderNamed(t, own).positionAmong(t.Context(), list)
		if err != nil || got.ahead != i || i > 0 && got.predecessor.Text != list[i-1] {
			t.Errorf("%s: %d are ahead, the last is %q, %v", own, got.ahead, got.predecessor.Text, err)
		}
	}
}

// A contender gets no turn under a parent with foreign nodes, with used up numbers, or without the contender's own node.
func TestAheadOfErrors(t *testing.T) {
	list := contendersOf("www")
	x := contenderNamed(t, list[1])
	last := CuratorReadWrite.namePrefix(uuid, Writer) + "2147483647"
	for _, tt := range []struct {
		list []string
		want error
	}{
		{[]string{list[2], list[0]}, ErrRemoved},
		{append([]string{last}, list...), ErrNumbersUsedUp},
		{append([]string{"zeta", last, "alpha"}, list...), ErrForeignContenders},
	} {
		_, err := x.positionAmong(t.Context(), tt.list)
		if !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.list, err, tt.want)
		}
		if errors.Is(tt.want, ErrForeignContenders) && !strings.Contains(err.Error(), ": alpha, zeta.") {
			t.Errorf("the foreign nodes are not sorted: %v", err)
		}
	}
}
