package power

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tries is the number of outages, in each of which the lack of a sync may show.
const tries = 600

// classes are the syncs of members below their data directories. A loss of power needs each of them.
var classes = []string{
	".", // the data directory
	"rollcall",
	"rollcall/identity.json.tmp",
	"rollcall/log",
	"rollcall/log, before a segment is shortened",
	"rollcall/log.durable.tmp",
	"rollcall/log/durable",
	"rollcall/log/durable.tmp",
	"rollcall/log/segment, before it has its name",
	"rollcall/log/segment, first batch",
	"rollcall/log/segment, later",
	"rollcall/raft.db, before it does",
	"rollcall/raft.db, while raft runs", // terms and votes
	"rollcall/raft.db.tmp",
	"rollcall/raft.durable.tmp",
	"rollcall/snapshots",
	"rollcall/snapshots/#-#-#.tmp",
	"rollcall/snapshots/#-#-#.tmp/meta.json.tmp",
	"rollcall/snapshots/#-#-#.tmp/state.bin",
}

// figures are the numbers in paths, which differ from one sync of a class to the next.
var figures = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]+`)

// unwritten says that a segment has its name, and no entry yet.
const unwritten = "no batch yet"

// shortened says that a sync of a directory comes after a segment has lost its name, and before its size changes.
const shortened = "before a segment is shortened"

// syncsOf returns the places of all syncs, by their classes. A class is the path of the synced file, relative to the
// data directory, without its numbers. A segment of the log has a class for each time, and so have terms and votes.
func syncsOf(changes []change) map[string][]int {
	syncs, written, runs := map[string][]int{}, map[[2]int]string{}, map[int]bool{}
	for place, c := range changes {
		id := [2]int{c.disk, c.on}
		switch c.kind {
		case format:
			runs[c.disk] = false
		case makes:
			written[[2]int{c.disk, c.node}] = "before it has its name"
		case rename:
			written[[2]int{c.disk, c.node}] = unwritten
			if strings.HasSuffix(c.name, ".removed") {
				written[id] = shortened
			}
		case write:
			if written[id] == unwritten {
				written[id] = "first batch"
			}
		case sync:
			class := figures.ReplaceAllString(c.name, "#")
			if path.Base(class) == path.Base(againstCopies) {
				continue // only a member that starts again has it
			}
			switch {
			case strings.HasSuffix(c.name, ".log") && written[id] == unwritten:
				continue // a recovery's entries may fill a segment, and the next one is synced without any
			case strings.HasSuffix(c.name, ".log"), strings.HasSuffix(c.name, ".log.tmp"):
				class = path.Join(path.Dir(c.name), "segment, "+cmp.Or(written[id], "later"))
				runs[c.disk] = runs[c.disk] || written[id] == "first batch"
			case written[id] == shortened:
				class += ", " + shortened
				delete(written, id)
			case path.Base(c.name) == "raft.db" && runs[c.disk]:
				class += ", while raft runs"
			case path.Base(c.name) == "raft.db":
				class += ", before it does"
			}
			if written[id] == "first batch" {
				written[id] = "later"
			}
			syncs[class] = append(syncs[class], place)
		}
	}
	return syncs
}

// needsEverySync leaves one kind of sync out of the story, each kind at a time. Then a loss of power must do harm.
func (s *story) needsEverySync(t *testing.T) {
	if got := sortedKeys(s.syncs); !slices.Equal(got, classes) {
		t.Fatalf("the members sync %q, want %q; a sync that is missing has been removed, and a new one must be listed", got, classes)
	}
	rng := rand.New(rand.NewPCG(1, 3))
	for _, class := range classes {
		switch try, err := s.harm(t, class, rng); {
		case err == nil:
			t.Errorf("without the %d syncs of %s, %d outages did no harm", len(s.syncs[class]), class, tries)
		case os.Getenv("ROLLCALL_LOG") != "":
			t.Logf("%s, %d times; without it, outage %d: %v", class, len(s.syncs[class]), try, err)
		}
	}
}

// harm returns the harm of an outage if there are no syncs of a class, or nil if there is none. The power is lost after
// such a sync would have been, and not after the next one of the same file.
func (s *story) harm(t *testing.T, class string, rng *rand.Rand) (try int, err error) {
	left := slices.Clone(s.changes)
	places := s.syncs[class]
	for _, place := range places {
		left[place] = change{disk: left[place].disk, kind: nothing}
	}
	for ; try < tries; try++ {
		from := places[rng.IntN(len(places))]
		lost := s.changes[from]
		next := from + 1 + slices.IndexFunc(left[from+1:], func(c change) bool {
			return c.kind == sync && c.disk == lost.disk && c.on == lost.on || c.kind == format && c.disk == lost.disk
		})
		if next == from {
			next = len(left)
		}
		place := next
		if try%2 == 0 {
			place -= rng.IntN(next - from)
		}
		forget := try/kinds%2 == 1 // after each kind of outage, the same kinds on disks that forget
		if err := s.survives(t, left, place, uint64(try), forget); err != nil {
			return try, err
		}
	}
	return try, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// A sync of a segment without an entry needs no outage: the segment's header was synced before the segment had its name.
func TestSyncOfAnEmptySegment(t *testing.T) {
	const segment = "rollcall/log/0000000003-00000000000000000075.log"
	changes := []change{
		{kind: makes, on: 1, node: 2, name: segment + ".tmp"},
		{kind: write, on: 2},
		{kind: sync, on: 2, name: segment + ".tmp"},
		{kind: rename, on: 1, node: 2, name: segment},
		{kind: sync, on: 2, name: segment},
	}
	before := "rollcall/log/segment, before it has its name"
	if got := sortedKeys(syncsOf(changes)); !slices.Equal(got, []string{before}) {
		t.Errorf("the syncs are of %q", got)
	}
	changes = append(changes, change{kind: write, on: 2}, change{kind: sync, on: 2, name: segment}, change{kind: sync, on: 2, name: segment})
	if got := sortedKeys(syncsOf(changes)); !slices.Equal(got, []string{before, "rollcall/log/segment, first batch", "rollcall/log/segment, later"}) {
		t.Errorf("after writes the syncs are of %q", got)
	}
}
