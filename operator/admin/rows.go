package admin

import (
	"time"

	"rollcall/operator/api"
	"rollcall/operator/view"
	"rollcall/znode"
)

// endRow returns the end of a session as it is sent.
func endRow(e znode.SessionEnd) api.End {
	return api.End{
		ID: e.Session.String(), State: "ended", Ended: utcMillis(e.EndedAt()), Reason: e.Reason.String(), By: e.RequestedBy, Address: e.Address,
		Member: e.Member, Leader: e.Leader, Term: e.Term, Zxid: view.ZxidText(e.Zxid), SilentMs: e.SilentFor.Milliseconds(),
		TimeoutMs: e.Timeout.Milliseconds(), Ephemerals: e.EphemeralCount, Number: e.Number,
	}
}

// utcMillis returns a time in UTC, in milliseconds.
func utcMillis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }
