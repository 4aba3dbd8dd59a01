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

func (h hooks) MemberAnnounced(member uint32, boot, replaced uint64) {
	if member == h.m.cfg.ID {
		h.m.applied.announced.Store(boot == h.m.incarnation.number)
	}
	h.m.applied.minFormat.Store(h.m.state.MinFormat())
	h.m.follower.MemberAnnounced(member, boot, replaced)
	h.m.cfg.Hooks.MemberAnnounced(member, boot, replaced)
}

func (h hooks) SessionOpened(s znode.Session) {
	if t := h.m.terms.table; t != nil {
		t.AddSession(seed(s), h.m.cfg.Monotonic.Now())
		h.m.applied.sessions.opened.Add(1)
		h.m.events.emit(Event{Kind: EventOpened, Member: s.Owner.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	h.m.follower.SessionOpened(s)
	h.m.http.SessionOpened(s)
	h.m.cfg.Hooks.SessionOpened(s)
}

func (h hooks) SessionAttached(s znode.Session, old znode.SessionOwner) {
	if t := h.m.terms.table; t != nil {
		t.AttachSession(seed(s), h.m.cfg.Monotonic.Now())
		h.m.applied.sessions.resumed.Add(1)
		h.m.events.emit(Event{Kind: EventMoved, Member: s.Owner.Member, From: old.Member, Session: s.ID, Timeout: s.Timeout, Address: s.Address})
	}
	h.m.follower.SessionAttached(s, old)
	h.m.server.SessionAttached(s, old)
	h.m.http.SessionMoved(s, old.Member)
	h.m.cfg.Hooks.SessionAttached(s, old)
}

func (h hooks) SessionClosed(s znode.Session, end znode.SessionEnd) {
	if h.m.terms.table != nil {
		h.m.terms.closed = append(h.m.terms.closed, s.ID)
		if l := h.m.terms.current.Load(); l != nil { // a term that begins just now looks by itself
			if h.m.state.HasUnswept() {
				l.RecordUnswept()
			}
			if end.Reason == znode.ReasonExpired {
				l.RecordExpired(s.ID)
			}
		}
		h.m.applied.sessions.ended[end.Reason].Add(1)
		h.m.events.emit(endOf(end))
	}
	h.auditEnd(end)
	h.m.follower.SessionClosed(s, end)
	h.m.server.SessionClosed(s, end)
	h.m.http.SessionEnded(s, end)
	h.m.cfg.Hooks.SessionClosed(s, end)
}

func (h hooks) SessionSwept(id jute.SessionID, last bool) {
	if last {
		h.m.server.SessionSwept(id)
	}
	h.m.cfg.Hooks.SessionSwept(id, last)
}

func (h hooks) NodesRemoved(of znode.Removal, paths []string) {
	h.auditRemovals(of, paths)
	h.m.cfg.Hooks.NodesRemoved(of, paths)
}

func (h hooks) ServerListChanged(r znode.ServerList) {
	h.m.lists.applied.Store(&r)
	h.m.lists.wake()
	h.m.applied.membersChanged(h.m.state, h.m.cfg.ID, h.m.incarnation.number)
	h.m.follower.ServerListChanged(r)
	h.m.cfg.Hooks.ServerListChanged(r)
}

func (h hooks) TxnApplied(txn *proto.Txn, r *znode.Result) {
	if txn.GetBoot() == h.m.incarnation.number { // otherwise this member applies its old log once more
		h.m.audit.Applied(h.m.state.TimeMs(), txn, h.m.follower.Identities(txn), r)
	}
	h.m.applied.clientReconfig.applied(txn, r)
	h.m.follower.TxnApplied(txn, r)
	h.m.cfg.Hooks.TxnApplied(txn, r)
}

func (h hooks) TxnDropped(txn *proto.Txn) {
	h.m.applied.dropped.Add(1)
	h.m.cfg.Hooks.TxnDropped(txn)
}

func (h hooks) QuotaExceeded(q znode.ExceededQuota) {
	if h.m.terms.table != nil {
		h.m.applied.quotaWarnings.overused(q)
	}
	h.m.cfg.Hooks.QuotaExceeded(q)
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

func (h hooks) SnapshotRestored() {
	h.m.lists.applied.Store(nil) // if there is a list, Listed follows
	h.m.applied.index.Store(h.m.state.Index())
	h.m.applied.membersChanged(h.m.state, h.m.cfg.ID, h.m.incarnation.number) // the announcement may be in the snapshot alone
	h.m.follower.SnapshotRestored()
	h.m.server.StateRestored()
	h.m.cfg.Hooks.SnapshotRestored()
}

// deaf is the Config.Hooks of a member without observers.
type deaf struct{}

func (deaf) TermStarted(znode.Term)                            {}
func (deaf) MemberAnnounced(uint32, uint64, uint64)            {}
func (deaf) SessionOpened(znode.Session)                       {}
func (deaf) SessionAttached(znode.Session, znode.SessionOwner) {}
func (deaf) SessionClosed(znode.Session, znode.SessionEnd)     {}
func (deaf) SessionSwept(jute.SessionID, bool)                 {}
func (deaf) NodesRemoved(znode.Removal, []string)              {}
func (deaf) ServerListChanged(znode.ServerList)                {}
func (deaf) TxnApplied(*proto.Txn, *znode.Result)              {}
func (deaf) TxnDropped(*proto.Txn)                             {}
func (deaf) QuotaExceeded(znode.ExceededQuota)                 {}
func (deaf) EntryEnd(uint64)                                   {}
func (deaf) SnapshotRestored()                                 {}
