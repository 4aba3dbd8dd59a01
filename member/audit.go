package member

import (
	"rollcall/operator/audit"
	"rollcall/znode"
)

// auditsAsLeader reports whether this member leads in the term of the entry being applied. The leader's audit
// log records changes without a client. A member that replays its log does not record them again.
func (h hooks) auditsAsLeader() bool { return h.m.auditLog != nil && h.m.terms.sessionTable != nil }

// auditSessionEnd records the end of a session, unless its client closed it: the member that served the client records
// that.
func (h hooks) auditSessionEnd(end znode.SessionEnd) {
	if end.Reason == znode.ReasonClosed || !h.auditsAsLeader() {
		return
	}
	e := audit.Event{
		AtMs: end.AtMs, Zxid: end.Zxid, Session: end.Session, Address: end.Address,
		Operation: "expireSession", Timeout: end.Timeout,
	}
	if end.Reason == znode.ReasonKilled {
		e.Operation, e.User = "killSession", end.RequestedBy
	} else {
		e.Reason = "not heard from for " + end.SilentFor.String()
	}
	h.m.auditLog.Add(e)
}

// auditedRemovals has the operation and the reason of a removal without a client. The first operation is ZooKeeper's.
var auditedRemovals = map[znode.RemovalCause]struct{ name, reason string }{
	znode.CauseSessionEnded:   {"ephemeralZNodeDeletionOnSessionCloseOrExpire", "its session ended"},
	znode.CauseTTLExpired:     {"delete", "its time to live is over"},
	znode.CauseEmptyContainer: {"delete", "a container without children"},
}

// auditRemovals records the removal of nodes that no client has deleted.
func (h hooks) auditRemovals(of znode.Removal, paths []string) {
	if !h.auditsAsLeader() {
		return
	}
	how := auditedRemovals[of.Cause]
	for _, path := range paths {
		h.m.auditLog.Add(audit.Event{
			AtMs: of.AtMs, Zxid: of.Zxid, Session: of.Session, Operation: how.name, Path: path,
			Reason: how.reason,
		})
	}
}
