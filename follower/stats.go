package follower

import (
	"sync/atomic"

	"rollcall/internal/metrics"
)

// Stats are what a follower has counted since New, and its queues as they are now.
type Stats struct {
	VouchWaits      metrics.Buckets // how long a reply was held because its session's lease was over, until the lease was renewed or the connection closed
	AckDelays       metrics.Buckets // how long a batch of touches waited from its first flush until the leader's acknowledgement took effect
	WriteGaps       metrics.Buckets // for how long no write of this member was applied around a change of leader, if some waited
	LapsedLeases    uint64          // connections closed because touches were not acknowledged in time
	RefusedSessions uint64          // connections closed because the leader refused their sessions
	UnlinkedConns   uint64          // connections closed because the leader could not be reached

	ResentTxns     uint64 // transactions sent again because the leader, or the stream to it, had changed
	QueuedWrites   Queue  // writes that are not sent to the leader yet
	WritesInFlight Queue  // writes that are sent and not applied here
	PendingTouches int    // touches that the leader has not acknowledged; a session may count more than once
}

// Queue is how much waits in a queue.
type Queue struct{ Len, Bytes int }

// counters are the sources of Stats. They are safe for concurrent use.
type counters struct {
	vouchWaits, ackDelays                        metrics.Durations
	lapsedLeases, refusedSessions, unlinkedConns atomic.Uint64
}

// Stats returns the present values. It waits for no lock that is held for long.
func (f *Follower) Stats() Stats {
	c := &f.renewer.counters
	s := Stats{
		VouchWaits: c.vouchWaits.Buckets(), AckDelays: c.ackDelays.Buckets(), WriteGaps: f.outbox.stall.gaps.Buckets(),
		LapsedLeases: c.lapsedLeases.Load(), RefusedSessions: c.refusedSessions.Load(), UnlinkedConns: c.unlinkedConns.Load(),
		PendingTouches: f.renewer.touches.UnackedCount(),
	}
	f.outbox.fillStats(&s)
	return s
}

// fillStats sets what an outbox knows of Stats.
func (o *outbox) fillStats(s *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.ResentTxns, s.QueuedWrites, s.WritesInFlight = o.inFlight.resentCount, Queue{o.queued.queuedWrites, o.queued.queuedBytes}, Queue{o.inFlight.writes.Len(), o.inFlight.totalBytes}
}
