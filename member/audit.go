package member

import (
	"rollcall/operator/audit"
	"rollcall/znode"
)

// auditsAsLeader reports whether this member leads in the term of the entry that is being applied. What no client has asked
// for is in the leader's audit log alone, and not once more when a member applies its old log again.
func (h hooks) auditsAsLeader() bool { return h.m.auditLog != nil && h.m.terms.sessionTable != nil }

// auditSessionEnd puts the end of a session into the audit log, unless its client asked for it: that is in the log of the
// member that the client asked.
func (h hooks) auditSessionEnd(end znode.SessionEnd) {
	if end.Reason == znode.ReasonClosed || !h.auditsAsLeader() {
		return
	}
	e := audit.Event{AtMs: end.AtMs, Zxid: end.Zxid, Session: end.Session, Address: end.Address, Operation: "expireSession", Timeout: end.Timeout}
	if end.Reason == znode.ReasonKilled {
		e.Operation, e.User = "killSession", end.RequestedBy
	} else {
		e.Reason = "not heard from for " + end.SilentFor.String()
	}
	h.m.auditLog.Add(e)
}

// auditedRemovals says what the audit log calls a removal that no client asked for: the first is ZooKeeper's
// name.
var auditedRemovals = map[znode.RemovalCause]struct{ name, reason string }{
	znode.CauseSessionEnded:   {"ephemeralZNodeDeletionOnSessionCloseOrExpire", "its session ended"},
	znode.CauseTTLExpired:     {"delete", "its time to live is over"},
	znode.CauseEmptyContainer: {"delete", "a container without children"},
}

// auditRemovals puts nodes that no client has deleted into the audit log.
func (h hooks) auditRemovals(of znode.Removal, paths []string) {
	if !h.auditsAsLeader() {
		return
	}
	how := auditedRemovals[of.Cause]
	for _, path := range paths {
		h.m.auditLog.Add(audit.Event{AtMs: of.AtMs, Zxid: of.Zxid, Session: of.Session, Operation: how.name, Path: path, Reason: how.reason})
	}
}
