package member

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

type EventKind string

// The leader reports each event once, when it applies it, except for EventRulesDiffer.
const (
	EventLeader        EventKind = "leader elected"
	EventOpened        EventKind = "session opened"
	EventMoved         EventKind = "session moved"
	EventExpired       EventKind = "session expired"
	EventClosed        EventKind = "session closed"
	EventKilled        EventKind = "session killed"
	EventQuotaOverused EventKind = "quota overused"
	EventQuotaWarning  EventKind = "data quota nearly used up"
	EventNamesWarning  EventKind = "sequential names nearly used up"
	EventNamesEnded    EventKind = "sequential names used up"
	// EventRulesDiffer is reported by the member whose file differs, once in a term.
	EventRulesDiffer EventKind = "the leader's rules hold in place of this member's"
)

// Event is an event in the ensemble.
type Event struct {
	Kind       EventKind
	Term       uint64            // EventLeader, EventRulesDiffer: raft's term
	Cause      znode.LeaderCause // EventLeader: what ended the leader before
	Member     uint32            // the leader; the member that the session is attached to; 0 if to none
	FromMember uint32            // EventMoved: the member it was attached to before
	Session    jute.SessionID    // all but EventLeader and those of quotas and names
	Timeout    time.Duration     // EventOpened, EventMoved: granted
	Address    string            // the client's
	Ephemerals int               // EventExpired, EventClosed, EventKilled: number of nodes removed with the session
	Silent     time.Duration     // EventExpired, EventKilled: since the leader last heard from the client
	By         string            // EventKilled: the operator
	// EventQuotaOverused: a quota that is overused; EventQuotaWarning: the quota of all data, in Bytes and BytesLimit
	Quota znode.ExceededQuota
	// EventQuotaOverused: writes that left any quota overused since the last EventQuotaOverused
	Overuses int
	Names    znode.ChildCount // EventNamesWarning, EventNamesEnded: the parent
	Keys     []string         // EventRulesDiffer: the keys whose values differ from the leader's
}

func endEvent(end znode.SessionEnd) Event {
	kind := EventClosed
	switch end.Reason {
	case znode.ReasonExpired:
		kind = EventExpired
	case znode.ReasonKilled:
		kind = EventKilled
	}
	return Event{
		Kind: kind, Member: end.Member, Session: end.Session, Address: end.Address,
		Ephemerals: end.EphemeralCount, Silent: end.SilentFor, By: end.RequestedBy,
	}
}

// LogValue implements slog.LogValuer.
func (e Event) LogValue() slog.Value {
	switch e.Kind {
	case EventLeader:
		return slog.GroupValue(slog.Uint64("term", e.Term), slog.Uint64("member", uint64(e.Member)),
			slog.String("cause", e.Cause.String()))
	case EventQuotaOverused:
		return slog.GroupValue(slog.String("path", e.Quota.Path),
			slog.Int64("count", e.Quota.Count), slog.Int64("countLimit", e.Quota.CountLimit),
			slog.Int64("bytes", e.Quota.Bytes), slog.Int64("bytesLimit", e.Quota.BytesLimit), slog.Int("times", e.Overuses))
	}
	switch e.Kind {
	case EventQuotaWarning:
		return slog.GroupValue(slog.Int64("bytes", e.Quota.Bytes), slog.Int64("bytesLimit", e.Quota.BytesLimit))
	case EventNamesWarning, EventNamesEnded:
		return slog.GroupValue(slog.String("path", e.Names.Path), slog.Int64("created", e.Names.Created), slog.Int64("most", znode.MaxCreated))
	}
	if e.Kind == EventRulesDiffer {
		return slog.GroupValue(slog.Uint64("term", e.Term), slog.Uint64("leader", uint64(e.Member)), slog.String("keys", strings.Join(e.Keys, " ")))
	}
	attrs := []slog.Attr{
		slog.Any("session", e.Session), slog.Uint64("member", uint64(e.Member)),
		slog.String("client", e.Address),
	}
	switch e.Kind {
	case EventMoved:
		attrs = append(attrs, slog.Uint64("from", uint64(e.FromMember)), slog.Duration("timeout", e.Timeout))
	case EventOpened:
		attrs = append(attrs, slog.Duration("timeout", e.Timeout))
	case EventExpired:
		attrs = append(attrs, slog.Int("ephemerals", e.Ephemerals), slog.Duration("silent", e.Silent))
	case EventKilled:
		attrs = append(attrs, slog.Int("ephemerals", e.Ephemerals), slog.Duration("silent", e.Silent),
			slog.String("by", e.By))
	default:
		attrs = append(attrs, slog.Int("ephemerals", e.Ephemerals))
	}
	return slog.GroupValue(attrs...)
}

// maxEvents limits the events that wait for Config.OnEvent. Further events are counted and dropped, so apply
// never waits for their reader.
const maxEvents = 4096

// eventQueue holds the events until Config.OnEvent is called for them. It is safe for concurrent use.
type eventQueue struct {
	queued  chan Event
	dropped atomic.Uint64 // since the last warning
}

func newEventQueue() *eventQueue { return &eventQueue{queued: make(chan Event, maxEvents)} }

// enqueueOrDrop adds an event. Apply calls it, so it never waits.
func (q *eventQueue) enqueueOrDrop(e Event) {
	select {
	case q.queued <- e:
	default:
		q.dropped.Add(1)
	}
}

// deliverLoop calls handle, unless it is nil, for each event until ctx ends.
func (q *eventQueue) deliverLoop(ctx context.Context, handle func(Event), log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e := <-q.queued:
			if handle != nil {
				handle(e)
			}
		}
		if n := q.dropped.Swap(0); n > 0 {
			log.Warn("events lost: too many at once", "count", n)
		}
	}
}
