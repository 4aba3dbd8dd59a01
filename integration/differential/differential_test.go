package differential

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// These are the number of sequences, unless ROLLCALL_SEQUENCES says otherwise, and the percentage
// of all steps that may be masked.
const (
	maxMasked = 1.0
)

// duel is a ZooKeeper server and an ensemble of Rollcall that get the same requests.
type duel struct{ zk, rc *target }

// Rollcall replies as ZooKeeper does, apart from the table of deviations. ROLLCALL_SEED=17 runs one seed only.
// ROLLCALL_FIRST is the first of many seeds. ROLLCALL_STEPS names a file with a sequence as printed here.
func TestDifferential(t *testing.T) {
	dir := scratch(t)
	duels := make([]*duel, 2)
	for i, members := range []int{1, 3} {
		own := fmt.Sprint(dir, "/", i)
		if err := os.MkdirAll(own, 0o755); err != nil {
			t.Fatal(err)
		}
		duels[i] = &duel{zk: startZooKeeper(t, own), rc: startRollcall(t, own, members)}
	}
	if file := os.Getenv("ROLLCALL_STEPS"); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := parseSteps(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, d := range duels {
			d.runAndCompare(t, newTally(), file, steps)
		}
		return
	}
	first, count := uint64(process.Setting(t, "ROLLCALL_FIRST", 1, 1)), uint64(process.Setting(t, "ROLLCALL_SEQUENCES", 1, needs.Amount(30, 100, 1000)))
	each := false
	if seed := process.Setting(t, "ROLLCALL_SEED", 1, 0); seed != 0 {
		first, count, each = uint64(seed), 1, true
	}
	began, sum := time.Now(), newTally()
	var running sync.WaitGroup
	for i, d := range duels {
		running.Go(func() {
			for seed := first; seed < first+count && !sum.failed(); seed++ {
				if each || seed%uint64(len(duels)) == uint64(i) {
					d.runAndCompare(t, sum, fmt.Sprintf("ROLLCALL_SEED=%d", seed), generate(seed))
				}
			}
		})
	}
	running.Wait()
	t.Logf("%d sequences from seed %d on, %d steps in %v", sum.sequences, first, sum.steps, time.Since(began).Round(time.Second))
	sum.report(t)
	if !t.Failed() {
		sum.checkFloors(t, int(count))
	}
}

// runAndCompare runs a sequence on both sides and compares. If they differ, it shrinks the sequence and prints it.
func (d *duel) runAndCompare(t *testing.T, sum *tally, name string, steps []step) {
	v, err := d.play(steps)
	if err != nil {
		t.Errorf("%s: %v\n%s", name, err, printSteps(steps))
		sum.fail()
		return
	}
	if v.silent { // 3.8.0 sometimes loses a reply
		t.Logf("%s: no reply of ZooKeeper's; once more:\n%s", name, v.text)
		if v, err = d.play(steps); err != nil {
			t.Error(err)
			sum.fail()
			return
		}
	}
	sum.add(steps, v)
	if v.step < 0 {
		return
	}
	sum.fail()
	short := d.shrink(steps)
	sv, err := d.play(short)
	if err != nil || sv.step < 0 { // it does not differ every time
		short, sv = steps, v
	}
	t.Errorf("%s, %s, differs from ZooKeeper:\n%s\nshortest sequence, for ROLLCALL_STEPS:\n%s\nwhere it differs:\n%s",
		name, d.rc.name, v.text, printSteps(short), sv.text)
}

// play runs steps on both sides at the same time.
func (d *duel) play(steps []step) (verdict, error) {
	var zk, rc *transcript
	var zkErr, rcErr error
	var both sync.WaitGroup
	both.Go(func() { zk, zkErr = play(d.zk, steps) })
	both.Go(func() { rc, rcErr = play(d.rc, steps) })
	both.Wait()
	switch {
	case zkErr != nil:
		return verdict{}, zkErr
	case rcErr != nil:
		return verdict{}, rcErr
	}
	return compare(zk, rc), nil
}

// These are limits of shrinking.
const (
	maxAttempts = 400
	maxShrink   = time.Minute
)

// shrink leaves out steps as long as the two sides differ: many at a time first, then single ones.
func (d *duel) shrink(steps []step) []step {
	attempts, end := 0, time.Now().Add(maxShrink)
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for at := 0; at < len(steps) && attempts < maxAttempts && time.Now().Before(end); {
			try := slices.Concat(steps[:at], steps[min(len(steps), at+size):])
			attempts++
			if v, err := d.play(try); err == nil && v.step >= 0 {
				steps, shorter = try, true
			} else {
				at += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return steps
}

// tally counts the results of all sequences. It is safe for concurrent use.
type tally struct {
	mu        sync.Mutex
	sequences int
	steps     int
	bad       int
	masked    map[*deviation]int
	maskedAll int                          // steps of which anything was masked
	answers   map[string]map[jute.Code]int // answers by operation
	events    int
}

func newTally() *tally {
	return &tally{masked: map[*deviation]int{}, answers: map[string]map[jute.Code]int{}}
}

func (s *tally) add(steps []step, v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequences++
	s.steps += len(steps)
	any := map[int]bool{}
	for d, at := range v.masked {
		s.masked[d] += len(at)
		for i := range at {
			if !d.exact {
				any[i] = true
			}
		}
	}
	s.maskedAll += len(any)
	for _, l := range v.lines {
		switch l.kind {
		case event:
			s.events++
		case reply:
			do := steps[l.step].Do
			if s.answers[do] == nil {
				s.answers[do] = map[jute.Code]int{}
			}
			s.answers[do][l.code]++
		}
	}
}

func (s *tally) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad++
}

func (s *tally) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad > 0
}

// report prints how often each deviation occurred, and fails if too much was masked.
func (s *tally) report(t *testing.T) {
	t.Helper()
	t.Logf("%d events, and replies by code:", s.events)
	for _, do := range slices.Sorted(maps.Keys(s.answers)) {
		var codes []string
		for _, code := range slices.Backward(slices.Sorted(maps.Keys(s.answers[do]))) {
			codes = append(codes, fmt.Sprintf("%d: %d", code, s.answers[do][code]))
		}
		t.Logf("  %-20s %s", do, strings.Join(codes, ", "))
	}
	for i := range deviations {
		d := &deviations[i]
		what := "masked"
		if d.exact {
			what = "each side checked by its own rule"
		}
		t.Logf("%6d steps, %s: %s", s.masked[d], what, d.row)
	}
	percent := 100 * float64(s.maskedAll) / float64(max(1, s.steps))
	t.Logf("masked: %d steps of %d, %.2f %%", s.maskedAll, s.steps, percent)
	if percent > maxMasked {
		t.Errorf("masked are %.2f %% of all steps, at most %.2f %% may be", percent, maxMasked)
	}
}

// checkFloors checks that the sequences have brought about enough of each thing. For a hundred sequences, enough is two
// thirds of the count when this was written. For other numbers it is a share of that, without ten sequences, because
// single ones vary. More than a hundred sequences need not show more kinds of operations and codes.
func (s *tally) checkFloors(t *testing.T, sequences int) {
	t.Helper()
	counts := max(0, sequences-10)
	some := min(counts, 90)
	replies, codes := 0, map[jute.Code]bool{}
	for _, answers := range s.answers {
		for code, n := range answers {
			replies += n
			codes[code] = true
		}
	}
	for what, f := range map[string]struct{ got, least int }{
		"sequences":           {s.sequences, sequences},
		"steps":               {s.steps, 3000 * counts / 100},
		"replies":             {replies, 2700 * counts / 100},
		"events":              {s.events, 300 * counts / 100},
		"kinds of operations": {len(s.answers), 28 * some / 90},
		"codes in replies":    {len(codes), 14 * some / 90},
	} {
		if f.got < f.least {
			t.Errorf("%s in %d sequences: %d, want %d at least", what, sequences, f.got, f.least)
		}
	}
}

// Every deviation in the table has a row in the document.
func TestDeviationsHaveRows(t *testing.T) {
	text, err := os.ReadFile("../../docs/deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deviations {
		if !strings.Contains(string(text), "\n| "+d.row+" |") {
			t.Errorf("docs/deviations.md has no row %q", d.row)
		}
	}
}

// The steps that a failure prints can be run again.
func TestStepsReplay(t *testing.T) {
	for seed := range uint64(200) {
		steps := generate(seed)
		text := printSteps(steps)
		again, err := parseSteps(text)
		if err != nil {
			t.Fatal(err)
		}
		if printSteps(again) != text {
			t.Fatalf("seed %d: printed again, it reads\n%s\nand was\n%s", seed, printSteps(again), text)
		}
		for i := range steps {
			if !slices.Equal(steps[i].record("/top", 1), again[i].record("/top", 1)) {
				t.Fatalf("seed %d: %v sends other bytes when it was printed and read", seed, steps[i])
			}
		}
	}
}
