package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// maxRecords bounds the records of a Recorder; each node of a snapshot counts as one. That is an
// hour of a busy schedule and at most a few hundred megabytes.
const maxRecords = 1 << 20

// errFull says that a Recorder was given more than maxRecords, so that what it holds is not a
// complete history.
var errFull = errors.New("history: more than 1048576 records")

// Config configures a Recorder.
type Config struct {
	Tick    time.Duration
	Slack   time.Duration // see History; default 0
	Members []uint32
	Linear  bool // every read must be linearizable, not only those after a sync
}

// Recorder records a history. Each method says when it must be called. Methods do not block, except
// for the Recorder's lock, so they may be called while other locks are held. It is safe for
// concurrent use. A nil Recorder records nothing, and has no History.
//
// at is the time of the event by the caller's clock, unless a method says otherwise. Record a
// request before it is sent. Record an answer or an event when it arrives, in the order of its
// connection and before the client acts on it.
type Recorder struct {
	mu          sync.Mutex
	recorded    History
	recordCount int // how many records
	seq         uint64
	full        bool
}

// forever is the end of everything that has not ended.
const forever = time.Duration(1<<63 - 1)

// NewRecorder returns a Recorder for an ensemble.
func NewRecorder(cfg Config) (*Recorder, error) {
	switch {
	case cfg.Tick <= 0:
		return nil, fmt.Errorf("history: tick %v is not positive", cfg.Tick)
	case cfg.Slack < 0:
		return nil, fmt.Errorf("history: slack %v is negative", cfg.Slack)
	case len(cfg.Members) == 0:
		return nil, errors.New("history: Members is required")
	}
	return &Recorder{recorded: History{Tick: cfg.Tick, Slack: cfg.Slack, Members: slices.Clone(cfg.Members), Linear: cfg.Linear}}, nil
}

// addRecord calls put, under the lock, if there is room for n more records.
func (r *Recorder) addRecord(at time.Duration, n int, put func(m Moment)) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full = r.full || r.recordCount+n > maxRecords; r.full {
		return
	}
	r.recordCount += n
	r.seq++
	put(Moment{Seq: r.seq, At: at})
}

// CallID identifies a recorded request. The zero value is that of a request for which there was no
// room; Returned ignores it.
type CallID int

// Invoked records a request, before it is sent.
func (r *Recorder) Invoked(at time.Duration, req Request) (id CallID) {
	r.addRecord(at, 1, func(m Moment) {
		r.recorded.Calls = append(r.recorded.Calls, Call{Request: req, Invoked: m})
		id = CallID(len(r.recorded.Calls))
	})
	return id
}

// Returned records the answer to a request. For a request without an answer nothing is recorded, so
// its outcome stays unknown.
func (r *Recorder) Returned(at time.Duration, id CallID, reply Reply) {
	r.addRecord(at, 1, func(m Moment) {
		if i := int(id) - 1; i >= 0 && i < len(r.recorded.Calls) {
			r.recorded.Calls[i].Returned, r.recorded.Calls[i].Reply = m, reply
		}
	})
}

// Event records a watch event that a client received.
func (r *Recorder) Event(at time.Duration, session jute.SessionID, conn uint64, e jute.EventType, path string) {
	r.addRecord(at, 1, func(m Moment) {
		r.recorded.Events = append(r.recorded.Events, Event{Moment: m, Session: session, Conn: conn, Type: e, Path: path})
	})
}

// Connection records an event of a session's connection as its client saw it.
func (r *Recorder) Connection(at time.Duration, kind ConnectionKind, session jute.SessionID, conn uint64, member uint32) {
	r.addRecord(at, 1, func(m Moment) {
		r.recorded.Connections = append(r.recorded.Connections, Connection{Moment: m, Kind: kind, Session: session, Conn: conn, Member: member})
	})
}

// Opened records that member applied the creation of s: znode.Hooks's Opened.
func (r *Recorder) Opened(at time.Duration, member uint32, s znode.Session) {
	r.addLife(at, Life{Kind: lifeOpened, Member: member, Index: s.OwnerIndex, Session: s.ID, Owner: s.Owner, Timeout: s.Timeout})
}

// Attached records that member applied a change of s's owner: znode.Hooks's Attached.
func (r *Recorder) Attached(at time.Duration, member uint32, s znode.Session) {
	r.addLife(at, Life{Kind: lifeAttached, Member: member, Index: s.OwnerIndex, Session: s.ID, Owner: s.Owner, Timeout: s.Timeout})
}

// Closed records that member applied the end of s: znode.Hooks's Closed, with the
// state's index and zxid at that call.
func (r *Recorder) Closed(at time.Duration, member uint32, index uint64, zxid int64, s znode.Session, expired bool) {
	r.addLife(at, Life{
		Kind: lifeClosed, Member: member, Index: index, Zxid: zxid,
		Session: s.ID, Owner: s.Owner, Timeout: s.Timeout, Expired: expired,
	})
}

func (r *Recorder) addLife(at time.Duration, l Life) {
	r.addRecord(at, 1, func(m Moment) {
		l.Moment = m
		r.recorded.Lives = append(r.recorded.Lives, l)
	})
}

// Touched records that member received bytes on a connection that it holds for session.
func (r *Recorder) Touched(at time.Duration, member uint32, session jute.SessionID) {
	r.addRecord(at, 1, func(m Moment) {
		r.recorded.Touches = append(r.recorded.Touches, Touch{Moment: m, Member: member, Session: session})
	})
}

// Vouched records a member's decision whether the session lives at the time at. That is the
// argument of its check, and not the time when the check returned. conn is 0 if the check does not
// know it.
func (r *Recorder) Vouched(at time.Duration, member uint32, session jute.SessionID, conn uint64, allowed bool) {
	r.addRecord(at, 1, func(m Moment) {
		r.recorded.Vouches = append(r.recorded.Vouches, Vouch{Moment: m, Member: member, Session: session, Conn: conn, Allowed: allowed})
	})
}

// Leads records that leader has applied the TermStart of its own term, at an index of the log; call it from
// znode.Hooks.TermStarted on that member. Recording it again, as a replay does, changes nothing. A term of two leaders
// is recorded twice, which (h) finds.
func (r *Recorder) Leads(at time.Duration, term, index uint64, leader uint32) {
	r.addRecord(at, 1, func(Moment) {
		if !slices.ContainsFunc(r.recorded.Terms, func(t Term) bool { return t.Term == term && t.Index == index && t.Leader == leader }) {
			r.recorded.Terms = append(r.recorded.Terms, Term{Term: term, Index: index, Leader: leader, From: at, To: forever})
		}
	})
}

// Cut records, before it is done, that members a and b can no longer communicate. If a is b, that
// member is paused.
func (r *Recorder) Cut(at time.Duration, a, b uint32) {
	r.addRecord(at, 1, func(Moment) {
		r.recorded.Outages = append(r.recorded.Outages, Outage{A: min(a, b), B: max(a, b), From: at, To: forever})
	})
}

// Healed ends the open outages of a and b. at may be in the future, by the time that connections
// need to come back.
func (r *Recorder) Healed(at time.Duration, a, b uint32) {
	r.addRecord(at, 1, func(Moment) {
		for i := range r.recorded.Outages {
			if o := &r.recorded.Outages[i]; o.A == min(a, b) && o.B == max(a, b) && o.To == forever {
				o.To = at
			}
		}
	})
}

// Hampered records an outage of members a and b in which some messages get through. until may be in
// the future.
func (r *Recorder) Hampered(at, until time.Duration, a, b uint32) {
	r.addRecord(at, 1, func(Moment) {
		r.recorded.Outages = append(r.recorded.Outages, Outage{A: min(a, b), B: max(a, b), From: at, To: until, Partial: true})
	})
}

// Configured records that, from at on, these members vote. If moving is set, the ensemble is on its way
// from one list to another, and members are those of both.
func (r *Recorder) Configured(at time.Duration, members []uint32, moving bool) {
	c := Configuration{From: at, Members: slices.Clone(members), Moving: moving}
	r.addRecord(at, 1, func(Moment) { r.recorded.Configurations = append(r.recorded.Configurations, c) })
}

// Snapshot records the content of the tree of s.Member; its Moment is filled in.
func (r *Recorder) Snapshot(at time.Duration, s Snapshot) {
	s.Nodes = slices.Clone(s.Nodes)
	r.addRecord(at, 1+len(s.Nodes), func(m Moment) {
		s.Moment = m
		r.recorded.Snapshots = append(r.recorded.Snapshots, s)
	})
}

// History returns a copy of everything recorded until end. Terms and outages that are still open
// end there. It returns errFull if there were more than maxRecords.
func (r *Recorder) History(end time.Duration) (History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return History{}, errFull
	}
	h := r.recorded
	h.End = end
	h.Calls = slices.Clone(h.Calls)
	h.Events = slices.Clone(h.Events)
	h.Connections = slices.Clone(h.Connections)
	h.Lives = slices.Clone(h.Lives)
	h.Touches = slices.Clone(h.Touches)
	h.Vouches = slices.Clone(h.Vouches)
	h.Snapshots = slices.Clone(h.Snapshots)
	h.Configurations = slices.Clone(h.Configurations)
	h.Outages = slices.Clone(h.Outages)
	for i := range h.Outages {
		h.Outages[i].To = min(h.Outages[i].To, end)
	}
	h.Terms = slices.Clone(h.Terms)
	slices.SortFunc(h.Terms, func(a, b Term) int {
		return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.From, b.From), cmp.Compare(a.Index, b.Index))
	})
	for i := range h.Terms {
		h.Terms[i].To = min(h.Terms[i].To, end)
		if i > 0 {
			h.Terms[i-1].To = min(h.Terms[i-1].To, h.Terms[i].From)
		}
	}
	return h, nil
}
