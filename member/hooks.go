package member

import (
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// hooks implements znode.Hooks: apply reports each change, and hooks notifies the packages. Its methods run under the
// tree's lock and never block. The follower is notified of a session before the server, so a reply finds its lease.
type hooks struct{ m *Member }

func (h hooks) TermStarted(t znode.Term, why znode.LeaderCause) {
	h.m.terms.termStarted(t, why)
	h.m.viewer.slow.recorder.TermStarted()
	h.m.applyProgress.quotaWarnings.resetReported()
	h.m.terms.transferTargets.recordLeader(t)
	h.m.follower.TermStarted(t, why)
	h.m.adminHTTP.LeaderChanged(t.Leader, t.Term, why, time.UnixMilli(h.m.state.TimeMs()))
	h.reportDifferingRules(t)
	h.m.cfg.Hooks.TermStarted(t, why)
}

func (h hooks) MemberAnnounced(member uint32, boot, replaced uint64) {
	if member == h.m.cfg.ID {
		h.m.applyProgress.announced.Store(boot == h.m.incarnation.number)
		h.reportDifferingRules(h.m.state.Term())
	}
	h.m.applyProgress.minFormat.Store(h.m.state.MinFormat())
	h.m.follower.MemberAnnounced(member, boot, replaced)
	h.m.cfg.Hooks.MemberAnnounced(member, boot, replaced)
}

func (h hooks) SessionOpened(s znode.Session) {
	if t := h.m.terms.sessionTable; t != nil {
		t.AddIfMissing(sessionSeed(s), h.m.cfg.Monotonic.Now())
		h.m.applyProgress.sessionCounters.opened.Add(1)
		h.m.eventQueue.enqueueOrDrop(Event{
			Kind: EventOpened, Member: s.Owner.Member, Session: s.ID, Timeout: s.Timeout,
			Address: s.Address,
		})
	}
	h.m.follower.SessionOpened(s)
	h.m.adminHTTP.SessionOpened(s)
	h.m.cfg.Hooks.SessionOpened(s)
}

func (h hooks) SessionAttached(s znode.Session, old znode.SessionOwner) {
	if t := h.m.terms.sessionTable; t != nil {
		t.AttachSession(sessionSeed(s), h.m.cfg.Monotonic.Now())
		h.m.applyProgress.sessionCounters.resumed.Add(1)
		h.m.eventQueue.enqueueOrDrop(Event{
			Kind: EventMoved, Member: s.Owner.Member, FromMember: old.Member, Session: s.ID,
			Timeout: s.Timeout, Address: s.Address,
		})
	}
	h.m.follower.SessionAttached(s, old)
	h.m.server.SessionAttached(s, old)
	h.m.adminHTTP.SessionMoved(s, old.Member)
	h.m.cfg.Hooks.SessionAttached(s, old)
}

func (h hooks) SessionClosed(s znode.Session, end znode.SessionEnd) {
	if h.m.terms.sessionTable != nil {
		h.m.terms.closedSessions = append(h.m.terms.closedSessions, s.ID)
		if l := h.m.terms.currentLeader.Load(); l != nil { // a new term checks by itself
			if h.m.state.HasUnswept() {
				l.RecordUnswept()
			}
			if end.Reason == znode.ReasonExpired {
				l.RecordExpired(s.ID)
			}
		}
		h.m.applyProgress.sessionCounters.ended[end.Reason].Add(1)
		h.m.eventQueue.enqueueOrDrop(endEvent(end))
	}
	h.auditSessionEnd(end)
	h.m.follower.SessionClosed(s, end)
	h.m.server.SessionClosed(s, end)
	h.m.adminHTTP.SessionEnded(s, end)
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
	h.m.serverLists.appliedList.Store(&r)
	h.m.serverLists.wakeListLoop()
	h.m.applyProgress.updateFromAnnouncements(h.m.state, h.m.cfg.ID, h.m.incarnation.number)
	h.m.follower.ServerListChanged(r)
	h.m.cfg.Hooks.ServerListChanged(r)
}

func (h hooks) TxnApplied(txn *proto.Txn, r *znode.Result) {
	if txn.GetIncarnation() == h.m.incarnation.number { // otherwise this member replays its log
		h.m.auditLog.AddApplied(h.m.state.TimeMs(), txn, h.m.follower.Identities(txn), r)
	}
	h.m.applyProgress.clientReconfig.recordReachedServers(txn, r)
	h.m.follower.TxnApplied(txn, r)
	h.m.cfg.Hooks.TxnApplied(txn, r)
}

func (h hooks) TxnDropped(txn *proto.Txn) {
	h.m.applyProgress.droppedTxns.Add(1)
	h.m.cfg.Hooks.TxnDropped(txn)
}

func (h hooks) QuotaExceeded(q znode.ExceededQuota) {
	if h.m.terms.sessionTable != nil {
		h.m.applyProgress.quotaWarnings.reportOveruse(q)
	}
	h.m.cfg.Hooks.QuotaExceeded(q)
}

func (h hooks) EntryFinished(index uint64) {
	h.m.applyProgress.lastIndex.Store(index)
	h.m.terms.removeClosedSessions()
	h.m.follower.EntryFinished(index)
	if h.m.terms.sessionTable != nil {
		h.m.applyProgress.quotaWarnings.reportQuotaShare(h.m.state.DataUsed(), int64(h.m.state.Term().DataQuota))
		h.m.applyProgress.quotaWarnings.reportNames(h.m.state.MostCreated(), h.m.state.Term().LongNames)
	}
	h.m.cfg.Hooks.EntryFinished(index)
}

func (h hooks) SnapshotRestored() {
	h.m.serverLists.appliedList.Store(nil) // if there is a list, ServerListChanged follows
	h.m.applyProgress.lastIndex.Store(h.m.state.Index())
	// the announcement may be in the snapshot alone
	h.m.applyProgress.updateFromAnnouncements(h.m.state, h.m.cfg.ID, h.m.incarnation.number)
	h.m.follower.SnapshotRestored()
	h.m.server.StateRestored()
	h.m.cfg.Hooks.SnapshotRestored()
}

// noHooks is the default of Config.Hooks.
type noHooks struct{}

func (noHooks) TermStarted(znode.Term, znode.LeaderCause)         {}
func (noHooks) MemberAnnounced(uint32, uint64, uint64)            {}
func (noHooks) SessionOpened(znode.Session)                       {}
func (noHooks) SessionAttached(znode.Session, znode.SessionOwner) {}
func (noHooks) SessionClosed(znode.Session, znode.SessionEnd)     {}
func (noHooks) SessionSwept(jute.SessionID, bool)                 {}
func (noHooks) NodesRemoved(znode.Removal, []string)              {}
func (noHooks) ServerListChanged(znode.ServerList)                {}
func (noHooks) TxnApplied(*proto.Txn, *znode.Result)              {}
func (noHooks) TxnDropped(*proto.Txn)                             {}
func (noHooks) QuotaExceeded(znode.ExceededQuota)                 {}
func (noHooks) EntryFinished(uint64)                              {}
func (noHooks) SnapshotRestored()                                 {}
