package member

import (
	"slices"
	"strconv"

	"rollcall/internal/metrics"
	"rollcall/leader"
	"rollcall/znode"
)

// NativeMetrics implements admin.Source: the metrics of the packages that the member is made of, and its own.
func (s source) NativeMetrics() []metrics.Native {
	m := s.m
	return slices.Concat(
		m.server.NativeMetrics(), m.follower.NativeMetrics(), m.node.Metrics().Native(), m.credentialLimiter.NativeMetrics(),
		s.stateMetrics(), s.leaderMetrics(), s.portMetrics(), s.fileMetrics(), s.queueMetrics(), m.viewer.slow.nativeMetrics(),
		m.viewer.slow.exporter.NativeMetrics(), m.backups.archiveMetrics(),
	)
}

// stateMetrics returns the metrics of the applied state.
func (s source) stateMetrics() []metrics.Native {
	m := s.m
	return []metrics.Native{
		metrics.Gauge("rollcall_term",
			"raft's term, as this member knows it",
			func() uint64 { return m.node.Status().Term() }),
		metrics.Gauge("rollcall_applied_index",
			"index of the last entry of the log that this member has applied", m.applyProgress.lastIndex.Load),
		metrics.Histogram("rollcall_apply_seconds",
			"applying an entry, with the wait for reads", m.applyProgress.applyDurations.Buckets),
		metrics.Counter("rollcall_sessions_opened_total",
			"sessions opened in the ensemble; counted on the leader, so add up all members",
			m.applyProgress.sessionCounters.opened.Load),
		metrics.Counter("rollcall_sessions_resumed_total",
			"sessions that a client resumed on a new connection; counted likewise",
			m.applyProgress.sessionCounters.resumed.Load),
		metrics.CounterBy("rollcall_sessions_ended_total", "reason",
			"sessions that ended; counted likewise", func() map[string]uint64 {
				ended := make(map[string]uint64)
				for _, why := range []znode.EndReason{znode.ReasonClosed, znode.ReasonExpired, znode.ReasonKilled} {
					ended[why.String()] = m.applyProgress.sessionCounters.ended[why].Load()
				}
				return ended
			}),
	}
}

// connectedMembers returns 1 or 0 by member, or nothing if this member does not lead.
func (s source) connectedMembers() map[string]int {
	term := s.m.terms.currentLeader.Load()
	if term == nil {
		return nil
	}
	all := map[string]int{}
	for id, connected := range term.ConnectedMembers() {
		name := strconv.FormatUint(uint64(id), 10)
		if all[name] = 0; connected {
			all[name] = 1
		}
	}
	return all
}

// leaderMetrics returns the metrics that this member has counted while it led.
func (s source) leaderMetrics() []metrics.Native {
	m := s.m
	return []metrics.Native{
		metrics.Counter("rollcall_terms_led_total",
			"terms that this member has begun to lead; the sum over all members counts the changes of leader",
			m.terms.termsLed.Load),
		metrics.GaugeBy("rollcall_member_connected", "member",
			"1 if another member is connected to this one and replies, 0 if not; on the leader, for each member of the ensemble",
			s.connectedMembers),
		metrics.Counter("rollcall_leader_pauses_total",
			"half ticks of leading that came more than a quarter tick late, because the process was paused", m.terms.counters.Pauses.Load),
		metrics.Histogram("rollcall_expiry_lateness_seconds",
			"how long after its timeout a session expired, without pauses of the leader; counted on the leader", m.terms.counters.ExpiryLateness.Buckets),
	}
}

// portMetrics returns the metrics of the ports for members.
func (s source) portMetrics() []metrics.Native {
	m := s.m
	all := []metrics.Native{
		metrics.GaugeBy("rollcall_certificate_valid_seconds", "shown_to",
			"time left of the certificate shown to members or clients; negative: it has expired",
			func() map[string]int64 {
				return m.serverKeys.secondsToExpiry(m.wallClock.Now(), m.ports.trustGuard.CertificateExpiry())
			}),
		metrics.CounterBy("rollcall_member_connections_refused_total", "from",
			"connections to the ports for members that were closed because they came too fast",
			func() map[string]uint64 { return m.ports.hello.HandshakeLimiter().Rejections() }),
		metrics.Counter("rollcall_member_connections_corrupted_total",
			"connections between members that were closed because a checksum did not match",
			func() uint64 { return m.ports.hello.Corruptions().Count() }),
	}
	if guard := m.ports.trustGuard; guard.UsesTickets() {
		all = append(all, metrics.GaugeBy("rollcall_ticket_valid_seconds", "member",
			"time left of the Kerberos ticket for another member; 0: it is missing or has expired",
			func() map[string]int64 { return guard.TicketSeconds(m.wallClock.Now()) }))
	}
	return all
}

// fileMetrics returns the metrics of files beside the log, if they are configured.
func (s source) fileMetrics() (all []metrics.Native) {
	m := s.m
	if m.auditLog != nil {
		all = append(all, m.auditLog.NativeMetrics()...)
	}
	if m.cfg.Backup.Dir != "" {
		all = append(all, metrics.CounterBy("rollcall_backups_total", "outcome",
			"regular backups that this member has made, or has failed to make",
			func() map[string]uint64 {
				return map[string]uint64{"written": m.backups.writtenBackups.Load(), "failed": m.backups.failedBackups.Load()}
			}))
	}
	return all
}

// queueMetrics returns the queues of all packages, and the connections that were closed because no package
// could vouch for their sessions: each is one metric.
func (s source) queueMetrics() []metrics.Native {
	m := s.m
	return []metrics.Native{
		metrics.GaugeBy("rollcall_queue_length", "queue",
			"what waits in a queue now", func() map[string]int {
				own := m.follower.Stats()
				return map[string]int{
					"requests": m.server.Outstanding(), "waiting": own.QueuedWrites.Len, "sent": own.WritesInFlight.Len,
					"touches":   own.PendingTouches,
					"proposals": s.proposals().QueuedTxns,
				}
			}),
		metrics.GaugeBy("rollcall_queue_bytes", "queue",
			"how many bytes it has", func() map[string]int {
				own := m.follower.Stats()
				return map[string]int{
					"requests": m.server.HeldBytes(), "waiting": own.QueuedWrites.Bytes, "sent": own.WritesInFlight.Bytes,
					"proposals": s.proposals().QueuedBytes,
				}
			}),
		metrics.CounterBy("rollcall_vouching_cut_total", "reason",
			"connections closed because this member could not vouch for their sessions", func() map[string]uint64 {
				own := m.follower.Stats()
				return map[string]uint64{
					"not_renewed": m.server.DroppedNotVouched(), "not_acknowledged": own.LapsedLeases, "refused": own.RefusedSessions,
					"unlinked": own.UnlinkedConns,
				}
			}),
	}
}

// proposals returns the counters of this member's term as leader, or zeros if it does not lead.
func (s source) proposals() leader.Stats {
	if term := s.m.terms.currentLeader.Load(); term != nil {
		return term.Stats()
	}
	return leader.Stats{}
}
