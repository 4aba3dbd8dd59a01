package leader

import (
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/metrics"
)

// Counters count over all terms of this process, unless a comment says otherwise. The zero value is ready to use.
// They are safe for concurrent use.
type Counters struct {
	Proposed  atomic.Uint64 // transactions put into entries
	Committed atomic.Uint64 // transactions whose entries were committed and applied here
	Expired   atomic.Uint64 // sessions
	TxnSizes  metrics.Sizes // of the transactions proposed in this term, in bytes as encoded in the log

	// Reset leaves the fields below as they are.

	ExpiryLateness metrics.Durations // from the end of a session's timeout to its expiry; see expiryReporter.recordLateness
	Pauses         atomic.Uint64     // steps so late that this process must have been paused

	lostOrder atomic.Uint64 // of the newest message of lostMembers
}

// Reset sets the counters to zero.
func (c *Counters) Reset() {
	c.Proposed.Store(0)
	c.Committed.Store(0)
	c.Expired.Store(0)
	c.TxnSizes.Reset()
}

// Stats describe the term as it is now.
type Stats struct {
	Learners           int           // other members that have sent something on their open stream
	SyncedVoters       int           // voters among them that have applied all that was committed when it opened
	Observers          int           // learners that do not vote: observers, and members that are still joining
	SyncedObservers    int           // observers that have applied as much
	SyncsAwaitingProof int           // calls of Sync that wait for their proof
	Uptime             time.Duration // of the term
	MaxClockGap        time.Duration // greatest difference between this member's clock and another's
	ReaperPaused       bool          // this member's clock is at fault
	QueuedTxns         int           // waiting for an entry
	QueuedBytes        int           // of QueuedTxns
}

// ConnectedMembers reports, for each other member of raft's configuration, whether it has sent something on its open stream, as
// Learners counts. A member that is down, or that this one does not reach, is false. It takes no lock for longer than a copy.
func (l *Leader) ConnectedMembers() map[uint32]bool {
	connected := map[uint32]bool{}
	for id, m := range l.membership.presentLinks() {
		if id != l.cfg.Self {
			connected[id], _ = m.syncState()
		}
	}
	return connected
}

// Stats returns the present values.
func (l *Leader) Stats() Stats {
	s := Stats{SyncsAwaitingProof: int(l.syncsAwaitingProof.Load()), Uptime: l.cfg.Monotonic.Now().Sub(l.termBegun)}
	why, _ := l.clocks.clockFault()
	s.ReaperPaused = why != ""
	_, _, s.MaxClockGap = l.clocks.compareClocks(nil)
	s.QueuedTxns, s.QueuedBytes = l.intake.queueDepth()
	voters := l.membership.voterIDs()
	for id, m := range l.membership.presentLinks() {
		linked, synced := m.syncState()
		switch votes := slices.Contains(voters, id); {
		case id == l.cfg.Self || !linked:
			continue
		case !votes:
			s.Observers++
			if synced {
				s.SyncedObservers++
			}
		case synced:
			s.SyncedVoters++
		}
		s.Learners++
	}
	return s
}
