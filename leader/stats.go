package leader

import (
	"slices"
	"sync/atomic"
	"time"

	"rollcall/internal/metrics"
)

// Counters count what leaders do, over all terms of this process unless a field says otherwise. The
// zero value is ready to use. They are safe for concurrent use.
type Counters struct {
	Proposed  atomic.Uint64 // transactions put into entries
	Committed atomic.Uint64 // transactions whose entries were committed and applied here
	Expired   atomic.Uint64 // sessions that expired
	TxnSizes  metrics.Sizes // sizes of the transactions proposed in this term, in bytes as encoded in the log

	// What follows is not reset.

	ExpiryLateness metrics.Durations // how long after their time sessions expired, by the session table; see expired.sealed
	Pauses         atomic.Uint64     // steps that came so late that this process must have been paused
}

// Reset sets the counters to zero, except those that say otherwise.
func (c *Counters) Reset() {
	c.Proposed.Store(0)
	c.Committed.Store(0)
	c.Expired.Store(0)
	c.TxnSizes.Reset()
}

// Stats describe the term as it is now.
type Stats struct {
	Learners        int           // other members that have sent something on their open stream
	SyncedVoters    int           // those voters of them that have since applied what was committed when it opened
	Observers       int           // those of them that do not vote: observers, and members that are still joining
	SyncedObservers int           // those of Observers that have applied that much
	PendingSyncs    int           // calls of Sync that wait for their proof
	Uptime          time.Duration // since the term opened
	MaxClockGap     time.Duration // greatest difference between this member's clock and that of another
	ReaperHeld      bool          // nothing is reaped, because this member's clock is at fault
	QueuedTxns      int           // transactions that wait for an entry
	QueuedBytes     int           // of these
}

// Stats returns the present values.
func (l *Leader) Stats() Stats {
	s := Stats{PendingSyncs: int(l.pendingSyncs.Load()), Uptime: l.cfg.Monotonic.Now().Sub(l.termBegun)}
	why, _ := l.clocks.clockFault()
	s.ReaperHeld = why != ""
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
