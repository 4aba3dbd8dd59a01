package member

import (
	"rollcall/jute"
	"rollcall/proto"
	"rollcall/znode"
)

// observer implements znode.Observer: apply tells it what changed, and it tells the
// rooms. Everything here runs under the tree's lock and blocks nowhere. The follower
// hears of a session before the server does, so that an answer finds its lease.
type observer struct{ m *Member }

func (o observer) TermStarted(t znode.Term) {
	o.m.terms.started(t)
	o.m.succession.started(t)
	o.m.follower.TermStarted(t)
	o.m.cfg.Observer.TermStarted(t)
}

func (o observer) Announced(member uint32, boot, replaced uint64) {
	if member == o.m.cfg.ID {
		o.m.announced.Store(boot == o.m.boot)
	}
	o.m.minFormat.Store(o.m.state.MinFormat())
	o.m.follower.Announced(member, boot, replaced)
	o.m.cfg.Observer.Announced(member, boot, replaced)
}

func (o observer) Opened(s znode.Session) {
	if t := o.m.terms.table; t != nil {
		t.Open(seed(s), now())
		o.m.emit(Event{Kind: EventOpened, Member: s.Owner.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	o.m.follower.Opened(s)
	o.m.cfg.Observer.Opened(s)
}

func (o observer) Attached(s znode.Session, old znode.Owner) {
	if t := o.m.terms.table; t != nil {
		t.Attach(seed(s), now())
		o.m.emit(Event{Kind: EventMoved, Member: s.Owner.Member, From: old.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	o.m.follower.Attached(s, old)
	o.m.server.Attached(s, old)
	o.m.cfg.Observer.Attached(s, old)
}

func (o observer) Closed(s znode.Session, end znode.Ending) {
	o.m.deaths.add(death(o.m.state, s, end))
	if o.m.terms.table != nil {
		o.m.terms.closed = append(o.m.terms.closed, s.ID)
		if l := o.m.terms.current.Load(); l != nil && end.Later {
			l.Unswept() // a term that begins just now looks by itself
		}
		kind := EventClosed
		if end.Expired {
			kind = EventExpired
			if l := o.m.terms.current.Load(); l != nil {
				l.Expired(s.ID)
			}
		}
		o.m.emit(Event{Kind: kind, Member: s.Owner.Member, Session: s.ID, Address: s.Address, Ephemerals: end.Ephemerals, Silent: end.Silent})
	}
	o.m.follower.Closed(s, end)
	o.m.server.Closed(s, end)
	o.m.cfg.Observer.Closed(s, end)
}

func (o observer) Swept(id jute.SessionID, last bool) {
	if last {
		o.m.server.Swept(id)
	}
	o.m.cfg.Observer.Swept(id, last)
}

func (o observer) Applied(txn *proto.Txn, r *znode.Result) {
	o.m.follower.Applied(txn, r)
	o.m.cfg.Observer.Applied(txn, r)
}

func (o observer) Dropped(txn *proto.Txn) {
	o.m.dropped.Add(1)
	o.m.cfg.Observer.Dropped(txn)
}

func (o observer) Overused(q znode.Quota) {
	if o.m.terms.table != nil {
		o.m.quotas.report(o.m, q)
	}
	o.m.cfg.Observer.Overused(q)
}

func (o observer) EntryEnd(index uint64) {
	o.m.applied.Store(index)
	o.m.terms.removeClosed()
	o.m.follower.EntryEnd(index)
	o.m.cfg.Observer.EntryEnd(index)
}

func (o observer) Restored() {
	o.m.applied.Store(o.m.state.Index())
	boot, _ := o.m.state.Boot(o.m.cfg.ID)
	o.m.minFormat.Store(o.m.state.MinFormat())
	o.m.announced.Store(boot == o.m.boot) // the announcement may be in the snapshot alone
	o.m.follower.Restored()
	o.m.server.Restored()
	o.m.cfg.Observer.Restored()
}

// deaf is the Config.Observer of a member that nobody else observes.
type deaf struct{}

func (deaf) TermStarted(znode.Term)              {}
func (deaf) Announced(uint32, uint64, uint64)    {}
func (deaf) Opened(znode.Session)                {}
func (deaf) Attached(znode.Session, znode.Owner) {}
func (deaf) Closed(znode.Session, znode.Ending)  {}
func (deaf) Swept(jute.SessionID, bool)          {}
func (deaf) Applied(*proto.Txn, *znode.Result)   {}
func (deaf) Dropped(*proto.Txn)                  {}
func (deaf) Overused(znode.Quota)                {}
func (deaf) EntryEnd(uint64)                     {}
func (deaf) Restored()                           {}
