package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// ErrNotRunning is the error of entries proposed before raft runs or after it has stopped.
var ErrNotRunning = errors.New("quorum: raft does not run")

// Proposal is a proposed entry.
type Proposal struct {
	done          chan struct{}
	err           error
	index         uint64
	originMembers []uint32 // see Propose
}

// Done returns a channel that is closed when the outcome is known.
func (p *Proposal) Done() <-chan struct{} { return p.done }

// Error waits for the outcome. If it is nil, the entry is committed and applied here. Otherwise it may still be
// committed later.
func (p *Proposal) Error() error {
	<-p.done
	return p.err
}

// Index returns the entry's index. It may be called only after Error has returned nil.
func (p *Proposal) Index() uint64 { return p.index }

// Propose appends data to the log if this member leads. Entries of one goroutine are appended in the order of its
// calls. Propose blocks while raft's main loop is busy. The main loop waits for the disk when it stores a
// configuration, a term or a vote, and when the queue of entries is full. data must not be changed afterwards.
//
// from are the members whose clients wait for the entry. They are told of its commit first, and the other members
// right after them.
func (n *Node) Propose(data []byte, from []uint32) *Proposal { return n.proposer.propose(data, from) }

// proposer holds the proposed entries without an outcome. It is safe for concurrent use.
type proposer struct {
	status          *Status
	electionTimeout time.Duration
	endMember       func(error)

	pendingCount  sync.WaitGroup // counts pending
	mu            sync.Mutex
	pending       map[*Proposal]bool
	awaiting      map[uint32]int // by member: the pending entries for which its clients wait
	unnamed       int            // pending entries that name no member
	rejectedSince time.Time      // raft has rejected every entry since, because of a transfer; zero: it does not
	lastOutcomeAt time.Time      // of an entry
	closed        bool           // Run is ending: no further entries are taken
}

func newProposer(status *Status, election time.Duration, fail func(error)) *proposer {
	return &proposer{status: status, electionTimeout: election, endMember: fail, pending: map[*Proposal]bool{}, awaiting: map[uint32]int{}}
}

func (q *proposer) propose(data []byte, from []uint32) *Proposal {
	p := &Proposal{done: make(chan struct{}), originMembers: from}
	r := q.status.raft.Load()
	if err := q.checkAndAddPending(r, p, data); err != nil {
		p.err = err
		close(p.done)
		return p
	}
	inner := r.Apply(data, 0)
	go q.awaitAndComplete(p, inner)
	return p
}

// awaitAndComplete waits for raft's outcome of an entry. If raft reports none before Run ends, failPending sets the
// outcome, and this goroutine ends with the process.
func (q *proposer) awaitAndComplete(p *Proposal, inner raft.ApplyFuture) {
	err := inner.Error()
	if err == nil {
		err, _ = inner.Response().(error)
	}
	if !q.removePending(p) {
		return
	}
	q.endIfTransferStuck(err)
	if p.err = err; err == nil {
		p.index = inner.Index()
	}
	close(p.done)
	q.pendingCount.Done()
}

// removePending reports whether the entry was pending.
func (q *proposer) removePending(p *Proposal) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.pending[p] {
		return false
	}
	delete(q.pending, p)
	q.countMembers(p, -1)
	return true
}

// countMembers counts a pending entry with those of the members that it names, or takes it off. The caller holds the lock.
func (q *proposer) countMembers(p *Proposal, n int) {
	if p.originMembers == nil {
		q.unnamed += n
	}
	for _, member := range p.originMembers {
		if q.awaiting[member] += n; q.awaiting[member] == 0 {
			delete(q.awaiting, member)
		}
	}
}

// membersAwaitingCommit returns the members whose clients wait for pending entries, or nil if no member comes first. Each message to
// a member asks, so it costs what there are members, however many entries are pending.
func (q *proposer) membersAwaitingCommit() []uint32 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unnamed > 0 || len(q.awaiting) == 0 {
		return nil
	}
	return slices.AppendSeq(make([]uint32, 0, len(q.awaiting)), maps.Keys(q.awaiting))
}

// failPending fails the pending entries after raft has stopped: raft forgets those that it was about to apply.
func (q *proposer) failPending() {
	q.mu.Lock()
	q.closed = true
	left := q.pending
	q.pending, q.awaiting, q.unnamed = nil, nil, 0
	q.mu.Unlock()
	for p := range left {
		p.err = ErrNotRunning
		close(p.done)
		q.pendingCount.Done()
	}
}

// checkAndAddPending returns an error if an entry cannot be proposed. An entry that the log store would reject must not
// reach raft, because every member would end.
func (q *proposer) checkAndAddPending(r *raft.Raft, p *Proposal, data []byte) error {
	if err := disk.CheckEntrySize(&raft.Log{Data: data}); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if r == nil || q.closed {
		return ErrNotRunning
	}
	q.pending[p] = true
	q.countMembers(p, 1)
	q.pendingCount.Add(1)
	return nil
}

// endIfTransferStuck ends a leader that rejects every entry because of a transfer that never ends. raft does not
// end a transfer if leadership was lost meanwhile, and when it leads again it takes no entries for ever. A leader
// proposes a TermStart again and again then, so rejections that are further apart than two of raft's election timeouts
// belong to several transfers.
func (q *proposer) endIfTransferStuck(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := q.lastOutcomeAt
	q.lastOutcomeAt = time.Now()
	switch {
	case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
		q.rejectedSince = time.Time{}
	case q.rejectedSince.IsZero() || time.Since(last) > 2*leaseTimeout(q.electionTimeout):
		q.rejectedSince = time.Now()
	case time.Since(q.rejectedSince) > 2*leaseTimeout(q.electionTimeout):
		q.endMember(fmt.Errorf("quorum: this leader has taken no entries for %v; start this member again: %w",
			time.Since(q.rejectedSince).Round(time.Millisecond), err))
	}
}

// rejectNew makes propose reject further entries.
func (q *proposer) rejectNew() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

func (q *proposer) waitForPending(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		q.pendingCount.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
