package member

import (
	"log/slog"
	"time"

	"rollcall/jute"
)

// EventKind names what happened.
type EventKind string

// The events, each told once, by the member that leads when it is applied.
const (
	EventLeader  EventKind = "leader elected"
	EventOpened  EventKind = "session opened"
	EventMoved   EventKind = "session moved"
	EventExpired EventKind = "session expired"
	EventClosed  EventKind = "session closed"
)

// Event is one thing that happened in the ensemble.
type Event struct {
	Kind       EventKind
	Term       uint64         // EventLeader: raft's term
	Member     uint32         // the leader; the member that the session is attached to; 0 if to none
	From       uint32         // EventMoved: the member before
	Session    jute.SessionID // all but EventLeader
	Timeout    time.Duration  // EventOpened, EventMoved: granted
	Address    string         // the client's
	Ephemerals int            // EventExpired, EventClosed: how many went with it
}

// LogValue implements slog.LogValuer.
func (e Event) LogValue() slog.Value {
	if e.Kind == EventLeader {
		return slog.GroupValue(slog.Uint64("term", e.Term), slog.Uint64("member", uint64(e.Member)))
	}
	attrs := []slog.Attr{slog.Any("session", e.Session), slog.Uint64("member", uint64(e.Member)), slog.String("client", e.Address)}
	switch e.Kind {
	case EventMoved:
		attrs = append(attrs, slog.Uint64("from", uint64(e.From)), slog.Duration("timeout", e.Timeout))
	case EventOpened:
		attrs = append(attrs, slog.Duration("timeout", e.Timeout))
	default:
		attrs = append(attrs, slog.Int("ephemerals", e.Ephemerals))
	}
	return slog.GroupValue(attrs...)
}
