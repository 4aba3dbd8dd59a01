package view

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
)

// A member lags behind what the leader knows to be committed, and its clock is compared with that of the
// member that asks.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, 3)
		honest := f.peers[3].answer
		f.peers[3].answer = func(ctx context.Context, r *proto.ViewRequest) (*proto.ViewReply, error) {
			time.Sleep(100 * time.Millisecond)
			reply, err := honest(ctx, r)
			time.Sleep(100 * time.Millisecond)
			s := reply.GetStatus()
			s.ClockMs += 7000
			s.SnapshotIndex, s.SnapshotMs, s.Damaged = 5, 1000, "it differs"
			return reply, err
		}
		a, err := f.MemberStatuses(t.Context())
		if err != nil || len(a.Items) != 3 {
			t.Fatalf("%+v, %v", a, err)
		}
		third := a.Items[2]
		if third.Lag == nil || *third.Lag != 102-97 || third.ClockMs != 7000 || third.QuorumAddress != "q" || third.ElectionAddress != "e" {
			t.Errorf("%+v, want a lag of 5 entries and a clock 7 s ahead", third)
		}
		if third.SnapshotIndex != 5 || !third.SnapshotAt.Equal(time.UnixMilli(1000)) || third.DigestVerdict != DigestDiffers || a.Items[0].SnapshotAt != nil {
			t.Errorf("%+v", third)
		}
		f.leader = 9
		if a, err = f.MemberStatuses(t.Context()); err != nil || a.Items[0].Lag != nil {
			t.Errorf("without a leader: %+v, %v", a.Items[0], err)
		}
	})
}

// A member's state agrees if it is that of more than half of those that have marked the same index.
func TestCompareMarks(t *testing.T) {
	marks := func(version uint32, pairs ...uint64) *proto.StateHashes {
		m := &proto.StateHashes{Version: version}
		for i := 0; i < len(pairs); i += 2 {
			m.Indexes, m.Digests = append(m.Indexes, pairs[i]), append(m.Digests, pairs[i+1])
		}
		return m
	}
	type want struct {
		verdict string
		index   uint64
	}
	tests := []struct {
		name    string
		members int
		marks   []*proto.StateHashes
		want    []want
	}{
		{"all agree", 3, []*proto.StateHashes{marks(1, 1, 5, 2, 6), marks(1, 1, 5, 2, 6), marks(1, 1, 5)}, []want{{DigestAgrees, 2}, {DigestAgrees, 2}, {DigestAgrees, 1}}},
		{"one differs", 3, []*proto.StateHashes{marks(1, 1, 5, 2, 6), marks(1, 1, 5, 2, 6), marks(1, 1, 5, 2, 7)}, []want{{DigestAgrees, 2}, {DigestAgrees, 2}, {DigestDiffers, 2}}},
		{"it differed, and was replaced", 3, []*proto.StateHashes{marks(1, 1, 5, 2, 6), marks(1, 1, 5, 2, 6), marks(1, 1, 7, 2, 6)}, []want{{DigestAgrees, 2}, {DigestAgrees, 2}, {DigestAgrees, 2}}},
		{"one against one", 3, []*proto.StateHashes{marks(1, 1, 5), marks(1, 1, 6), nil}, []want{{DigestDiffers, 1}, {DigestDiffers, 1}, {DigestUnknown, 0}}},
		{"nobody else has its mark", 3, []*proto.StateHashes{marks(1, 1, 5, 2, 6), marks(1, 1, 5), nil}, []want{{DigestAgrees, 1}, {DigestAgrees, 1}, {DigestUnknown, 0}}},
		{"another version", 3, []*proto.StateHashes{marks(1, 1, 5), marks(1, 1, 5), marks(2, 1, 5)}, []want{{DigestAgrees, 1}, {DigestAgrees, 1}, {DigestUnknown, 0}}},
		{"alone", 1, []*proto.StateHashes{marks(1, 1, 5, 2, 6)}, []want{{DigestAgrees, 2}}},
		{"descending", 3, []*proto.StateHashes{marks(1, 2, 6, 1, 5), marks(1, 1, 5, 2, 6)}, []want{{DigestAgrees, 2}, {DigestAgrees, 2}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var rows []memberStatus
			byMember := map[uint32]*proto.StateHashes{}
			for i, m := range tt.marks {
				rows = append(rows, memberStatus{Member: api.Member{MemberID: uint32(i + 1)}})
				byMember[uint32(i+1)] = m
			}
			compareMarks(rows, byMember, tt.members)
			for i, w := range tt.want {
				if got := (want{rows[i].DigestVerdict, rows[i].DigestIndex}); got != w {
					t.Errorf("member %d: %v at %d, want %v at %d", i+1, got.verdict, got.index, w.verdict, w.index)
				}
			}
		})
	}
}

// The console of a member that listens on all addresses is at the host where the other members reach it. What is no address of a
// console is refused, because a browser would follow it.
func TestConsoleURL(t *testing.T) {
	for _, tt := range []struct{ listens, quorum, want, fails string }{
		{"", "zoo1:2888", "", ""},
		{"http://127.0.0.1:8080", "zoo1:2888", "http://127.0.0.1:8080", ""},
		{"https://10.0.0.7:8080", "zoo1:2888", "https://10.0.0.7:8080", ""},
		{"http://0.0.0.0:8081", "zoo1:2888", "http://zoo1:8081", ""},
		{"https://[::]:8081", "[fd00::7]:2888", "https://[fd00::7]:8081", ""},
		{"http://[::]:8081", "", "http://[::]:8081", ""}, // a standalone member has no other host
		{"javascript:alert(1)", "zoo1:2888", "", "no URL with an address alone"},
		{"ftp://10.0.0.7:8080", "zoo1:2888", "", "no URL with an address alone"},
		{"http://10.0.0.7:8080/x", "zoo1:2888", "", "no URL with an address alone"},
		{"http://me@10.0.0.7:8080", "zoo1:2888", "", "no URL with an address alone"},
		{"http://example.com:8080", "zoo1:2888", "", "no address and port"},
		{"http://10.0.0.7", "zoo1:2888", "", "no address and port"},
	} {
		got, err := consoleURL(tt.listens, tt.quorum)
		if got != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%q at %q: %q, %v, want %q, %q", tt.listens, tt.quorum, got, err, tt.want, tt.fails)
		}
	}
}
