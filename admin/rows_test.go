package admin

import (
	"reflect"
	"testing"
	"time"

	"rollcall/api"
	"rollcall/tally"
	"rollcall/view"
	"rollcall/znode"
)

// Every key of an answer gets its own field: no two are swapped, and none is left out.
func TestRowsKeepTheirFields(t *testing.T) {
	when := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	ms, us := time.Millisecond, time.Microsecond
	lag, written, left, heard := uint64(1), when(2), int64(8), int64(9)
	conn := tally.Connection{
		Number: 1, Addr: "a", TLS: "TLSv1.2", Cipher: "c", Queued: 2, Received: 3, Sent: 4, Session: 5, Timeout: 6 * ms, Established: when(7), Replies: 8, Op: 4, Zxid: 9,
		LastLatency: 10 * us, MinLatency: 11 * us, AvgLatency: 12 * us, MaxLatency: 13 * us,
	}
	shown := api.Connection{
		Member: 20, Number: 1, Address: "a", TLS: "TLSv1.2", Cipher: "c", Session: "0x5", TimeoutMs: 6, Established: when(7), Received: 3, Sent: 4, Queued: 2, LastZxid: "0x9", LastOp: conn.Op.String(),
		LastUs: 10, MinUs: 11, AvgUs: 12, MaxUs: 13,
	}
	for _, tt := range []struct{ got, want any }{
		{
			memberRow(view.Status{
				Member: 1, Clients: "c", Quorum: "q", Election: "e", Console: "h", Role: "r", Term: 2, Leader: 3, Applied: 4, Committed: 5, Zxid: 6, Lag: lag, LagKnown: true,
				Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11, SnapshotIndex: 12, SnapshotAt: written, Digest: view.Agrees, DigestIndex: 13,
				Version: "v", Started: when(14), ClockAhead: 15 * ms, Joining: true, Drained: true, NoMemory: true, Removed: true, Exposed: "e", Stalled: "s", Damaged: "d",
			}),
			api.Member{
				Member: 1, Clients: "c", Quorum: "q", Election: "e", Console: "h", Role: "r", Term: 2, Leader: 3, Applied: 4, Committed: 5, Zxid: "0x6", Lag: &lag,
				Sessions: 7, Connections: 8, Watches: 9, DataBytes: 10, LogBytes: 11, Snapshot: 12, SnapshotAt: &written, Digest: "agrees", DigestIndex: 13,
				Version: "v", Started: when(14), ClockMs: 15, Joining: true, Drained: true, NoMemory: true, Removed: true, Exposed: "e", Stalled: "s", Damaged: "d",
			},
		},
		{
			sessionRow(view.Session{
				ID: 5, State: view.Connected, Member: 20, Address: "b", Timeout: 3 * ms, Created: when(4), Ephemerals: 6, Watches: 7, Timed: true, Left: 8 * ms, Heard: 9 * ms, Connection: &conn,
			}),
			api.Session{ID: "0x5", State: "connected", Member: 20, Address: "b", TimeoutMs: 3, Created: when(4), Ephemerals: 6, Watches: 7, LeftMs: &left, HeardMs: &heard, Connection: &shown},
		},
		{connectionRow(view.Connection{Member: 20, Connection: conn}), shown},
		{watchRow(view.Watch{Member: 1, Watch: tally.Watch{Connection: 2, Session: 3, Path: "/p", Data: true}}), api.Watch{Member: 1, Connection: 2, Session: "0x3", Path: "/p", Data: true}},
		{watchRow(view.Watch{Watch: tally.Watch{Children: true, Persistent: true}}), api.Watch{Children: true, Persistent: true}},
		{watchRow(view.Watch{Watch: tally.Watch{Persistent: true, Recursive: true}}), api.Watch{Persistent: true, Recursive: true}},
		{
			endRow(znode.End{
				Session: 1, Reason: znode.Expired, By: "b", Address: "a", Member: 2, Leader: 3, Term: 4, AtMs: 5, Zxid: 6, Silent: 7 * ms, Timeout: 8 * ms, Ephemerals: 9, Number: 10,
			}),
			api.End{
				ID: "0x1", State: "ended", Reason: "expired", By: "b", Address: "a", Member: 2, Leader: 3, Term: 4, Ended: when(5), Zxid: "0x6", SilentMs: 7, TimeoutMs: 8, Ephemerals: 9, Number: 10,
			},
		},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%+v, want\n%+v", tt.got, tt.want)
		}
	}
}
