package follower

import (
	"sync/atomic"

	"rollcall/internal/metrics"
)

// Stats are the counters of a Follower since New, and the present length of its queues.
type Stats struct {
	VouchWaits metrics.Buckets // durations of Vouch, for replies whose session's lease was over
	AckDelays  metrics.Buckets // from a batch's first flush until the leader's acknowledgement took effect
	WriteGaps  metrics.Buckets // times without an applied write around a change of leader, if writes waited

	// Closed connections, by cause.

	LapsedLeases    uint64 // touches were not acknowledged in time
	RefusedSessions uint64 // the leader rejected their sessions
	UnlinkedConns   uint64 // the leader could not be reached

	ResentTxns     uint64 // transactions sent again because the leader, or the stream to it, had changed
	QueuedWrites   Queue  // not sent to the leader yet
	WritesInFlight Queue  // sent and not applied here
	PendingTouches int    // not acknowledged by the leader; a session may count more than once
}

// Queue is the size of a queue.
type Queue struct{ Len, Bytes int }

// counters are safe for concurrent use. See Stats.
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
		PendingTouches: f.renewer.touches.UnackedTouchCount(),
	}
	f.outbox.fillStats(&s)
	return s
}

// fillStats sets the fields about writes.
func (o *outbox) fillStats(s *Stats) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.ResentTxns = o.inFlight.resentCount
	s.QueuedWrites = Queue{o.queued.queuedWrites, o.queued.queuedBytes}
	s.WritesInFlight = Queue{o.inFlight.writes.Len(), o.inFlight.totalBytes}
}
