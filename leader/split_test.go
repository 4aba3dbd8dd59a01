package leader

import (
	"testing"
	"testing/synctest"
	"time"
)

// The leader waits for members that may yet decide which state is right. It waits as long for each disagreement, however long
// an earlier one has lasted that was decided.
func TestPatienceBeginsWithEachDisagreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const patience = 4 * tick
		c := newComparison(&Config{Self: 1, Tick: tick, SyncLimit: int(patience / tick)})
		voters := []uint32{1, 2, 3}
		begun := time.Now()
		at := func(when time.Duration, member uint32, digest, index uint64, want int) {
			t.Helper()
			fresh, err := c.updateVerdicts(member, marksAt(digest, index), voters, begun.Add(when))
			if err != nil || len(fresh) != want {
				t.Errorf("after %v: %d new verdicts, %v; want %d", when, len(fresh), err, want)
			}
		}
		at(0, 1, 0, 10, 0)
		at(0, 2, 5, 10, 0)      // the third may decide
		at(tick, 3, 0, 10, 1)   // it does
		at(2*tick, 2, 0, 20, 0) // its state is right again
		at(3*tick, 1, 0, 20, 0)
		at(10*tick, 1, 0, 30, 0)
		at(10*tick, 2, 5, 30, 0) // another disagreement, long after the first one began
		at(10*tick+patience-1, 1, 0, 30, 0)
		at(10*tick+patience, 1, 0, 30, 1)
	})
}
