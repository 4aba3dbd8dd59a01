package leader

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// fakeNodes returns paths that are due, in order, and does not remove them.
type fakeNodes struct {
	mu      sync.Mutex
	paths   []string
	asked   []time.Time
	now     []int64
	never   int64
	largest int
	unswept int // steps to be swept
}

func (f *fakeNodes) DueReapCandidates(now, neverUsedMs int64, after znode.ReapCandidate, limit int) []znode.ReapCandidate {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.never = neverUsedMs
	if after == (znode.ReapCandidate{}) {
		f.asked, f.now = append(f.asked, time.Now()), append(f.now, now)
	}
	var page []znode.ReapCandidate
	for _, p := range f.paths {
		if p > after.Path && len(page) < limit {
			page = append(page, znode.ReapCandidate{Path: p})
		}
	}
	f.largest = max(f.largest, len(page))
	return page
}

func (f *fakeNodes) HasUnswept() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unswept > 0
}

// leave adds to the steps to be swept.
func (f *fakeNodes) leave(steps int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unswept += steps
}

// reaped returns the proposed removals, and the greatest number of them in one entry.
func (f *fakeLog) reaped(t *testing.T) (paths []string, most int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, entry := range f.proposed {
		n := 0
		for _, txn := range entry.Txns {
			if txn.Op != int32(jute.OpReap) {
				continue
			}
			var reap proto.Reap
			if err := pb.Unmarshal(txn.Body, &reap); err != nil || txn.Member != 0 || txn.Seq != 0 || txn.Session != 0 || reap.NeverUsedMs != 5000 {
				t.Errorf("%v, %v", txn, err)
			}
			n++
			paths = append(paths, reap.Path)
		}
		most = max(most, n)
	}
	return paths, most
}

func paths(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("/c%05d", i))
	}
	return list
}

func newReaper(t *testing.T, n int) *ensemble {
	e := newEnsemble(t)
	e.cfg.Reaping = Reaping{Interval: 10 * time.Second, PerMinute: 6000, NeverUsed: 5 * time.Second}
	e.nodes.paths = paths(n)
	return e
}

// The nodes due when a round begins are proposed in order, evenly paced, page after page.
func TestReaping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 2*reapPage + 5
		e := newReaper(t, n)
		e.run()
		e.at(10*time.Second - time.Millisecond)
		if got, _ := e.log.reaped(t); len(got) != 0 {
			t.Errorf("%d nodes before the first round", len(got))
		}
		e.at(11*time.Second + 5*time.Millisecond) // one each 10 ms
		if got, most := e.log.reaped(t); len(got) != 101 || most != 1 {
			t.Errorf("%d nodes in a second, up to %d in an entry", len(got), most)
		}
		e.at(19 * time.Second)
		if got, _ := e.log.reaped(t); !slices.Equal(got, e.nodes.paths) {
			t.Errorf("%d nodes, want %d", len(got), n)
		}
		e.at(20*time.Second + time.Millisecond)
		if len(e.nodes.asked) != 2 || e.nodes.asked[1].Sub(e.nodes.asked[0]) != 10*time.Second || e.nodes.largest != reapPage {
			t.Errorf("rounds at %v, pages of up to %d", e.nodes.asked, e.nodes.largest)
		}
		if want := e.start.Add(10 * time.Second).UnixMilli(); e.nodes.now[0] != want {
			t.Errorf("asked for %d, want %d", e.nodes.now[0], want)
		}
		e.end()
	})
}

// If the log hangs the reaper waits and does not gather removals. The term can still end.
func TestReaperWaitsForLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newReaper(t, 5000)
		e.log.hang = true
		e.run()
		e.at(40 * time.Second)
		e.intake.mu.Lock()
		waits, waiting := e.intake.waitingReaps, len(e.intake.waiting)-e.intake.head
		e.intake.mu.Unlock()
		if got, _ := e.log.reaped(t); len(got) != 1 || waits != maxReaps || waiting != maxReaps {
			t.Errorf("%d proposed, %d wait", len(got), waits)
		}
		stream, _, hangUp := e.forward(0)
		stream.in <- writes(2, 100, 1) // nor do writes wait for it
		synctest.Wait()
		e.intake.mu.Lock()
		if got := len(e.intake.waiting) - e.intake.head; got != maxReaps+1 {
			t.Errorf("%d wait behind a write", got)
		}
		e.intake.mu.Unlock()
		hangUp()
		e.end()
	})
}

// Entries that take long hold a limited number of removals.
func TestReapsOfSlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newReaper(t, 500)
		e.log.delay = 5 * time.Second
		e.run()
		e.at(2 * time.Minute)
		got, most := e.log.reaped(t)
		if len(got) < 500 || most != maxReaps {
			t.Errorf("%d nodes, up to %d in an entry", len(got), most)
		}
		e.end()
	})
}
