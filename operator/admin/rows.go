package admin

import (
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/znode"
)

// apiEnd returns the end of a session as it is sent.
func apiEnd(e znode.SessionEnd) api.End {
	return api.End{
		ID: e.Session.String(), State: "ended", EndedAt: utcMillis(e.EndedAt()), Reason: e.Reason.String(), EndedBy: e.RequestedBy, Address: e.Address,
		MemberID: e.Member, LeaderID: e.Leader, Term: e.Term, Zxid: view.ZxidText(e.Zxid), SilentMs: e.SilentFor.Milliseconds(),
		TimeoutMs: e.Timeout.Milliseconds(), EphemeralCount: e.EphemeralCount, Number: e.Number,
	}
}

// utcMillis returns a time in UTC, in milliseconds.
func utcMillis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
