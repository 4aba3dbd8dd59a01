package hostile

import (
	"fmt"
	"sync"
	"testing"

	"rollcall/integration/needs"
)

const (
	// mostTries is the number of tries of an attack if its first try finds a fault: another process may keep the machine
	// busy for a moment. mostWrong of them may find a fault.
	mostTries, mostWrong = 3, 1
	// fewAttacks is the number of attacks from which mostFirstFailures, a share of them, counts.
	fewAttacks, mostFirstFailures = 6, 1.0 / 3
)

// verdict is the result of a try of an attack.
type verdict struct {
	wrong string // empty: others were served well
	final bool   // no further try: it is far too wrong for a busy machine
}

// tally counts attacks, and those whose first try found something wrong.
type tally struct {
	mu          sync.Mutex
	all, failed int
}

// firstTries counts the first tries of this process.
var firstTries tally

// retry tries an attack once if others are served well, and otherwise mostTries times. The test fails if they are not in more than
// mostWrong of the tries: an attack that succeeds more often than not must not pass because it fails now and then.
func retry(t *testing.T, try func() verdict) {
	t.Helper()
	var wrong []string
	for n := 1; n <= mostTries; n++ {
		v := try()
		if n == 1 {
			firstTries.count(v.wrong != "")
		}
		if v.wrong != "" {
			wrong = append(wrong, v.wrong)
		}
		if t.Failed() || len(wrong) == 0 || v.final || len(wrong) > mostWrong || n == mostTries {
			t.Logf("%d tries, %d of them found something: %q", n, len(wrong), wrong)
			if v.final || len(wrong) > mostWrong {
				t.Error("others are not served well")
			}
			return
		}
	}
}

func (f *tally) count(failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all++
	if failed {
		f.failed++
	}
}

// judge prints the number of attacks that needed another try. It returns status, or 1 if too many did: a test that
// passes at its third try only would hide that others are served worse than before.
func (f *tally) judge(status int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Printf("%d of %d attacks needed another try\n", f.failed, f.all)
	if f.all >= fewAttacks && float64(f.failed) > mostFirstFailures*float64(f.all) {
		fmt.Printf("want at most %g of them\n", mostFirstFailures)
		return 1
	}
	return status
}

func TestFirstTriesAreJudged(t *testing.T) {
	needs.Check(t, needs.Nightly)
	for _, tt := range []struct{ all, failed, status, want int }{
		{fewAttacks, fewAttacks / 3, 0, 0},
		{fewAttacks, fewAttacks/3 + 1, 0, 1},
		{fewAttacks, 0, 2, 2},
		{fewAttacks - 1, fewAttacks - 1, 0, 0}, // too few to tell
	} {
		var f tally
		for i := range tt.all {
			f.count(i < tt.failed)
		}
		if got := f.judge(tt.status); got != tt.want {
			t.Errorf("%d of %d, status %d: %d, want %d", tt.failed, tt.all, tt.status, got, tt.want)
		}
	}
}
