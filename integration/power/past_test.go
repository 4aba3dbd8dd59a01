package power

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"rollcall/config"
	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/quorum/disk"
	"rollcall/quorum/history"
)

// keptDirectories returns the directories of a member's past.
func keptDirectories(dir string) history.Directories {
	own := disk.OwnDirectory(dir)
	return history.Directories{Data: own, Log: own}
}

// entries are the terms and the hashes of entries, the first of which has index 1.
type entries []string

// readPast reads what a member keeps, with each snapshot, to the entry with an index; 0: to the end of the log. It has
// to go back to the first entry without a gap.
func readPast(dir string, last uint64) (all entries, err error) {
	list, err := history.List(keptDirectories(dir), last)
	switch {
	case err != nil:
		return nil, err
	case len(list.Damaged) > 0:
		return nil, fmt.Errorf("damaged: %s", strings.Join(list.Damaged, "; "))
	case len(list.Spans) == 0:
		return nil, nil
	case len(list.Spans) > 1 || list.Spans[0].First != 1:
		return nil, fmt.Errorf("there are %d spans, and the first one begins with entry %d", len(list.Spans), list.Spans[0].First)
	}
	ctx, c := context.Background(), history.NewChain(list.Spans[0], history.DirectorySource{Directories: keptDirectories(dir)})
	for _, s := range c.Snapshots {
		r, err := c.OpenSnapshot(ctx, s)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, r)
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
	}
	for e, err := range c.Entries(ctx, 0) {
		if err != nil {
			return nil, err
		}
		sum := fnv.New64a()
		_, _ = sum.Write(e.Data) // never fails
		all = append(all, fmt.Sprintf("%d of type %d, data %x", e.Term, e.Type, sum.Sum64()))
	}
	return all, nil
}

// judge reads the past after a loss of power, and again after a start, when it must reach the end of the log. e has all
// entries that were written.
func (e entries) judge(dir string) error {
	found, err := readPast(dir, 0)
	if err != nil {
		return fmt.Errorf("before a start: %w", err)
	}
	if err := e.beginWith(found); err != nil {
		return fmt.Errorf("before a start: %w", err)
	}
	last, err := startKeeping(dir)
	if err != nil {
		return fmt.Errorf("a start refuses: %w", err)
	}
	if found, err = readPast(dir, last); err != nil {
		return fmt.Errorf("after a start: %w", err)
	}
	if uint64(len(found)) != last {
		return fmt.Errorf("after a start the past ends with entry %d, and the log with %d", len(found), last)
	}
	return e.beginWith(found)
}

// beginWith returns an error unless found are the first entries, in their order.
func (e entries) beginWith(found entries) error {
	if len(found) > len(e) {
		return fmt.Errorf("there are %d entries, and the member had %d", len(found), len(e))
	}
	for i, one := range found {
		if one != e[i] {
			return fmt.Errorf("entry %d is %s, and was %s", i+1, one, e[i])
		}
	}
	return nil
}

// startKeeping opens a member's directory as a start does that keeps the past, and returns the index of the last entry.
func startKeeping(dir string) (last uint64, err error) {
	d, err := disk.Open(disk.Config{
		MemberID: 1, ServerList: []string{"1"}, DataDir: dir, RaftRunning: func() bool { return false }, StallLimit: config.DefaultStallLimit,
		Retirement: disk.Retirement{Moved: func() {}, FreeSpace: func() bool { return false }},
		Logger:     slog.New(slog.DiscardHandler), RaftLogger: hclog.NewNullLogger(),
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.RepairLog(verify); err != nil {
		return 0, err
	}
	return d.Log().LastIndex()
}

// keepingPlaces returns the places at which a file of the past is moved, gets its name, or is synced with its directory.
// A compressed file's source loses its name just after that.
func keepingPlaces(changes []change) (places []int) {
	for place, c := range changes {
		if c.kind == move || c.kind == rename && strings.HasSuffix(c.name, ".zst") ||
			c.kind == sync && strings.Contains(c.name, "/"+disk.KeptDirName) {
			places = append(places, place)
		}
	}
	return places
}

// Whatever a loss of power interrupts, also while files of the past are moved and compressed, the member starts, and the
// past has every entry since the first one, none that was not in the log, and no damage.
func TestPastLosesPower(t *testing.T) {
	needs.Check(t, needs.Usual)
	l := startLoner(t, "")
	load := startLoad(t, l.d.recorder, l.Members, 1)
	err := process.Until(t.Context(), "files of the past were compressed", func() bool {
		n := 0
		for _, c := range l.d.recorder.all() {
			if c.kind == rename && strings.HasSuffix(c.name, ".zst") {
				n++
			}
		}
		return n >= 4
	})
	if err != nil {
		t.Fatal(err)
	}
	acked := load.stop()
	l.KillAll()
	changes := l.d.recorder.all()
	dirs := cutAll(t, changes, len(changes), 1, whole{})
	all, err := readPast(dirs[0], 0)
	if err != nil || len(all) == 0 {
		t.Fatalf("without a loss of power the past has %d entries: %v", len(all), err)
	}
	rng, places := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1)), keepingPlaces(changes)
	tried := map[int]int{} // the number of outages at a place
	for range outages(t, 120) {
		if rng.IntN(4) == 0 {
			tried[1+rng.IntN(len(changes))]++
			continue
		}
		tried[min(len(changes), places[rng.IntN(len(places))]+rng.IntN(4))]++
	}
	eachPlace(changes, func(place int, v *volume) bool {
		for range tried[place] {
			o := newOutage(rng.Uint64(), place)
			err := onDisk(t, v, o, func(dir string) error {
				if err := all.judge(dir); err != nil {
					return err
				}
				return keepsAll(dir, before(acked, place), false)
			})
			if err != nil {
				t.Errorf("power was lost after change %d of %d, and the disk %v: %v", place, len(changes), o, err)
			}
		}
		return true
	})
	fmt.Printf("power: %s: %d changes, %d of the past, %d entries\n", t.Name(), len(changes), len(places), len(all))
}

// pastOfAll reads what each member keeps of the past, up to its newest snapshot, and returns an error if that is damaged, or if two
// members have another entry at one index.
func pastOfAll(dirs []string) (known int, err error) {
	all := map[uint64]string{}
	for i, dir := range dirs {
		list, err := history.List(keptDirectories(dir), 0)
		if err == nil && len(list.Damaged) > 0 {
			err = fmt.Errorf("damaged: %s", strings.Join(list.Damaged, "; "))
		}
		if err != nil {
			return 0, fmt.Errorf("member %d: %w", i+1, err)
		}
		for _, span := range list.Spans {
			if len(span.Snapshots) == 0 {
				continue
			}
			settled := span.Snapshots[len(span.Snapshots)-1].Index // later entries may have been replaced on other members
			chain := history.NewChain(span, history.DirectorySource{Directories: keptDirectories(dir)})
			for e, err := range chain.Entries(context.Background(), span.First-1) {
				if err != nil {
					return 0, fmt.Errorf("member %d: %w", i+1, err)
				}
				if e.Index > settled {
					break
				}
				entry := fmt.Sprintf("%d of type %d, data %x", e.Term, e.Type, e.Data)
				if other, found := all[e.Index]; found && other != entry {
					return 0, fmt.Errorf("member %d has another entry %d: %.60s, and not %.60s", i+1, e.Index, entry, other)
				}
				all[e.Index] = entry
			}
		}
	}
	return len(all), nil
}

// All members that keep the past lose their power at the same moment. None fails to start, most of them have every
// acknowledged write, and their pasts are complete and equal.
func TestAllLosePowerWithPast(t *testing.T) {
	needs.Check(t, needs.Usual)
	first := process.Setting(t, "ROLLCALL_FIRST", 0, 0)
	s := tell(t, uint64(first), "")
	rng, places := rand.New(rand.NewPCG(uint64(first), 3)), keepingPlaces(s.changes)
	most := 0
	for seed := first; seed < first+outages(t, 30); seed++ {
		place := s.place(rng)
		if seed%2 == 0 {
			place = min(len(s.changes), places[rng.IntN(len(places))]+rng.IntN(4))
		}
		if err := s.survives(t, s.changes, place, uint64(seed), false); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		dirs, o := cut(t, s.changes, place, len(s.servers), uint64(seed))
		known, err := pastOfAll(dirs)
		removeAll(dirs)
		if err != nil {
			t.Fatalf("seed %d: power was lost after change %d of %d, and the disk %v: %v", seed, place, len(s.changes), o, err)
		}
		most = max(most, known)
	}
	if most < 200 {
		t.Errorf("the members have %d entries of the past at most", most)
	}
	t.Run("serve", s.serves)
	fmt.Printf("power: %s: %d changes, %d of the past, %d entries\n", t.Name(), len(s.changes), len(places), most)
}
