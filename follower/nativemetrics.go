package follower

import "rollcall/internal/metrics"

// NativeMetrics returns the metrics of this follower that only Prometheus gets.
func (f *Follower) NativeMetrics() []metrics.Native {
	return []metrics.Native{
		metrics.Histogram("rollcall_touch_flush_seconds",
			"from sending a batch of touches until the leader's acknowledgement has taken effect",
			f.renewer.counters.ackDelays.Buckets),
		metrics.Histogram("rollcall_reply_held_seconds",
			"for how long a reply was held because the lease of its session was over", f.renewer.counters.vouchWaits.Buckets),
		metrics.Histogram("rollcall_write_gap_seconds",
			"for how long no write of this member's clients was applied around a change of leader, if one waited",
			f.outbox.stall.gaps.Buckets),
		metrics.Counter("rollcall_writes_resent_total",
			"writes that this member sent again to a new leader or stream",
			func() uint64 { return f.Stats().ResentTxns }),
	}
}
