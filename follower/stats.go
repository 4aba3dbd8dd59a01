package follower

import (
	"sync/atomic"

	"rollcall/internal/metrics"
)

// Stats are what a follower has counted since New, and its queues as they are now.
type Stats struct {
	Held     metrics.Buckets // how long a reply was held because its session's lease was over, until the lease was renewed or the connection closed
	Flushed  metrics.Buckets // how long a batch of touches waited from its first flush until the leader's acknowledgement took effect
	Gaps     metrics.Buckets // for how long no write of this member was applied around a change of leader, if some waited
	Lapsed   uint64          // connections closed because touches were not acknowledged in time
	Refused  uint64          // connections closed because the leader refused their sessions
	Unlinked uint64          // connections closed because the leader could not be reached

	Resent  uint64 // transactions sent again because the leader, or the stream to it, had changed
	Waiting Queue  // writes that are not sent to the leader yet
	Sent    Queue  // writes that are sent and not applied here
	Touches int    // touches that the leader has not acknowledged; a session may count more than once
}

// Queue is how much waits in a queue.
type Queue struct{ Len, Bytes int }

// counters are the sources of Stats. They are safe for concurrent use.
type counters struct {
	held, flushed             metrics.Durations
	lapsed, refused, unlinked atomic.Uint64
}

// Stats returns the present values. It waits for no lock that is held for long.
func (f *Follower) Stats() Stats {
	c := &f.renewer.counters
	s := Stats{
		Held: c.held.Buckets(), Flushed: c.flushed.Buckets(), Gaps: f.out.stall.gaps.Buckets(),
		Lapsed: c.lapsed.Load(), Refused: c.refused.Load(), Unlinked: c.unlinked.Load(),
		Touches: f.renewer.touches.Unacknowledged(),
	}
	f.out.fill(&s)
	return s
}

// fill sets what an outbox knows of Stats.
func (o *outbox) fill(s *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.Resent, s.Waiting, s.Sent = o.sent.resentCount, Queue{o.queued.queuedWrites, o.queued.queuedBytes}, Queue{o.sent.writes.Len(), o.sent.totalBytes}
}
