package follower

import (
	"time"

	"rollcall/internal/metrics"
)

// writeStall measures the times without an applied write of this member around a change of leader. The
// outbox's lock guards it, except gaps.
type writeStall struct {
	gaps          metrics.Durations
	lastApplied   time.Time // when a write was last applied, or came while no other waited
	writesApplied bool      // by the entry that is being applied
	leaderChanged bool      // since lastApplied
}

// restartTimer restarts the time for a write that comes while no other waits.
func (s *writeStall) restartTimer(now time.Time) { s.lastApplied, s.leaderChanged = now, false }

// endIfWritesApplied ends the stall if the entry has applied writes.
func (s *writeStall) endIfWritesApplied(now time.Time) {
	if !s.writesApplied {
		return
	}
	if s.leaderChanged {
		s.gaps.Add(now.Sub(s.lastApplied))
	}
	s.lastApplied, s.writesApplied, s.leaderChanged = now, false, false
}
