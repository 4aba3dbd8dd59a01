package cli

import (
	"testing"

	"rollcall/operator/api"
)

// PROBLEM says each thing that is wrong once, in the member's own words if it gave a reason.
func TestProblemText(t *testing.T) {
	for _, tt := range []struct {
		member memberRow
		want   string
	}{
		{memberRow{Member: api.Member{Role: "leader"}}, ""},
		{memberRow{silentReason: "connection refused"}, "no answer: connection refused"},
		{memberRow{Member: api.Member{StallReason: "its disk hangs", NotServing: "hangs"}}, "stalled: its disk hangs"},
		{memberRow{Member: api.Member{DamageReason: "it differs", NotServing: "damaged"}}, "damaged: it differs"},
		{memberRow{Member: api.Member{Role: api.RoleReadOnly}}, "read-only: it knows no leader"},
		{memberRow{Member: api.Member{Role: api.RoleReadOnly, NotServing: "read-only: no leader is known"}}, "read-only: no leader is known"},
		{memberRow{Member: api.Member{IsJoining: true}}, "joining: it has no vote yet"},
		{memberRow{Member: api.Member{IsJoining: true, NotServing: "it copies a snapshot"}}, "it copies a snapshot"},
		{memberRow{Member: api.Member{IsJoining: true, WasRemoved: true, NotServing: "removed"}}, "removed from the ensemble: stop it, or add it again"},
		{memberRow{Member: api.Member{Role: "follower", InsecurePorts: "open ports", NoMemory: true}}, "open ports; short of memory: it rejects writes that add data"},
		{memberRow{Member: api.Member{Role: "follower", IsDrained: true}}, "drained: it takes no clients"},
		{memberRow{Member: api.Member{IsDrained: true, NotServing: "it takes no more clients"}}, "it takes no more clients"},
		{memberRow{Member: api.Member{Role: "leader", DataFree: 10_171_187, LogFree: 10_171_187}}, "the disk is nearly full: 9.7 MiB free; a member whose disk is full stops"},
		{memberRow{Member: api.Member{Role: "leader", DataFree: 9 << 30, LogFree: 1<<30 - 1}}, "the disk is nearly full: 9.0 GiB/1.0 GiB free; a member whose disk is full stops"},
		{memberRow{Member: api.Member{Role: "leader", DataFree: 1 << 30, LogFree: 1 << 30}}, ""},
		{memberRow{Member: api.Member{Role: "leader", DataUsed: 79 << 20, DataQuota: 100 << 20}}, ""},
		{memberRow{Member: api.Member{Role: "leader", DataUsed: 80 << 20, DataQuota: 100 << 20}}, "the data quota is nearly used up: 80 MiB of 100 MiB; a write that does not fit is rejected"},
		{memberRow{Member: api.Member{Role: "leader", DataUsed: 100<<20 - 10, DataQuota: 100 << 20}}, "the data quota is used up: 100 MiB of 100 MiB; writes that add data are rejected: delete nodes, or raise dataQuota"},
		{memberRow{Member: api.Member{Role: "leader", DataUsed: 101 << 20, DataQuota: 100 << 20}}, "the data quota is used up: 101 MiB of 100 MiB; writes that add data are rejected: delete nodes, or raise dataQuota"},
	} {
		if got := problemText(tt.member); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.member, got, tt.want)
		}
	}
}
