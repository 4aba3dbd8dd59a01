package cluster

import (
	"sync"

	"github.com/hashicorp/raft"

	"rollcall/leader"
)

// Gate is the way of a member's entries to its log, over all its terms of leading; their
// TermStarts go beside it. What can be done to the entries:
//
//   - Hold: whoever proposes one stands still, as a goroutine does that gets no time, until
//     Release;
//   - Keep: the proposer of one is told that raft refused it, and raft gets it at Release;
//   - Refuse: the same, but raft never gets it.
//
// Safe for concurrent use.
type Gate struct {
	mu       sync.Mutex
	held     chan struct{}   // closed by Release; nil: nothing is held
	waiting  int             // for that
	refuse   int             // so many entries from now one is refused; 0: none
	keep     bool            // and kept
	kept     []func()        // give them to raft
	refused  int             // kept ones included
	released []leader.Future // of what was held, or kept
	stopped  sync.WaitGroup  // what will be in released
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

// Release gives raft what has been held or kept, and lets everything else pass.
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

// Waiting is how many proposers stand still.
func (g *Gate) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// Refused is how many entries were refused, those that were kept included.
func (g *Gate) Refused() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// Landed waits for the outcome of what was held or kept, all of which must be released, and
// counts what came into the log and by the state machine.
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

// gated is the log of one term.
type gated struct {
	leader.Log
	gate *Gate
}

func (l gated) Propose(data []byte) leader.Future {
	g := l.gate
	g.mu.Lock()
	if g.refuse > 0 {
		if g.refuse--; g.refuse == 0 {
			defer g.mu.Unlock()
			g.refused++
			if g.keep {
				g.stopped.Add(1)
				g.kept = append(g.kept, func() { l.release(data) })
			}
			return refusal{}
		}
	}
	held := g.held
	if held == nil {
		g.mu.Unlock()
		return l.Log.Propose(data)
	}
	g.stopped.Add(1)
	g.waiting++
	g.mu.Unlock()
	<-held
	return l.release(data)
}

func (l gated) release(data []byte) leader.Future {
	defer l.gate.stopped.Done()
	f := l.Log.Propose(data)
	l.gate.mu.Lock()
	defer l.gate.mu.Unlock()
	l.gate.released = append(l.gate.released, f)
	return f
}

// refusal is what raft answers while it hands leadership over.
type refusal struct{}

func (refusal) Error() error { return raft.ErrLeadershipTransferInProgress }

func (refusal) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
