package cluster

import (
	"sync"

	"github.com/hashicorp/raft"

	"rollcall/leader"
)

// Gate is between a member and its log, in all the member's terms as leader. Entries pass through
// it, but the TermStarts of these terms do not. It can treat entries in three ways:
//
//   - Hold: a goroutine that proposes an entry waits until Release, as if it got no CPU time.
//   - Keep: the proposer of an entry receives an error as if raft had rejected it; raft gets it at Release.
//   - Refuse: the proposer receives the same error, and raft never gets the entry.
//
// It is safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	held     chan struct{}   // closed by Release; nil: nothing is held
	waiting  int             // how many proposers wait for that
	refuse   int             // the number of the entry from now on that is refused; 0: none
	keep     bool            // keep it too
	kept     []func()        // functions that give the kept entries to raft
	refused  int             // how many, including kept ones
	released []leader.Future // the futures of entries that were held or kept
	stopped  sync.WaitGroup  // waits for futures that are still to be added to released
}

// Hold holds entries from now on.
func (g *Gate) Hold() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = make(chan struct{})
}

// Keep keeps the n-th entry from now.
func (g *Gate) Keep(n int) { g.stop(n, true) }

// Refuse refuses the n-th entry from now.
func (g *Gate) Refuse(n int) { g.stop(n, false) }

func (g *Gate) stop(n int, keep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse, g.keep = n, keep
}

// Release gives raft the entries that were held or kept, and lets all others pass.
func (g *Gate) Release() {
	g.mu.Lock()
	if g.held != nil {
		close(g.held)
	}
	kept := g.kept
	g.held, g.waiting, g.kept = nil, 0, nil
	g.mu.Unlock()
	for _, propose := range kept {
		propose()
	}
}

// Waiting returns the number of proposers that wait.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// Refused returns the number of rejected entries, including kept ones.
func (g *Gate) Refused() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// Landed waits for the outcome of the entries that were held or kept, which must be released. It
// returns the number of them that were committed and applied.
func (g *Gate) Landed() (n int) {
	g.stopped.Wait()
	g.mu.Lock()
	released := g.released
	g.mu.Unlock()
	for _, f := range released {
		<-f.Done()
		if f.Error() == nil {
			n++
		}
	}
	return n
}

// gatedLog is the log of one term.
type gatedLog struct {
	leader.Log
	gate *Gate
}

func (l gatedLog) Propose(data []byte, from []uint32) leader.Future {
	g := l.gate
	g.mu.Lock()
	if g.refuse > 0 {
		if g.refuse--; g.refuse == 0 {
			defer g.mu.Unlock()
			g.refused++
			if g.keep {
				g.stopped.Add(1)
				g.kept = append(g.kept, func() { l.release(data, from) })
			}
			return refusal{}
		}
	}
	held := g.held
	if held == nil {
		g.mu.Unlock()
		return l.Log.Propose(data, from)
	}
	g.stopped.Add(1)
	g.waiting++
	g.mu.Unlock()
	<-held
	return l.release(data, from)
}

func (l gatedLog) release(data []byte, from []uint32) leader.Future {
	defer l.gate.stopped.Done()
	f := l.Log.Propose(data, from)
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.released = append(l.gate.released, f)
	return f
}

// refusal is raft's answer while it transfers leadership.
type refusal struct{}

func (refusal) Error() error { return raft.ErrLeadershipTransferInProgress }

func (refusal) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
