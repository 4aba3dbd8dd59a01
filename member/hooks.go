package member

import (
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// hooks implements znode.Hooks: apply reports each change to it, and it notifies the
// packages. Everything here runs under the tree's lock and never blocks. The follower
// hears of a session before the server does, so that an answer finds its lease.
type hooks struct{ m *Member }

func (h hooks) TermStarted(t znode.Term) {
	h.m.terms.started(t)
	h.m.applied.quotaWarnings.termStarted()
	h.m.terms.succession.started(t)
	h.m.follower.TermStarted(t)
	h.m.http.LeaderChanged(t.Leader, t.Term, time.UnixMilli(h.m.state.TimeMs()))
	h.m.cfg.Hooks.TermStarted(t)
}

func (h hooks) Announced(member uint32, boot, replaced uint64) {
	if member == h.m.cfg.ID {
		h.m.applied.announced.Store(boot == h.m.incarnation.number)
	}
	h.m.applied.minFormat.Store(h.m.state.MinFormat())
	h.m.follower.Announced(member, boot, replaced)
	h.m.cfg.Hooks.Announced(member, boot, replaced)
}

func (h hooks) Opened(s znode.Session) {
	if t := h.m.terms.table; t != nil {
		t.Open(seed(s), h.m.cfg.Monotonic.Now())
		h.m.applied.sessions.opened.Add(1)
		h.m.events.emit(Event{Kind: EventOpened, Member: s.Owner.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	h.m.follower.Opened(s)
	h.m.http.SessionOpened(s)
	h.m.cfg.Hooks.Opened(s)
}

func (h hooks) Attached(s znode.Session, old znode.Owner) {
	if t := h.m.terms.table; t != nil {
		t.Attach(seed(s), h.m.cfg.Monotonic.Now())
		h.m.applied.sessions.resumed.Add(1)
		h.m.events.emit(Event{Kind: EventMoved, Member: s.Owner.Member, From: old.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	h.m.follower.Attached(s, old)
	h.m.server.Attached(s, old)
	h.m.http.SessionMoved(s, old.Member)
	h.m.cfg.Hooks.Attached(s, old)
}

func (h hooks) Closed(s znode.Session, end znode.End) {
	if h.m.terms.table != nil {
		h.m.terms.closed = append(h.m.terms.closed, s.ID)
		if l := h.m.terms.current.Load(); l != nil { // a term that begins just now looks by itself
			if h.m.state.Unswept() {
				l.RecordUnswept()
			}
			if end.Reason == znode.Expired {
				l.RecordExpired(s.ID)
			}
		}
		h.m.applied.sessions.ended[end.Reason].Add(1)
		h.m.events.emit(endOf(end))
	}
	h.auditEnd(end)
	h.m.follower.Closed(s, end)
	h.m.server.Closed(s, end)
	h.m.http.SessionEnded(s, end)
	h.m.cfg.Hooks.Closed(s, end)
}

func (h hooks) Swept(id jute.SessionID, last bool) {
	if last {
		h.m.server.Swept(id)
	}
	h.m.cfg.Hooks.Swept(id, last)
}

func (h hooks) Removed(of znode.Removal, paths []string) {
	h.auditRemovals(of, paths)
	h.m.cfg.Hooks.Removed(of, paths)
}

func (h hooks) Listed(r znode.Roster) {
	h.m.lists.applied.Store(&r)
	h.m.lists.wake()
	h.m.applied.membersChanged(h.m.state, h.m.cfg.ID, h.m.incarnation.number)
	h.m.follower.Listed(r)
	h.m.cfg.Hooks.Listed(r)
}

func (h hooks) Applied(txn *proto.Txn, r *znode.Result) {
	if txn.GetBoot() == h.m.incarnation.number { // otherwise this member applies its old log once more
		h.m.audit.Applied(h.m.state.TimeMs(), txn, h.m.follower.Identities(txn), r)
	}
	h.m.applied.clientReconfig.applied(txn, r)
	h.m.follower.Applied(txn, r)
	h.m.cfg.Hooks.Applied(txn, r)
}

func (h hooks) Dropped(txn *proto.Txn) {
	h.m.applied.dropped.Add(1)
	h.m.cfg.Hooks.Dropped(txn)
}

func (h hooks) Overused(q znode.Quota) {
	if h.m.terms.table != nil {
		h.m.applied.quotaWarnings.overused(q)
	}
	h.m.cfg.Hooks.Overused(q)
}

func (h hooks) EntryEnd(index uint64) {
	h.m.applied.index.Store(index)
	h.m.terms.removeClosed()
	h.m.follower.EntryEnd(index)
	if h.m.terms.table != nil {
		h.m.applied.quotaWarnings.dataUsed(h.m.state.DataUsed(), int64(h.m.state.Term().DataQuota))
	}
	h.m.cfg.Hooks.EntryEnd(index)
}

func (h hooks) Restored() {
	h.m.lists.applied.Store(nil) // if there is a list, Listed follows
	h.m.applied.index.Store(h.m.state.Index())
	h.m.applied.membersChanged(h.m.state, h.m.cfg.ID, h.m.incarnation.number) // the announcement may be in the snapshot alone
	h.m.follower.Restored()
	h.m.server.Restored()
	h.m.cfg.Hooks.Restored()
}

// deaf is the Config.Hooks of a member without observers.
type deaf struct{}

func (deaf) TermStarted(znode.Term)              {}
func (deaf) Announced(uint32, uint64, uint64)    {}
func (deaf) Opened(znode.Session)                {}
func (deaf) Attached(znode.Session, znode.Owner) {}
func (deaf) Closed(znode.Session, znode.End)     {}
func (deaf) Swept(jute.SessionID, bool)          {}
func (deaf) Removed(znode.Removal, []string)     {}
func (deaf) Listed(znode.Roster)                 {}
func (deaf) Applied(*proto.Txn, *znode.Result)   {}
func (deaf) Dropped(*proto.Txn)                  {}
func (deaf) Overused(znode.Quota)                {}
func (deaf) EntryEnd(uint64)                     {}
func (deaf) Restored()                           {}
