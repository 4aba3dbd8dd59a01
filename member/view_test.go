package member

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/operator/clients"
	"rollcall/operator/view"
	"rollcall/proto"
)

// talker answers with a text of so many bytes.
type talker struct {
	proto.UnimplementedFollowerServer
	size int
}

func (s talker) View(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
	return &proto.ViewReply{About: &proto.ViewReply_Status{Status: &proto.MemberStatus{Version: strings.Repeat("x", s.size)}}}, nil
}

// What gRPC says of a member that cannot answer becomes the reason that an operator sees.
func TestViewPeer(t *testing.T) {
	full := viewer{m: &Member{}, viewSlots: make(chan struct{})}
	tests := []struct {
		name   string
		server proto.FollowerServer
		want   error
	}{
		{"too many questions", services{m: &Member{viewer: full}}, view.ErrBusy},
		{"a long reply", talker{size: view.MaxReply + 1}, view.ErrTooLong},
		{"a reply of most bytes", talker{size: view.MaxReply - 100}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoopback(2)
			srv := grpc.NewServer()
			proto.RegisterFollowerServer(srv, tt.server)
			go func() { _ = srv.Serve(l) }() // it ends with Stop
			defer srv.Stop()
			p := newPeerConns(time.Second, func(ctx context.Context, _ uint32) (net.Conn, error) { return l.dial(ctx) })
			defer p.closeAll()
			_, err := remoteView(p, 2).View(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Status{}})
			if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	t.Run("too many questions of its own", func(t *testing.T) {
		if _, err := viewPeer(full.View).View(t.Context(), &proto.ViewRequest{}); !errors.Is(err, view.ErrBusy) {
			t.Errorf("%v, want %v", err, view.ErrBusy)
		}
	})
	t.Run("down", func(t *testing.T) {
		p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) { return nil, io.ErrUnexpectedEOF })
		defer p.closeAll()
		_, err := remoteView(p, 2).View(t.Context(), &proto.ViewRequest{})
		if err == nil || err.Error() != io.ErrUnexpectedEOF.Error() {
			t.Errorf("%v, want why it cannot be reached, in no other words", err)
		}
	})
}

// An answer looks at connections part by part, of one size however few are wanted. It ends at the connection that
// finds it full, and the next answer begins there, so that all answers together have each connection once.
func TestSomeConnections(t *testing.T) {
	const all, every = 10 * connectionsPerBatch, 3
	asked := 0
	from := func(_ context.Context, part []clients.Connection, first uint64) (_ []clients.Connection, next uint64) {
		asked++
		for n := max(first, 1); n <= all; n++ {
			if len(part) == cap(part) {
				return part, n
			}
			part = append(part, clients.Connection{Number: n, RemoteAddr: fmt.Sprintf("10.0.0.%d:1", n%every)})
		}
		return part, 0
	}
	answer := func(ctx context.Context, address string, limit int, first uint64) *proto.ConnectionRows {
		r := &proto.ConnectionRows{Next: first}
		appendConnections(ctx, from, view.NewClientFilter(address), limit, r)
		return r
	}
	for _, tt := range []struct{ limit, most int }{
		{1, 2}, {2, 2}, {every, 2}, {connectionsPerBatch, 5}, {2 * all, 10}, // an answer that its last row fills may look for another one
	} {
		for address, want := range map[string]int{"": all, "10.0.0.1": (all + every - 1) / every, "10.0.0.1:1": (all + every - 1) / every} {
			got := 0
			for first, more := uint64(0), true; more; more = first != 0 {
				asked = 0
				r := answer(t.Context(), address, tt.limit, first)
				for _, row := range r.Rows {
					if row.Number < first || address != "" && row.Number%every != 1 {
						t.Fatalf("%q from %d on: connection %d of %s", address, first, row.Number, row.Address)
					}
					first = row.Number + 1
				}
				if got, first = got+len(r.Rows), r.Next; len(r.Rows) > tt.limit || asked > tt.most {
					t.Fatalf("%q, limit %d: %d rows after %d parts", address, tt.limit, len(r.Rows), asked)
				}
			}
			if got != want {
				t.Errorf("%q, limit %d: %d connections, want %d", address, tt.limit, got, want)
			}
		}
	}
	asked = 0
	if r := answer(t.Context(), "10.0.0.9", 1, 0); asked != all/connectionsPerBatch || len(r.Rows) > 0 || r.Next != 0 {
		t.Errorf("a client that is not there: %d parts, %d rows, next %d", asked, len(r.Rows), r.Next)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if asked = 0; len(answer(over, "", 1, 0).Rows) > 0 || asked > 0 {
		t.Errorf("%d parts after the end of its context", asked)
	}
}

// Every field of a row that a member answers with gets its own value: no two are swapped, and none is left
// out.
func TestRowsKeepTheirFields(t *testing.T) {
	at, ms, us := time.UnixMilli, time.Millisecond, time.Microsecond
	for _, tt := range []struct{ got, want protobuf.Message }{
		{
			newConnectionRow(&clients.Connection{
				Number: 1, RemoteAddr: "a", AwaitsWrite: true, QueuedRequests: 2, PacketsReceived: 3, PacketsSent: 4, Session: 5, Timeout: 6 * ms, EstablishedAt: at(7), ReplyCount: 8, LastOp: 9, LastXid: 10, LastZxid: 11,
				LastReply: 12 * us, LastLatency: 13 * us, MinLatency: 14 * us, AvgLatency: 15 * us, MaxLatency: 16 * us, ExpiresAt: at(17), Recent: clients.Recent{Requests: 18, Bytes: 19, Span: 20 * ms},
			}),
			&proto.ConnectionRow{
				Number: 1, Address: []byte("a"), Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, TimeoutMs: 6, EstablishedMs: 7, Replies: 8, Op: 9, Xid: 10, Zxid: 11,
				RepliedUs: 12, LastUs: 13, MinUs: 14, AvgUs: 15, MaxUs: 16, ExpiresMs: 17, RecentRequests: 18, RecentBytes: 19, RecentMs: 20,
			},
		},
		{
			newConnectionRow(&clients.Connection{AwaitsRead: true, EstablishedAt: at(1), ExpiresAt: at(2)}),
			&proto.ConnectionRow{Address: []byte{}, Reading: true, EstablishedMs: 1, ExpiresMs: 2, RecentMs: 1},
		},
	} {
		if !protobuf.Equal(tt.got, tt.want) {
			t.Errorf("%v, want\n%v", tt.got, tt.want)
		}
	}
}
