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
	Sizes     metrics.Sizes // sizes of the transactions proposed in this term, in bytes as encoded in the log

	// What follows is not reset.

	Late   metrics.Durations // how long after their time sessions expired, by the session table; see expired.sealed
	Pauses atomic.Uint64     // steps that came so late that this process must have been paused
}

// Reset sets the counters to zero, except those that say otherwise.
func (c *Counters) Reset() {
	c.Proposed.Store(0)
	c.Committed.Store(0)
	c.Expired.Store(0)
	c.Sizes.Reset()
}

// Stats describe the term as it is now.
type Stats struct {
	Learners        int           // other members that have sent something on their open stream
	Synced          int           // those voters of them that have since applied what was committed when it opened
	Observers       int           // those of them that do not vote: observers, and members that are still joining
	SyncedObservers int           // those of Observers that have applied that much
	Syncs           int           // calls of Sync that wait for their proof
	Uptime          time.Duration // since the term opened
	Apart           time.Duration // greatest difference between this member's clock and that of another
	Held            bool          // nothing is reaped, because this member's clock is at fault
	Waiting         int           // transactions that wait for an entry
	Bytes           int           // of these
}

// Stats returns the present values.
func (l *Leader) Stats() Stats {
	s := Stats{Syncs: int(l.syncing.Load()), Uptime: l.cfg.Monotonic.Now().Sub(l.begun)}
	why, _ := l.clocks.clockFault()
	s.Held = why != ""
	_, _, s.Apart = l.clocks.compare(nil)
	s.Waiting, s.Bytes = l.intake.depth()
	voters := l.membership.voterIDs()
	for id, m := range l.membership.presentLinks() {
		linked, synced := m.state()
		switch votes := slices.Contains(voters, id); {
		case id == l.cfg.Self || !linked:
			continue
		case !votes:
			s.Observers++
			if synced {
				s.SyncedObservers++
			}
		case synced:
			s.Synced++
		}
		s.Learners++
	}
	return s
}
