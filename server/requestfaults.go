package server

import (
	"log/slog"
	"time"

	"rollcall/internal/admission"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// faultLogInterval is the least time between two lines about connections that ended for the same fault of a client. Programs retry.
const faultLogInterval = time.Minute

// requestFaults are the reasons for which what a client does ends its connection, and what they mean. The client gets at most a code.
var requestFaults = map[stream.Reason]string{
	badFrame:       "it sent what is no request, or a request longer than jute.maxbuffer",
	notAHandshake:  "its first bytes open no session: they are of another protocol, or of TLS at a plain port",
	unknownOp:      "it asked for an operation that is not served (see docs/deviations.md)",
	slowReader:     "it left more bytes unread than connectionUnreadLimit, or read nothing for its timeout",
	historyOverrun: "it took the events that its watches had missed more slowly than new changes replaced them in watches.history.bytes",
	tooManyEvents:  "many changes at once had more watchers than fit connectionUnreadLimit",
}

// faultLog has one limiter for each fault. It is safe for concurrent use.
type faultLog struct {
	log      *slog.Logger
	limiters map[stream.Reason]*admission.LogLimiter
}

func newFaultLog(log *slog.Logger) *faultLog {
	l := &faultLog{log: log, limiters: map[stream.Reason]*admission.LogLimiter{}}
	for why := range requestFaults {
		l.limiters[why] = admission.NewLogLimiterOf(faultLogInterval)
	}
	return l
}

// add logs that a connection has ended, if that was for a fault of its client and the last such line is old enough.
func (l *faultLog) add(why stream.Reason, client string, session jute.SessionID) {
	limiter := l.limiters[why]
	if limiter == nil {
		return
	}
	if unlogged, due := limiter.AllowLine(time.Now()); due {
		l.log.Warn("a client's request ended its connection", "client", client, "session", session, "reason", requestFaults[why], "unlogged", unlogged)
	}
}
