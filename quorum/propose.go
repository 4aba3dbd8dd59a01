package quorum

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// ErrNotRunning is the error of entries proposed before raft runs or after it has stopped.
var ErrNotRunning = errors.New("quorum: raft does not run")

// Proposed is a proposed entry.
type Proposed struct {
	done  chan struct{}
	err   error
	index uint64
	from  []uint32 // see Propose
}

// Done returns a channel that is closed when the outcome is known.
func (p *Proposed) Done() <-chan struct{} { return p.done }

// Error waits for the outcome. If it is nil, the entry is committed and applied here. Otherwise it
// is unknown whether it will be.
func (p *Proposed) Error() error {
	<-p.done
	return p.err
}

// Index returns the entry's index. It may be called only after Error has returned nil.
func (p *Proposed) Index() uint64 { return p.index }

// Propose appends data to the log if this member leads. Entries that come from one goroutine are
// appended in the order of the calls. Propose blocks while raft's main loop is busy. That one waits
// for the disk when it stores a configuration, a term or a vote, and when the queue of entries is full.
// data must not be changed afterwards.
//
// from are the members whose clients wait for the entry. They hear of its commit at once. Other members may
// hear of it up to a millisecond later. If from is nil, all hear of it at once.
func (n *Node) Propose(data []byte, from []uint32) *Proposed {
	p := &Proposed{done: make(chan struct{}), from: from}
	r := n.status.raft.Load()
	if err := n.addProposed(r, p, data); err != nil {
		p.err = err
		close(p.done)
		return p
	}
	inner := r.Apply(data, 0)
	go n.awaitOutcome(p, inner)
	return p
}

// awaitOutcome waits for raft's outcome of an entry. If raft reports none before Run ends, failRest
// sets the outcome, and this goroutine ends with the process.
func (n *Node) awaitOutcome(p *Proposed, inner raft.ApplyFuture) {
	err := inner.Error()
	if err == nil {
		err, _ = inner.Response().(error)
	}
	if !n.removeProposed(p) {
		return
	}
	n.watchRefusals(err)
	if p.err = err; err == nil {
		p.index = inner.Index()
	}
	close(p.done)
	n.futures.Done()
}

// removeProposed removes an entry from those under way, and reports whether it was one of them.
func (n *Node) removeProposed(p *Proposed) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.proposed[p] {
		return false
	}
	delete(n.proposed, p)
	return true
}

// awaited returns the members whose clients wait for entries under way, or nil if all members must hear of
// commits at once.
func (n *Node) awaited() []uint32 {
	n.mu.Lock()
	defer n.mu.Unlock()
	var members []uint32
	for p := range n.proposed {
		if p.from == nil {
			return nil
		}
		members = append(members, p.from...)
	}
	return members
}

// failRest fails the entries that have no outcome when raft has stopped: raft forgets those that it
// was about to apply.
func (n *Node) failRest() {
	n.mu.Lock()
	n.ending = true
	left := n.proposed
	n.proposed = nil
	n.mu.Unlock()
	for p := range left {
		p.err = ErrNotRunning
		close(p.done)
		n.futures.Done()
	}
}

// addProposed counts an entry as under way, or returns why it cannot be proposed. An entry that the
// log store would refuse must not reach raft, because every member would end.
func (n *Node) addProposed(r *raft.Raft, p *Proposed, data []byte) error {
	if err := disk.CheckSize(&raft.Log{Data: data}); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if r == nil || n.ending {
		return ErrNotRunning
	}
	n.proposed[p] = true
	n.futures.Add(1)
	return nil
}

// watchRefusals ends a leader that refuses every entry because of a hand-over that will never end.
// raft does not end a hand-over if leadership was lost meanwhile, and when it leads again it takes
// no entries for ever. A member that leads proposes a TermStart again and again then, so refusals
// that are further apart than two election timeouts belong to several hand-overs.
func (n *Node) watchRefusals(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := n.last
	n.last = time.Now()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		n.refused = time.Time{}
	case n.refused.IsZero() || time.Since(last) > 2*n.election:
		n.refused = time.Now()
	case time.Since(n.refused) > 2*n.election:
		n.failure.set(fmt.Errorf("quorum: this leader has taken no entries for %v; start this member again: %w", time.Since(n.refused).Round(time.Millisecond), err))
	}
}
