package stateview

import (
	"testing"
	"time"

	"rollcall/operator/api"
	"rollcall/znode"
)

// Every key of an end gets its own field: no two are swapped, and none is left out.
func TestEndKeepsItsFields(t *testing.T) {
	got := EndRow(znode.SessionEnd{
		Session: 1, Reason: znode.ReasonExpired, RequestedBy: "b", Address: "a", Member: 2, Leader: 3, Term: 4, AtMs: 5, Zxid: 6, SilentFor: 7 * time.Millisecond, Timeout: 8 * time.Millisecond, EphemeralCount: 9, Number: 10,
	})
	want := api.End{
		ID: "0x1", State: "ended", Reason: "expired", EndedBy: "b", Address: "a", MemberID: 2, LeaderID: 3, Term: 4, EndedAt: time.UnixMilli(5).UTC(), Zxid: "0x6", SilentMs: 7, TimeoutMs: 8, EphemeralCount: 9, Number: 10,
	}
	if got != want {
		t.Errorf("%+v, want\n%+v", got, want)
	}
}
