package cluster

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/integration/wire"
	"rollcall/lab/history"
	"rollcall/member"
	"rollcall/proto"
	"rollcall/server"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// settling bounds the time after a fault's end in which two members may still be without a
// connection. The history counts it as a part of the fault in which they may or may not hear each
// other.
const settling = 2 * time.Second

// historyRecord records what clients and members do, for package history.
type historyRecord struct {
	to    *history.Recorder // nil: nothing is recorded
	start time.Time
	tick  time.Duration
	conns atomic.Uint64

	mu      sync.Mutex
	terms   map[uint64]leaderTerm // by number
	changes listChanges
}

// listChanges is a record's state of the server list.
type listChanges struct {
	version int64
	made    int // how often the list became another one
	list    string
	members []uint32 // of the newest list
	moving  bool     // it is on its way from one list to another
	union   []uint32 // members of all lists on that way

	leading  map[uint32]leadingView      // by member: when it last led
	unpinged map[[2]uint32]time.Duration // by leader and member: since when the leader may not ping the member
}

// leadingView is the last observation of a member as leader.
type leadingView struct {
	at            time.Duration
	term          uint64
	configuration []uint32 // the members in its raft's configuration
}

func newRecord(tick time.Duration, members []uint32, linear bool) (*historyRecord, error) {
	r, err := history.NewRecorder(history.Config{Tick: tick, Slack: tick / 2, Members: members, Linear: linear})
	c := listChanges{members: members, union: members, leading: map[uint32]leadingView{}, unpinged: map[[2]uint32]time.Duration{}}
	return &historyRecord{to: r, start: time.Now(), tick: tick, terms: map[uint64]leaderTerm{}, changes: c}, err
}

// leaderTerm is a term whose TermStart has been applied.
type leaderTerm struct {
	number uint64
	leader uint32
	from   time.Duration // when it was first applied
}

// leader returns the member that led in a term, or false if no TermStart of that term has been
// applied.
func (r *historyRecord) leader(number uint64) (id uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t, ok := r.terms[number]
	return t.leader, ok
}

// newestTerm returns the newest term that a member has led, or none.
func (r *historyRecord) newestTerm(leader uint32) (newest leaderTerm) {
	for _, t := range r.terms {
		if t.leader == leader && t.number >= newest.number {
			newest = t
		}
	}
	return newest
}

func (r *historyRecord) sinceStart() time.Duration { return time.Since(r.start) }

// noteRequest records a request.
func (r *historyRecord) noteRequest(session jute.SessionID, conn uint64, xid int32, op jute.Op, rec wire.Record) history.CallID {
	if xid <= 0 {
		return 0
	}
	q := history.Request{Session: session, Conn: conn, Xid: xid, Op: op}
	switch rec := rec.(type) {
	case *jute.CreateRequest:
		q.Path, q.Data, q.Mode = string(rec.Path), string(rec.Data), rec.Flags
	case *jute.CreateTTLRequest:
		q.Path, q.Data, q.Mode = string(rec.Path), string(rec.Data), rec.Flags
	case *jute.SetDataRequest:
		q.Path, q.Data, q.Version = string(rec.Path), string(rec.Data), rec.Version
	case *jute.VersionedPath:
		q.Path, q.Version = string(rec.Path), rec.Version
	case *jute.WatchedPath:
		q.Path, q.Watch = string(rec.Path), rec.Watch
	case *jute.PathRecord:
		q.Path = string(rec.Path)
	}
	return r.to.Invoked(r.sinceStart(), q)
}

// noteReply records a reply.
func (r *historyRecord) noteReply(id history.CallID, op jute.Op, reply wire.Reply) {
	if id == 0 {
		return
	}
	a := history.Reply{Code: reply.Err, Zxid: reply.Zxid}
	if reply.Err == jute.OK {
		switch op {
		case jute.OpCreate:
			var resp jute.CreateResponse
			_ = reply.Into(&resp) // the caller sees what is wrong with it
			a.Path = string(resp.Path)
		case jute.OpGetData:
			var resp jute.GetDataResponse
			_ = reply.Into(&resp)
			a.Data, a.Mzxid, a.Version = string(resp.Data), resp.Stat.Mzxid, resp.Stat.Version
		case jute.OpExists:
			var resp jute.ExistsResponse
			_ = reply.Into(&resp)
			a.Mzxid, a.Version = resp.Stat.Mzxid, resp.Stat.Version
		}
	}
	r.to.Returned(r.sinceStart(), id, a)
}

func (r *historyRecord) noteEvent(session jute.SessionID, conn uint64, e jute.WatcherEvent) {
	r.to.Event(r.sinceStart(), session, conn, e.Type, string(e.Path))
}

// noteConnection records an event of a client's connection, and returns the connection's number.
func (r *historyRecord) noteConnection(kind history.ConnectionKind, session jute.SessionID, conn uint64, member uint32) uint64 {
	if kind == history.Connected {
		conn = r.conns.Add(1)
	}
	r.to.Connection(r.sinceStart(), kind, session, conn, member)
	return conn
}

// noteDown and noteUp record when a member's process is not running.
func (r *historyRecord) noteDown(id uint32) { r.to.Cut(r.sinceStart(), id, id) }
func (r *historyRecord) noteUp(id uint32)   { r.to.Healed(r.sinceStart(), id, id) }

// noteFault records which pairs of members cannot communicate while a fault lasts.
func (r *historyRecord) noteFault(p Played, ids []uint32) {
	end := r.sinceStart() + p.For + p.By
	pairs := func(a uint32, others ...uint32) {
		for _, b := range others {
			switch {
			case a == b || b == 0:
			case p.Kind == Kill || p.Kind == Wipe || p.Kind == Move || p.Kind == Pause || p.Kind == Isolate || p.Kind == Forsake || p.Kind == Cut:
				r.to.Cut(r.sinceStart(), a, b)
				r.to.Healed(end, a, b)
				r.to.Hampered(end, end+settling, a, b)
			default: // a member may receive the other's pings all the same
				r.to.Hampered(r.sinceStart(), end+settling, a, b)
			}
		}
	}
	switch p.Kind {
	case Step, Drift, Strand, Expel, Backup, Add, Remove, Replace, Demote, Promote: // noteList records what they do
	case Cut, Hang, Slow, Narrow, Reset, Flip:
		pairs(p.Hit, p.Far)
	case Stall:
		pairs(p.Hit, ids...)
		r.to.Hampered(r.sinceStart(), end, p.Hit, p.Hit) // a leader without others writes nothing either
	case Unsaved:
		for _, id := range ids {
			if id == p.Hit || id == p.Far || p.Seed%crashSelection == crashEveryone || p.Seed%crashSelection == crashSpareHit {
				pairs(id, ids...)
				r.to.Hampered(r.sinceStart(), end, id, id)
			}
		}
	default:
		pairs(p.Hit, ids...)
	}
}

// noteHampered records that, since from, a member may not have heard the others, nor they it.
func (r *historyRecord) noteHampered(from time.Duration, id uint32, ids []uint32) {
	for _, other := range ids {
		if other != id {
			r.to.Hampered(from, r.sinceStart()+settling, id, other)
		}
	}
}

// noteList records a list that some member has applied, when it is newer than all before. The ensemble is on
// its way to it until noteSettled.
func (r *historyRecord) noteList(list znode.ServerList) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.changes
	if list.Version <= c.version {
		return
	}
	members := serverIDs(list.Servers)
	text, first := list.Servers.CanonicalText(), c.version == 0
	if text != c.list && !first {
		c.made++
	}
	c.list = text
	c.version, c.members, c.moving = list.Version, members, true
	if first {
		c.moving = false
		return
	}
	c.union = append(slices.Clone(c.union), members...)
	slices.Sort(c.union)
	c.union = slices.Compact(c.union)
	r.to.Configured(r.sinceStart(), c.union, true)
}

// isMoving reports whether the ensemble is on its way to a list.
func (r *historyRecord) isMoving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changes.moving
}

// noteSettled records that the members are those of the list of this version, unless there is a newer one.
func (r *historyRecord) noteSettled(version int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.changes
	if version != c.version || !c.moving {
		return
	}
	c.moving, c.union = false, c.members
	r.to.Configured(r.sinceStart(), c.members, false)
}

// noteLeading records which of all members are in the configuration of one that leads now. A leader collects touches
// from those alone. It keeps pinging one that has left for as long as that may have clients, but a later leader
// never begins to.
func (r *historyRecord) noteLeading(leader uint32, configuration, all []uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.changes
	now, last, term := r.sinceStart(), c.leading[leader], r.newestTerm(leader)
	for _, id := range all {
		pair := [2]uint32{leader, id}
		since, unasked := c.unpinged[pair]
		switch in := slices.Contains(configuration, id); {
		case in && unasked:
			r.noteUnpinged(pair, since)
			delete(c.unpinged, pair)
		case in:
		case last.term == term.number && slices.Contains(last.configuration, id):
			c.unpinged[pair] = last.at + member.RemovedGracePeriod + r.tick
		case !unasked:
			c.unpinged[pair] = term.from
		case last.term != term.number:
			c.unpinged[pair] = min(since, term.from)
		}
	}
	c.leading[leader] = leadingView{at: now, term: term.number, configuration: configuration}
}

// endUnpinged records the outages of members that have left and have not come back.
func (r *historyRecord) endUnpinged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pair, since := range r.changes.unpinged {
		r.noteUnpinged(pair, since)
	}
}

// noteUnpinged records that a leader has not pinged a member since a moment, which may be still to come.
func (r *historyRecord) noteUnpinged(pair [2]uint32, since time.Duration) {
	if since < r.sinceStart() {
		r.noteHampered(since, pair[1], pair[:1])
	}
}

// installHooks sets the hooks of a member's configuration, unless nothing is recorded.
func (r *historyRecord) installHooks(cfg *member.Config) *memberWitness {
	w := &memberWitness{historyRecord: r, id: cfg.ID}
	if r.to != nil {
		cfg.Hooks = w
		cfg.WrapMember = func(m server.Member) server.Member { return listeningMember{m, w} }
	}
	return w
}

// memberWitness records what one member applies.
type memberWitness struct {
	*historyRecord
	id    uint32
	state *znode.State // set before the member runs
	gone  atomic.Bool  // the member has crashed: a single voter still commits entries that no client will ever see
}

func (w *memberWitness) SessionOpened(s znode.Session) {
	if !w.gone.Load() {
		w.to.Opened(w.sinceStart(), w.id, s)
	}
}

func (w *memberWitness) SessionAttached(s znode.Session, _ znode.SessionOwner) {
	if !w.gone.Load() {
		w.to.Attached(w.sinceStart(), w.id, s)
	}
}

func (w *memberWitness) SessionClosed(s znode.Session, end znode.SessionEnd) {
	if !w.gone.Load() {
		w.to.Closed(w.sinceStart(), w.id, w.state.Index(), w.state.Zxid(), s, end.Reason == znode.ReasonExpired)
	}
}

func (w *memberWitness) TermStarted(t znode.Term, _ znode.LeaderCause) {
	if w.gone.Load() {
		return
	}
	w.mu.Lock()
	if _, known := w.terms[t.Term]; !known {
		w.terms[t.Term] = leaderTerm{number: t.Term, leader: t.Leader, from: w.sinceStart()}
	}
	w.mu.Unlock()
	if t.Leader == w.id {
		w.to.Leads(w.sinceStart(), t.Term, t.Index, t.Leader)
	}
}

func (w *memberWitness) ServerListChanged(r znode.ServerList) {
	if !w.gone.Load() {
		w.noteList(r)
	}
}

func (w *memberWitness) MemberAnnounced(uint32, uint64, uint64) {}
func (w *memberWitness) TxnApplied(*proto.Txn, *znode.Result)   {}
func (w *memberWitness) TxnDropped(*proto.Txn)                  {}
func (w *memberWitness) QuotaExceeded(znode.ExceededQuota)      {}
func (w *memberWitness) SessionSwept(jute.SessionID, bool)      {}
func (w *memberWitness) NodesRemoved(znode.Removal, []string)   {}
func (w *memberWitness) EntryFinished(uint64)                   {}
func (w *memberWitness) SnapshotRestored()                      {}

// listeningMember records the touches and vouches that a member's connections request.
type listeningMember struct {
	server.Member
	w *memberWitness
}

func (l listeningMember) Touch(id jute.SessionID, timeout time.Duration) {
	l.w.to.Touched(l.w.sinceStart(), l.w.id, id)
	l.Member.Touch(id, timeout)
}

func (l listeningMember) IsVouched(id jute.SessionID) bool {
	ok := l.Member.IsVouched(id)
	l.w.to.Vouched(l.w.sinceStart(), l.w.id, id, 0, ok)
	return ok
}

func (l listeningMember) Vouch(ctx context.Context, id jute.SessionID) error {
	err := l.Member.Vouch(ctx, id)
	l.w.to.Vouched(l.w.sinceStart(), l.w.id, id, 0, err == nil)
	return err
}

// History records the tree of every running member, and returns everything recorded so far. It
// needs Options.Record.
func (e *Ensemble) History() (history.History, error) {
	e.recordConfigurations()
	e.record.endUnpinged()
	for _, id := range e.IDs() {
		if e.Running(id) {
			e.record.to.Snapshot(e.record.sinceStart(), takeSnapshot(id, e.Member(id).State()))
		}
	}
	h, err := e.record.to.History(e.record.sinceStart())
	h.Rates = map[uint32]float64{}
	for id, m := range e.members {
		h.Rates[id] = m.monotonic.Rate()
	}
	return h, err
}

func takeSnapshot(id uint32, s *znode.State) history.Snapshot {
	s.RLock()
	defer s.RUnlock()
	snap := history.Snapshot{Member: id, Index: s.Index(), Zxid: s.Zxid(), Whole: true}
	for paths := []string{"/"}; len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		children, _, _ := s.Children([]byte(path), nil, nil)
		for c := range children.All() {
			if child := path + "/" + c; path != "/" {
				paths = append(paths, child)
			} else if c != "zookeeper" && c != formerRoot {
				paths = append(paths, "/"+c)
			}
		}
		if path != "/" {
			data, st, _ := s.GetData([]byte(path), nil, nil)
			snap.Nodes = append(snap.Nodes, history.Node{
				Path: path, Data: string(bytes.Clone(data)), Owner: jute.SessionID(st.EphemeralOwner),
				Czxid: st.Czxid, Mzxid: st.Mzxid, Version: st.Version,
			})
		}
	}
	snap.Nodes = slices.Clip(snap.Nodes)
	return snap
}
