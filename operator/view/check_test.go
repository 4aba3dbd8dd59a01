package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/operator/api"
	"rollcall/proto"
	"rollcall/zk/jute"
)

// Every field of a reply's row gets its own value: no two are swapped, and none is left out.
func TestRowsKeepTheirFields(t *testing.T) {
	written := timeOf(13)
	sessions, _, err := parseSessionRows(&proto.SessionRows{Rows: []*proto.SessionRow{{Id: 1, Member: 2, Address: []byte("a"), TimeoutMs: 3, CreatedMs: 4, Ephemerals: 5}}}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	removals, _, err := parseRemovalRows(&proto.RemovalRows{Rows: []*proto.RemovalRow{{
		Path: []byte("/p"), RemovedMs: 1, Zxid: 2, Part: 3, Cause: proto.RemovalCause_REMOVAL_CAUSE_TTL, Member: 4, Session: 5, Address: []byte("a"),
	}}}, &proto.ViewRemovals{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	status, err := newFake(t, 1).parseStatus(memberReply{member: 1, sentAt: time.UnixMilli(1000), receivedAt: time.UnixMilli(1000), reply: &proto.ViewReply{About: &proto.ViewReply_Status{Status: &proto.MemberStatus{
		Member: 1, Role: "r", ClientAddress: "c", Term: 2, Leader: 3, Applied: 4, Committed: 5, Zxid: 6, Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11,
		SnapshotIndex: 12, SnapshotMs: 13, Version: "v", StartedMs: 14, ClockMs: 1015, Joining: true, Drained: true, NoMemory: true, Removed: true, Stalled: "s", Damaged: "d",
		Exposed: "x", Operators: "http://127.0.0.1:8080", Disk: 16,
		NotServing: "n", DataFree: 17, LogFree: 18, DataQuota: 19, DataUsed: 20, MemoryLimit: 21, MemoryUsed: 22, WantsVote: true, Leaves: true,
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want any }{
		{sessions[0], session{1, api.Session{ID: "0x1", MemberID: 2, Address: "a", TimeoutMs: 3, CreatedAt: timeOf(4), EphemeralCount: 5}}},
		{removals[0], removal{logPlace{2, 3}, api.Removal{Path: "/p", RemovedAt: timeOf(1), Zxid: "0x2", Cause: CauseTTL, MemberID: 4, SessionID: "0x5", Address: "a"}}},
		{status, memberStatus{diskID: 16, wantsVote: true, leaves: true, Member: api.Member{
			MemberID: 1, Role: "r", ClientAddress: "c", QuorumAddress: "q", ElectionAddress: "e", ConsoleURL: "http://127.0.0.1:8080", Term: 2, LeaderID: 3, AppliedIndex: 4, CommittedIndex: 5, Zxid: "0x6", Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11,
			SnapshotIndex: 12, SnapshotAt: &written, Version: "v", Started: timeOf(14), ClockMs: 15, IsJoining: true, IsDrained: true, NoMemory: true, WasRemoved: true, InsecurePorts: "x", StallReason: "s", DamageReason: "d",
			NotServing: "n", DataFree: 17, LogFree: 18, DataQuota: 19, DataUsed: 20, MemoryLimit: 21, MemoryUsed: 22,
		}}},
		{
			apiConnection(20, &proto.ConnectionRow{
				Number: 1, Address: []byte("a"), Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, TimeoutMs: 6, EstablishedMs: 7, Replies: 8, Op: 4, Xid: 10, Zxid: 11,
				RepliedUs: 12, LastUs: 13, MinUs: 14, AvgUs: 15, MaxUs: 16, ExpiresMs: 17, Tls: "TLSv1.3", Cipher: strings.Repeat("c", 65),
				RecentRequests: 7, RecentBytes: 3001, RecentMs: 1500,
			}),
			api.Connection{
				MemberID: 20, Number: 1, Address: "a", TLS: "TLSv1.3", Cipher: strings.Repeat("c", 64), SessionID: "0x5", TimeoutMs: 6, EstablishedAt: timeOf(7), Received: 3, Sent: 4, QueuedRequests: 2,
				LastOp: jute.Op(4).String(), LastZxid: "0xb", LastUs: 13, MinUs: 14, AvgUs: 15, MaxUs: 16,
				RequestsPerS: 4.667, BytesPerS: 2000,
			},
		},
		{
			apiConnection(1, &proto.ConnectionRow{RecentRequests: 5, RecentBytes: 6, RecentMs: 1}),
			api.Connection{MemberID: 1, LastZxid: "0x0", EstablishedAt: timeOf(0), RequestsPerS: 5, BytesPerS: 6},
		},
		{apiConnection(1, &proto.ConnectionRow{Op: 4, RecentRequests: 5, RecentBytes: 6}), api.Connection{MemberID: 1, LastZxid: "0x0", EstablishedAt: timeOf(0)}},
		{apiWatch(1, &proto.WatchRow{Connection: 1, Session: 2, Path: []byte("/p"), Data: true, Persistent: true}), api.Watch{MemberID: 1, Connection: 1, SessionID: "0x2", Path: "/p", Data: true, Persistent: true}},
		{apiWatch(1, &proto.WatchRow{Children: true, Persistent: true}), api.Watch{MemberID: 1, Children: true, Persistent: true}},
		{apiWatch(1, &proto.WatchRow{Recursive: true}), api.Watch{MemberID: 1, Recursive: true}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%+v, want\n%+v", tt.got, tt.want)
		}
	}
}

// A page of sessions begins where it was asked for, and the next one after it.
func TestSessionPages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rows  []uint64
		next  uint64
		right bool
	}{
		{"the last", []uint64{5, 6}, 0, true},
		{"the first of two", []uint64{5, 6}, 7, true},
		{"from before", []uint64{4}, 0, false},
		{"the same again", []uint64{5}, 5, false},
		{"without an end", []uint64{5, 6}, 6, false},
		{"empty, the last", nil, 0, true},
		{"empty, and one after it", nil, 6, true},
		{"empty, and the same again", nil, 5, false},
		{"empty, and one before it", nil, 4, false},
	} {
		r := &proto.SessionRows{Next: tt.next}
		for _, id := range tt.rows {
			r.Rows = append(r.Rows, &proto.SessionRow{Id: id})
		}
		rows, next, err := parseSessionRows(r, 5, 2)
		if (err == nil) != tt.right || tt.right && (len(rows) != len(tt.rows) || next != tt.next) {
			t.Errorf("%s: %d rows, next %d: %v", tt.name, len(rows), next, err)
		}
	}
}
