// Package readlease decides which committed entries a member may apply while others read by leases.
//
// A member with a lease reads from its own state, once it has applied every entry that it holds. So nobody may show an entry, to the
// client whose write it is or to a reader, before all members with a lease hold it. The rule, which integration/leasemodel checks:
//
//   - A member applies an entry only if a leader has released it. A leader releases what is committed, and is held by every voter
//     that may have a lease.
//   - A leader takes a voter for one with a lease until its clock says that it has ended: from the grant in its own term, or from its
//     election if a leader before may have granted any.
//   - A follower applies an entry by the leader's word, before it is released, if the word names every voter that may have a lease and is not known to
//     hold the entry, and each of these has told the follower directly that it does, in the leader's term.
//
// The last one is no exception: whoever may have a lease when the word is given holds the entry, and a lease that is granted later names an end of
// the log at or after it.
package readlease

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/monotonic"
)

// A leader takes a lease for ended when it has lasted 5/4 of what the member was told. Then the lease has ended by the member's clock, too,
// if that runs at no less than 0.8 of the speed of the leader's.
const (
	boundNumerator   = 5
	boundDenominator = 4
)

// MaxLease limits a lease. Writes wait for so long, and the bound, for a voter that does not reply.
const MaxLease = time.Second

// recheck is the longest time after which a wait looks again whether this member leads: raft does not report every change.
const recheck = 20 * time.Millisecond

// lateAfter is the time after which a voter that does not hold an entry may wait for its own disk. It is longer than a sync takes as a rule.
const lateAfter = 2 * time.Millisecond

// Config is what a Roster knows of its member. Its functions may be called by any goroutine, and must not call the Roster.
type Config struct {
	Clock monotonic.Clock
	Self  raft.ServerID
	// LeadingTerm returns the term in which raft leads, or 0.
	LeadingTerm func() uint64
	// Voters returns those of raft's latest configuration, committed or not.
	Voters func() []raft.ServerID
	// LastIndex returns the end of raft's log.
	LastIndex func() uint64
	// EarlierLease returns the longest lease that a leader of an earlier term may have granted, as far as this log tells, and that of the last
	// TermStart in it, or 0 if it cannot tell. It may read the disk.
	EarlierLease func() (longest, last time.Duration)
	Lease        time.Duration // the longest that this member grants; 0: it grants none
}

// Request is a member's request for a lease. Each of its processes numbers its own, from 1 on.
type Request struct{ Boot, Number uint64 }

// Roster is what a member knows of the leases of its ensemble. Make one with New. It is safe for concurrent use.
type Roster struct {
	cfg Config

	mu          sync.Mutex
	changed     chan struct{} // closed and replaced when more may be released
	released    uint64        // a leader has released everything up to here
	earlyCommit earlyCommit
	led         *ledTerm // the latest term in which this member has led; nil: none
	replies     replies
	closed      bool
}

// replies are what servers have accepted of the entries of one term. The first ones may come before the term is led.
type replies struct {
	term uint64
	held map[raft.ServerID]uint64 // the last entry that a server holds
}

// earlyCommit is the leader's word: the entries up to index are released as soon as they are on this member's disk.
type earlyCommit struct{ term, index uint64 }

// ledTerm is a term in which this member leads, or has led.
type ledTerm struct {
	number  uint64
	isGated bool                        // any member may have had a lease since the term began
	until   map[raft.ServerID]time.Time // when a voter's lease has ended, by Config.Clock
	granted map[raft.ServerID]Request   // the requests for which leases were granted in this term
	named   map[raft.ServerID]uint64    // the ends of the log that the last grants named
	// returned has the last requests whose leases were given back, and others when the leases of other processes than in granted end.
	returned map[raft.ServerID]Request
	others   map[raft.ServerID]time.Time
	// Until then nothing is released: earlier leases may be longer than those of this term, and later leaders must not learn from the
	// TermStart that they need not wait for them.
	closedUntil time.Time
	leaving     map[raft.ServerID]struct{} // servers that get no lease any more
}

// New returns a Roster of a member that does not lead.
func New(cfg Config) *Roster { return &Roster{cfg: cfg, changed: make(chan struct{})} }

// bounded returns the time by which a lease has surely ended.
func bounded(lease time.Duration) time.Duration { return lease * boundNumerator / boundDenominator }

// Limit returns index, or the last index that this member has released as the leader of a term, if that is lower. The entries up to index
// are committed.
func (r *Roster) Limit(term, index uint64) uint64 { return r.limitWithout("", term, index) }

// LimitEarlyCommit does the same for entries of which a server is told that they are committed once it has them. So it need not hold them yet.
func (r *Roster) LimitEarlyCommit(to raft.ServerID, term, index uint64) uint64 {
	return r.limitWithout(to, term, index)
}

func (r *Roster) limitWithout(server raft.ServerID, term, index uint64) uint64 {
	t := r.lockInTerm(term) // before a request of the term is sent: later this member may be deposed before it looks
	defer r.mu.Unlock()
	switch {
	case index <= r.released:
		return index
	case t == nil:
		return r.released
	}
	return max(r.released, r.heldByAll(t, index, r.cfg.Self, server))
}

// MayHaveLease returns the servers other than this member that may have a lease, as the leader of a term. It returns false if this member does not
// lead in the term, or nothing of it may be released yet. A lease that is granted later names an end of the log that this member's log has by then.
func (r *Roster) MayHaveLease(term uint64) (servers []raft.ServerID, ok bool) {
	t := r.lockInTerm(term)
	defer r.mu.Unlock()
	now := r.cfg.Clock.Now()
	if t == nil || !t.closedUntil.IsZero() && !now.After(t.closedUntil) {
		return nil, false
	}
	for server, until := range t.until {
		if server != r.cfg.Self && !now.After(until) {
			servers = append(servers, server)
		}
	}
	return servers, true
}

// lockInTerm takes the lock, which the caller releases. It returns a term in which this member leads, and begins it if this is the first call
// that names it. It returns nil if it is not the latest term, or raft leads in it no more. Term 0 is none.
func (r *Roster) lockInTerm(term uint64) *ledTerm {
	r.mu.Lock()
	if term != 0 && (r.led == nil || r.led.number < term) {
		r.mu.Unlock()
		next := r.newTerm(term)
		r.mu.Lock()
		if next != nil && (r.led == nil || r.led.number < term) {
			r.led = next
		}
	}
	if r.led == nil || r.led.number != term {
		return nil
	}
	return r.led
}

// newTerm returns a term that raft has begun to lead, or nil if it does not lead in it any more.
func (r *Roster) newTerm(term uint64) *ledTerm {
	next := &ledTerm{
		number: term, until: map[raft.ServerID]time.Time{}, granted: map[raft.ServerID]Request{}, named: map[raft.ServerID]uint64{},
		leaving: map[raft.ServerID]struct{}{}, returned: map[raft.ServerID]Request{}, others: map[raft.ServerID]time.Time{},
	}
	lease, last := r.cfg.EarlierLease()
	voters := r.cfg.Voters()
	if lease > 0 {
		next.isGated = true
		end := r.cfg.Clock.Now().Add(bounded(lease))
		for _, v := range voters {
			next.until[v] = end
		}
		// The last TermStart counts, too: raft's first entry of this term commits it, before this term's TermStart is in any log. So a later
		// leader may know that one alone, and would wait for the shorter time.
		if lease > min(last, r.cfg.Lease) {
			next.closedUntil = end
		}
	}
	if r.cfg.LeadingTerm() != term { // read last: log and configuration were this leader's
		return nil
	}
	return next
}

// heldByAll returns index, or the last one that all voters hold that may have a lease, except for two servers.
func (r *Roster) heldByAll(t *ledTerm, index uint64, except ...raft.ServerID) uint64 {
	if !t.closedUntil.IsZero() && !r.cfg.Clock.Now().After(t.closedUntil) {
		return 0
	}
	for server, until := range t.until {
		switch {
		case slices.Contains(except, server) || r.cfg.Clock.Now().After(until):
		default:
			index = min(index, r.heldInTerm(t, server))
		}
	}
	return index
}

// heldInTerm returns the last entry of a term that a server holds, or 0.
func (r *Roster) heldInTerm(t *ledTerm, server raft.ServerID) uint64 {
	if r.replies.term != t.number {
		return 0
	}
	return r.replies.held[server]
}

// nextEnd returns when the next lease ends that has not ended yet, or the zero time.
func (t *ledTerm) nextEnd(now time.Time) (next time.Time) {
	for _, until := range t.until {
		if !now.After(until) && (next.IsZero() || until.Before(next)) {
			next = until
		}
	}
	return next
}

// hasEnded reports whether all leases that this member has granted in a term, or has had to wait for, have ended. Then it may apply what it has
// committed in the term, although it leads no more: a later leader has those entries, and each lease that it grants names an end of the log
// after them. Without that a deposed leader could wait for ever. raft tells it the next leader's word only after it has handed over
// the entries of that message, and the queue for them may be full.
func (t *ledTerm) hasEnded(now time.Time) bool {
	return t.nextEnd(now).IsZero() && (t.closedUntil.IsZero() || now.After(t.closedUntil))
}

// NoteHeld records that a server has accepted entries of this leader's term, of which index is the last one. It is called before raft counts
// the server's copy. So the term has begun here before raft commits anything in it, and AwaitReleased knows later that this member has led it.
// It may read the disk, once in a term.
func (r *Roster) NoteHeld(server raft.ServerID, term, index uint64) {
	r.lockInTerm(term) // if raft leads no more, it counts no copy of that term either
	defer r.mu.Unlock()
	if term > r.replies.term {
		r.replies = replies{term, map[raft.ServerID]uint64{}}
	}
	if term < r.replies.term || r.replies.held[server] >= index {
		return
	}
	r.replies.held[server] = index
	if r.led != nil && r.led.isGated {
		r.signal()
	}
}

// NoteTold records what a leader of a term has said in a request that this member has accepted: the entries up to majority are committed, and
// those up to commit are released. Those above majority are so once they are on this member's disk.
func (r *Roster) NoteTold(term, commit, majority uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	both := min(commit, majority)
	isNews := both > r.released || commit > r.released && (earlyCommit{term, commit}) != r.earlyCommit
	r.released = max(r.released, both)
	if term >= r.earlyCommit.term {
		r.earlyCommit = earlyCommit{term, max(commit, r.earlyCommit.indexIn(term))}
	}
	if isNews {
		r.signal()
	}
}

func (w earlyCommit) indexIn(term uint64) uint64 {
	if w.term != term {
		return 0
	}
	return w.index
}

func (r *Roster) signal() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// AwaitReleased waits until the entries up to index are released, which are committed and on this member's disk or a majority's. It returns
// false if the Roster is closed first. It calls late if it has waited for lateAfter.
func (r *Roster) AwaitReleased(index uint64, late func()) bool {
	var isLate <-chan time.Time // nil before the first wait
	for {
		released, next, changed := r.look(index)
		if changed == nil {
			return released
		}
		if isLate == nil {
			isLate = r.cfg.Clock.After(lateAfter)
		}
		select {
		case <-changed:
		case <-isLate: // once
			late()
		case <-r.cfg.Clock.After(next):
		}
	}
}

// look reports whether the entries up to index are released. If they are not and may be later, it returns what closes when that may have
// changed, and after what time to look again.
func (r *Roster) look(index uint64) (released bool, again time.Duration, changed <-chan struct{}) {
	leading := r.cfg.LeadingTerm()
	r.lockInTerm(leading)
	defer r.mu.Unlock()
	switch now := r.cfg.Clock.Now(); {
	case r.closed:
		return false, 0, nil
	case r.led != nil && !r.led.isGated && leading == r.led.number:
		r.released = max(r.released, index)
		return true, 0, nil
	case index <= r.released || r.led == nil || !r.led.isGated || r.earlyCommit.term > r.led.number && index <= r.earlyCommit.index:
		return true, 0, nil
	case leading == r.led.number && r.heldByAll(r.led, index, r.cfg.Self) >= index:
		r.released = index
		return true, 0, nil
	case leading != r.led.number && r.led.hasEnded(now):
		return true, 0, nil
	default:
		again = recheck
		if end := r.led.nextEnd(now); !end.IsZero() {
			again = min(again, end.Sub(now)+1)
		}
		return false, again, r.changed
	}
}

// Grant gives a voter a lease as the leader of a term, for lease from before it had asked. It returns the index that the voter must have
// applied before it uses the lease, and false if there is none.
//
// A voter that does not hold what its last grant has named gets no other. So a write waits for a voter that gets no entries, and asks for
// leases all the time, until the lease that it has ends.
//
// The caller has proved, since the voter asked, that this member leads in the term, and that the voter is one of the committed configuration.
func (r *Roster) Grant(term uint64, server raft.ServerID, request Request, lease time.Duration) (index uint64, ok bool) {
	t := r.addLease(term, server, request, lease)
	if t == nil {
		return 0, false
	}
	index = r.cfg.LastIndex() // entries above it wait for this voter
	r.mu.Lock()
	t.named[server] = max(t.named[server], index)
	r.mu.Unlock()
	return index, r.cfg.LeadingTerm() == term
}

// addLease returns the term in which a server now has a lease, or nil if it gets none.
func (r *Roster) addLease(term uint64, server raft.ServerID, request Request, lease time.Duration) *ledTerm {
	t := r.lockInTerm(term)
	defer r.mu.Unlock()
	if t == nil || lease <= 0 || lease > MaxLease || !r.mayGrant(t, server, request) {
		return nil
	}
	if before, granted := t.granted[server]; granted && before.Boot != request.Boot {
		t.others[server] = t.until[server]
	}
	t.isGated = true
	t.granted[server] = request
	if end := r.cfg.Clock.Now().Add(bounded(lease)); end.After(t.until[server]) {
		t.until[server] = end
	}
	return t
}

// mayGrant reports whether a server does not leave, holds what its last lease has named, and has not given the lease for the request back: that
// message comes first if the proof takes longer.
func (r *Roster) mayGrant(t *ledTerm, server raft.ServerID, request Request) bool {
	_, leaves := t.leaving[server]
	back := t.returned[server]
	wasReturned := request.Boot == back.Boot && request.Number <= back.Number
	return !leaves && !wasReturned && (server == r.cfg.Self || r.heldInTerm(t, server) >= t.named[server])
}

// Return ends the lease of a server that does not use it any more, and takes none for its requests up to last. A message that comes late
// ends nothing: not the lease of another process, which may be a later one, nor that of a later request.
func (r *Roster) Return(term uint64, server raft.ServerID, last Request) {
	t := r.lockInTerm(term)
	defer r.mu.Unlock()
	if t == nil {
		return
	}
	if request, granted := t.granted[server]; granted && (request.Boot != last.Boot || request.Number > last.Number) {
		return
	}
	t.returned[server] = last
	delete(t.until, server)
	if end, has := t.others[server]; has { // a request of last's process may have been granted after one of the others
		t.until[server] = end
	}
	r.signal()
}

// AwaitEnd gives a server no lease any more in a term, and waits until the one that it may have has ended. It returns an error if ctx ends
// first, or if this member leads the term no more, and then the server may get leases again. After mayStay it may, too.
func (r *Roster) AwaitEnd(ctx context.Context, term uint64, server raft.ServerID) (mayStay func(), err error) {
	t := r.lockInTerm(term)
	if t == nil {
		r.mu.Unlock()
		return nil, errLeadsNoMore
	}
	t.leaving[server] = struct{}{}
	wait := t.until[server].Sub(r.cfg.Clock.Now()) + 1
	r.mu.Unlock()
	mayStay = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(t.leaving, server)
	}
	if wait > 0 {
		select {
		case <-r.cfg.Clock.After(wait):
		case <-ctx.Done():
			mayStay()
			return nil, ctx.Err()
		}
	}
	if r.cfg.LeadingTerm() != term { // another leader may have granted leases, even if this member leads again
		mayStay()
		return nil, errLeadsNoMore
	}
	return mayStay, nil
}

var errLeadsNoMore = errors.New("readlease: this member does not lead that term any more")

// Lock returns the lock of the Roster, to be watched.
func (r *Roster) Lock() *sync.Mutex { return &r.mu }

// Close ends all waits, because the member stops.
func (r *Roster) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.signal()
	}
}
