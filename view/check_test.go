package view

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/tally"
)

// Every field of a reply's row gets its own value: no two are swapped, and none is left out.
func TestRowsKeepTheirFields(t *testing.T) {
	at, ms, us := time.UnixMilli, time.Millisecond, time.Microsecond
	sessions, _, err := sessionRows(&proto.SessionRows{Rows: []*proto.SessionRow{{Id: 1, Member: 2, Address: []byte("a"), TimeoutMs: 3, CreatedMs: 4, Ephemerals: 5}}}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	removals, _, err := removalRows(&proto.RemovalRows{Rows: []*proto.RemovalRow{{
		Path: []byte("/p"), RemovedMs: 1, Zxid: 2, Part: 3, Cause: proto.RemovalCause_REMOVAL_CAUSE_TTL, Member: 4, Session: 5, Address: []byte("a"),
	}}}, &proto.ViewRemovals{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	status, err := newFake(t, 1).status(answer{member: 1, asked: at(1000), came: at(1000), reply: &proto.ViewReply{About: &proto.ViewReply_Status{Status: &proto.MemberStatus{
		Member: 1, Role: "r", ClientAddress: "c", Term: 2, Leader: 3, Applied: 4, Committed: 5, Zxid: 6, Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11,
		SnapshotIndex: 12, SnapshotMs: 13, Version: "v", StartedMs: 14, ClockMs: 1015, Joining: true, Drained: true, NoMemory: true, Removed: true, Stalled: "s", Damaged: "d",
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ got, want any }{
		{sessions[0], Session{ID: 1, Member: 2, Address: "a", Timeout: 3 * ms, Created: at(4), Ephemerals: 5}},
		{removals[0], Removal{Path: "/p", Removed: at(1), Zxid: 2, Part: 3, Cause: TimeOver, Member: 4, Session: 5, Address: "a"}},
		{status, Status{
			Member: 1, Role: "r", Clients: "c", Quorum: "q", Election: "e", Term: 2, Leader: 3, Applied: 4, Committed: 5, Zxid: 6, Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11,
			SnapshotIndex: 12, SnapshotAt: at(13), Version: "v", Started: at(14), ClockAhead: 15 * ms, Joining: true, Drained: true, NoMemory: true, Removed: true, Stalled: "s", Damaged: "d",
		}},
		{
			*connection(&proto.ConnectionRow{
				Number: 1, Address: []byte("a"), Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, TimeoutMs: 6, EstablishedMs: 7, Replies: 8, Op: 9, Xid: 10, Zxid: 11,
				RepliedUs: 12, LastUs: 13, MinUs: 14, AvgUs: 15, MaxUs: 16, ExpiresMs: 17, Tls: "TLSv1.3", Cipher: strings.Repeat("c", 65),
			}),
			tally.Connection{
				Number: 1, Addr: "a", Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, Timeout: 6 * ms, Established: at(7), Replies: 8, Op: jute.Op(9), Xid: 10, Zxid: 11,
				Replied: 12 * us, LastLatency: 13 * us, MinLatency: 14 * us, AvgLatency: 15 * us, MaxLatency: 16 * us, Expires: at(17), TLS: "TLSv1.3", Cipher: strings.Repeat("c", 64),
			},
		},
		{*connection(&proto.ConnectionRow{Reading: true}), tally.Connection{Reading: true, Established: at(0), Expires: at(0)}},
		{watch(&proto.WatchRow{Connection: 1, Session: 2, Path: []byte("/p"), Data: true, Persistent: true}), tally.Watch{Connection: 1, Session: 2, Path: "/p", Data: true, Persistent: true}},
		{watch(&proto.WatchRow{Children: true, Persistent: true}), tally.Watch{Children: true, Persistent: true}},
		{watch(&proto.WatchRow{Recursive: true}), tally.Watch{Recursive: true}},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%+v, want\n%+v", tt.got, tt.want)
		}
	}
}
