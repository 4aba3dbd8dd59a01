package power

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	gosync "sync"
	"syscall"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// loner is an ensemble of one member, whose disk is recorded from its first start on.
type loner struct {
	*process.Ensemble
	d *recorded
}

// keepsNothing is the line of zoo.cfg with which members remove segments of their logs.
const keepsNothing = "history.bytes=0\n"

// startLoner starts a member with some more lines of zoo.cfg.
func startLoner(t *testing.T, lines string) *loner {
	t.Helper()
	l, r := &loner{}, &recorder{}
	l.Ensemble = process.StartEnsemble(t, process.Config{
		Size: 1, Grows: true, Tick: tick, Binary: rollcall, Lines: "maxClientCnxns=0\nsnapCount=40\n" + lines,
		Prepare: func(m *process.Member) {
			l.d = r.record(t, rollcall, m.Data, 1)
			m.Binary, m.Env = l.d.Binary, l.d.Env
		},
	})
	return l
}

// awaitSnapshots waits for two snapshots and the removal of two segments of the log.
func (l *loner) awaitSnapshots(t *testing.T) {
	t.Helper()
	err := process.Until(t.Context(), "there are two snapshots, and two segments were removed", func() bool {
		changes := l.d.recorder.all()
		return len(syncsOf(changes)["rollcall/snapshots"]) >= 2 && len(segmentRemovals(changes)) >= 2
	})
	if err != nil {
		t.Fatal(err)
	}
}

// segmentRemovals returns the places at which segments of the log were removed.
func segmentRemovals(changes []change) (places []int) {
	for place, c := range changes {
		if c.kind == remove && strings.HasSuffix(c.name, ".log.removed") {
			places = append(places, place)
		}
	}
	return places
}

// shortenedTooEarly returns how often a segment was shortened while a loss of power could bring its old name back, or -1
// if no segment was shortened at all.
func shortenedTooEarly(changes []change) (n int) {
	unsynced, removed, shortened := map[int]int{}, map[int]bool{}, false // unsynced has the directories of segments that have lost their names
	for _, c := range changes {
		switch c.kind {
		case rename:
			if strings.HasSuffix(c.name, ".removed") {
				unsynced[c.node], removed[c.node] = c.on, true
			}
		case sync:
			maps.DeleteFunc(unsynced, func(_, directory int) bool { return directory == c.on })
		case resize:
			if _, early := unsynced[c.on]; early {
				n++
			}
			shortened = shortened || removed[c.on]
		}
	}
	if !shortened {
		return -1
	}
	return n
}

// If a member is alone, no other member has a copy of the writes that it acknowledges. All of them survive a loss of
// power at any place, also while it takes snapshots and removes segments of the log, and the member starts.
func TestMemberAloneLosesPower(t *testing.T) {
	needs.Check(t, needs.Usual)
	l := startLoner(t, keepsNothing)
	load := startLoad(t, l.d.recorder, l.Members, 1)
	l.awaitSnapshots(t)
	load.await(t, 20)
	acked := load.stop()
	l.KillAll()
	changes := l.d.recorder.all()
	survives := func(place int, v *volume, o *outage) error {
		return onDisk(t, v, o, func(dir string) error {
			lies := o.rng.IntN(4) == 0
			if lies {
				zeroLastSegments(t, []string{dir})
			}
			err := keepsAll(dir, before(acked, place), lies)
			if err != nil {
				err = fmt.Errorf("the disk has forgotten the last segment: %t: %w", lies, err)
			}
			return err
		})
	}
	if n := shortenedTooEarly(changes); n != 0 {
		t.Errorf("%d segments were shortened before the loss of their names was durable, or none was shortened (-1)", n)
	}
	syncs, removals := syncsOf(changes), segmentRemovals(changes)
	rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
	tried := map[int]int{} // the number of outages at a place
	for range outages(t, 30) {
		switch rng.IntN(3) {
		case 0:
			tried[1+rng.IntN(len(changes))]++
		case 1: // around a removal
			tried[min(len(changes), removals[rng.IntN(len(removals))]+rng.IntN(6))]++
		case 2: // around a sync, of each class as often as of any other
			classes := sortedKeys(syncs)
			places := syncs[classes[rng.IntN(len(classes))]]
			tried[min(len(changes), places[rng.IntN(len(places))]+rng.IntN(4))]++
		}
	}
	eachPlace(changes, func(place int, v *volume) bool {
		for range tried[place] {
			o := newOutage(rng.Uint64(), place)
			if err := survives(place, v, o); err != nil {
				t.Errorf("power was lost after change %d of %d, and the disk %v: %v", place, len(changes), o, err)
			}
		}
		return true
	})
	fmt.Printf("power: %s: %d changes, %d snapshots, %d segments removed\n", t.Name(), len(changes), len(syncs["rollcall/snapshots"]), len(removals))
	t.Run("syncs", func(t *testing.T) { needsSyncs(t, changes, syncs, classes, survives) })
}

// keepsAll reads what is left of a member's directory, which must have everything that was acknowledged. If the disk lies, the member may
// notice that instead.
func keepsAll(dir string, acked []acknowledged, lies bool) error {
	all, err := readAll([]string{dir}, []string{"1"})
	if err != nil && lies {
		return nil
	}
	if err != nil {
		return err
	}
	return judge(all, acked, 1)
}

// cutShort is a fault of a member that runs: at a call that is counted from when it is armed.
type cutShort struct {
	*place
	sparesLog bool // calls of segments of the log, and of its mark, do not count: snapshots, votes and names are rare beside them
	mu        gosync.Mutex
	armed     bool
}

// refuses is for recorded.refuses.
func (c *cutShort) refuses(call *process.Call) syscall.Errno {
	c.mu.Lock()
	defer c.mu.Unlock()
	what, _ := c.change(call)
	ofLog := strings.Contains(what, "rollcall/log/")
	if !c.armed || c.sparesLog && c.calls < c.n && ofLog {
		return 0
	}
	return c.place.refuses(call)
}

func (c *cutShort) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
}

// goesOn is the time that a member runs after the failure of a call that it can do without, such as the removal of a
// segment.
const goesOn = 3 * time.Second

// awaitEnd waits until the member has ended because of a fault. If only one call fails, it may continue, and is killed.
func (l *loner) awaitEnd(t *testing.T, at *cutShort) {
	t.Helper()
	p, ctx := l.Members[0].Process, t.Context()
	if !at.kills && !at.stays {
		within, cancel := context.WithTimeout(ctx, goesOn)
		defer cancel()
		ctx = within
	}
	if _, err := p.ExitStatus(ctx); err == nil {
		return
	} else if at.kills || at.stays {
		t.Fatalf("%s at call %d, %s: the member goes on: %v", at.name, at.n, at.what, err)
	}
	p.Kill()
}

// maxRounds bounds the rounds of a long run: each one reads everything that was acknowledged in those before.
const maxRounds = 60

// A member alone is killed, or finds no space, at any of its calls: it ends, has all that it has acknowledged, and serves it again once
// there is space.
func TestMemberAloneIsInterrupted(t *testing.T) {
	needs.Check(t, needs.Usual)
	l := startLoner(t, "")
	m := l.Members[0]
	rng := rand.New(rand.NewPCG(uint64(process.Setting(t, "ROLLCALL_FIRST", 0, 0)), 1))
	var acked []acknowledged
	for round := range min(maxRounds, process.Setting(t, "ROLLCALL_OUTAGES", 1, 9)) {
		kind := faults[round%len(faults)]
		at := &cutShort{place: &place{recorded: l.d, fault: kind, n: 1 + rng.IntN(300)}}
		if round%2 == 1 {
			at.sparesLog, at.n = true, 1+rng.IntN(60)
		}
		l.d.setRefusal(at.refuses)
		load := startLoadAt(t, l.d.recorder, l.Members, uint64(round), 10_000*round)
		load.await(t, 10)
		at.arm()
		l.awaitEnd(t, at)
		acked = append(acked, load.stop()...)
		l.d.setRefusal(nil)
		copied := filepath.Join(t.TempDir(), "data")
		if err := process.CopyData(copied, m.Data); err != nil {
			t.Fatal(err)
		}
		if err := keepsAll(copied, acked, false); err != nil {
			t.Errorf("%s at call %d, %s: %v", kind.name, at.n, at.what, err)
		}
		l.Start(m)
		l.Settle()
		if err := shows(m, acked); err != nil {
			t.Errorf("%s at call %d, %s: served again: %v", kind.name, at.n, at.what, err)
		}
		fmt.Printf("power: %s: %s at call %d, %s; %d acknowledged\n", t.Name(), kind.name, at.n, at.what, len(acked))
	}
	l.KillAll()
}
