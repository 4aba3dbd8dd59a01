package follower

import (
	"time"

	"rollcall/internal/metrics"
)

// writeStall measures for how long no write of this member is applied around a change of leader. The
// outbox's lock guards it, except gaps.
type writeStall struct {
	gaps     metrics.Durations
	since    time.Time // when a write was last applied, or came while no other waited
	progress bool      // writes have been applied by the entry that is being applied
	changed  bool      // the leader has changed since then, while writes waited
}

// begin starts the time for a write that comes while no other waits.
func (s *writeStall) begin(now time.Time) { s.since, s.changed = now, false }

// entryApplied ends the stall if the entry has applied writes.
func (s *writeStall) entryApplied(now time.Time) {
	if !s.progress {
		return
	}
	if s.changed {
		s.gaps.Add(now.Sub(s.since))
	}
	s.since, s.progress, s.changed = now, false, false
}
