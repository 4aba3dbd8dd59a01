package member

import (
	"rollcall/operator/admin"
	"rollcall/znode"
)

// endReasons are the reasons for which sessions end.
var endReasons = []znode.Reason{znode.Closed, znode.Expired, znode.Killed}

// Details implements admin.Source.
func (s source) Details() admin.Details {
	m := s.m
	log, own, clients := m.node.Metrics().Stats(), m.follower.Stats(), m.server.Stats()
	d := admin.Details{
		Health: s.Health(), Term: m.node.Status().Term(), Applied: m.applied.index.Load(), Clients: clients.Sessions, ReadOnlyClients: clients.ReadOnly,
		MemoryUsed: clients.MemoryUsed, MemoryLimit: clients.MemoryLimit, Refused: clients.NoMemory,
		Requests: clients.Requests, Fsyncs: log.WriteTimes, Entries: log.EntrySizes, Applies: m.applied.durations.Buckets(),
		Flushes: own.Flushed, Held: own.Held, WriteGaps: own.Gaps, Elections: log.ElectionTimes,
		Lateness: m.terms.count.Late.Buckets(), Pauses: m.terms.count.Pauses.Load(), TermsLed: m.terms.led.Load(),
		Opened: m.applied.sessions.opened.Load(), Resumed: m.applied.sessions.resumed.Load(), Ended: make(map[string]uint64, len(endReasons)),
		Cut: map[string]uint64{
			"not_renewed": clients.Ended["not_vouched"], "not_acknowledged": own.Lapsed, "refused": own.Refused, "unlinked": own.Unlinked,
		},
		Closed: clients.Ended, Events: clients.Events, Resent: own.Resent,
		Queues: map[string]int{
			"requests": clients.Outstanding, "waiting": own.Waiting.Len, "sent": own.Sent.Len, "touches": own.Touches, "proposals": 0,
		},
		QueueBytes: map[string]int{
			"requests": int(clients.Held), "waiting": own.Waiting.Bytes, "sent": own.Sent.Bytes, "proposals": 0,
		},
	}
	d.Certificates, d.TooFast, d.Corrupted = m.keys.secondsLeft(m.clock.Now(), m.ports.guard.Until()), m.ports.hello.Door().Refused(), m.ports.hello.Corruptions().Count()
	for _, why := range endReasons {
		d.Ended[why.String()] = m.applied.sessions.ended[why].Load()
	}
	if m.audit != nil {
		written, dropped := m.audit.Counts()
		d.AuditLines = map[string]uint64{"written": written, "lost": dropped, "rejected": m.audit.Rejected()}
	}
	waited, rejected := m.guesses.Slowed()
	d.Guesses, d.Slowed = m.guesses.Counts(), map[string]uint64{"waited": waited, "rejected": rejected}
	if m.cfg.Backup.Dir != "" {
		d.Backups = map[string]uint64{"written": m.backups.written.Load(), "failed": m.backups.failed.Load()}
	}
	if l := m.terms.current.Load(); l != nil {
		term := l.Stats()
		d.Queues["proposals"], d.QueueBytes["proposals"] = term.Waiting, term.Bytes
	}
	return d
}
