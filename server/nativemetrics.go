package server

import "rollcall/internal/metrics"

// NativeMetrics returns the metrics of this server that only Prometheus gets.
func (s *Server) NativeMetrics() []metrics.Native {
	count := &s.stats
	return []metrics.Native{
		metrics.Gauge("rollcall_memory_used_bytes",
			"memory that the last run of the collector found in use",
			func() int64 { _, used, _ := s.cfg.Memory.Usage(); return used }),
		metrics.Gauge("rollcall_memory_limit_bytes",
			"memoryLimit; 0: there is no limit",
			func() int64 { limit, _, _ := s.cfg.Memory.Usage(); return limit }),
		metrics.Counter("rollcall_writes_refused_total",
			"writes of this member's clients that were refused because it was short of memory",
			func() uint64 { _, _, refused := s.cfg.Memory.Usage(); return refused }),
		metrics.Gauge("rollcall_clients",
			"sessions whose clients are connected to this member",
			func() int { _, sessions := s.conns.count(); return sessions }),
		metrics.Gauge("rollcall_read_only_clients",
			"clients with sessions of the read-only mode", count.readOnly.Load),
		metrics.HistogramBy("rollcall_request_seconds", "class",
			"time from reading a request to queueing its reply", count.requestTimes),
		metrics.CounterBy("rollcall_connections_ended_total", "reason",
			"client connections that ended or were refused", count.endedCounts),
		metrics.CounterBy("rollcall_watch_events_total", "type",
			"events that were sent to this member's clients because a watch fired", count.eventCounts),
		metrics.CounterBy("rollcall_watch_replays_total", "result",
			"requests of clients that set their persistent watches again, by what became of the events that these have missed",
			count.replayCounts),
		metrics.Counter("rollcall_watch_replayed_events_total",
			"events that were sent because a persistent watch had missed them", count.replayedEvents.Load),
		metrics.Gauge("rollcall_requests_slowed",
			"requests that wait at the moment because of a limit for tenants or the throttle of requests", s.held.count),
		metrics.HistogramBy("rollcall_request_slowed_seconds", "limit",
			"for how long a request waited because of a limit", s.held.times),
		metrics.Counter("rollcall_sessions_waited_total",
			"handshakes that waited because their address had as many sessions as it may have", count.sessionsWaited.Load),
		metrics.Counter("rollcall_watches_refused_total",
			"requests that were refused because a tenant had as many watches as it may have", count.watchesRefused.Load),
		metrics.Counter("rollcall_throttled_ops_total",
			"requests that were not served because they had waited longer than throttled_op_wait_time", s.requestThrottle.throttledOps),
		metrics.Gauge("rollcall_limit_tenants",
			"addresses, identities and subtrees that limits with each count by themselves", s.limiter.Tracked),
	}
}

// Outstanding returns the number of requests that wait for the log or for an earlier request.
func (s *Server) Outstanding() int { return int(s.stats.outstanding.Load()) }

// HeldBytes returns the bytes of waiting requests and of unread replies and events.
func (s *Server) HeldBytes() int { return int(s.streamConfig.Budget.UsedBytes()) }

// DroppedNotVouched returns the number of connections that were closed because the lease of their session could not be
// renewed.
func (s *Server) DroppedNotVouched() uint64 { return s.stats.endedByReason[notVouched].Load() }

func (c *counters) requestTimes() map[string]metrics.Buckets {
	all := make(map[string]metrics.Buckets, numClasses)
	for of := range c.requestLatency {
		all[classNames[of]] = c.requestLatency[of].Buckets()
	}
	return all
}

func (c *counters) endedCounts() map[string]uint64 {
	all := make(map[string]uint64, numReasons)
	for r := range c.endedByReason {
		all[reasonNames[r]] = c.endedByReason[r].Load()
	}
	return all
}

func (c *counters) replayCounts() map[string]uint64 {
	all := make(map[string]uint64, numReplayResults)
	for result, name := range replayResultNames {
		all[name] = c.replays[result].Load()
	}
	return all
}

func (c *counters) eventCounts() map[string]uint64 {
	all := make(map[string]uint64, len(eventNames))
	for t, name := range eventNames {
		all[name] = c.eventsByType[t].Load()
	}
	return all
}
