package member

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	protobuf "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/tally"
	"rollcall/view"
	"rollcall/znode"
)

// A client's address is selected by host or by host and port, however each of them is written.
func TestClientFilter(t *testing.T) {
	tests := []struct {
		filter, address string
		want            bool
	}{
		{"", "10.0.0.1:5", true},
		{"10.0.0.1", "10.0.0.1:5", true},
		{"10.0.0.1", "10.0.0.11:5", false},
		{"10.0.0.1:5", "10.0.0.1:5", true},
		{"10.0.0.1:5", "10.0.0.1:55", false},
		{"10.0.0.1", "[::ffff:10.0.0.1]:5", true},
		{"10.0.0.1:5", "[::ffff:10.0.0.1]:5", true},
		{"::ffff:10.0.0.1", "10.0.0.1:5", true},
		{"[::ffff:10.0.0.1]:5", "10.0.0.1:5", true},
		{"fe80::1", "[fe80::1%eth0]:5", true},
		{"2001:db8::1", "[2001:db8:0::1]:5", true},
		{"[2001:db8::1]:5", "[2001:db8::1]:5", true},
		{"host", "10.0.0.1:5", false},
		{"pipe", "pipe", true},
		{"host", "host:5", true},
		{"host", "pipe", false},
	}
	for _, tt := range tests {
		if got := newClientFilter(tt.filter).matches(tt.address); got != tt.want {
			t.Errorf("%q selects %q: %t, want %t", tt.filter, tt.address, got, tt.want)
		}
	}
}

// oldMember is a member whose version does not have the request.
type oldMember struct {
	proto.UnimplementedFollowerServer
}

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
	full := viewer{m: &Member{}, places: make(chan struct{})}
	tests := []struct {
		name   string
		server proto.FollowerServer
		want   error
	}{
		{"older version", oldMember{}, view.ErrOlder},
		{"too many questions", services{viewer: full}, view.ErrBusy},
		{"a long reply", talker{size: view.MaxReply + 1}, view.ErrTooLong},
		{"a reply of most bytes", talker{size: view.MaxReply - 100}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLoopback()
			srv := grpc.NewServer()
			proto.RegisterFollowerServer(srv, tt.server)
			go func() { _ = srv.Serve(l) }() // it ends with Stop
			defer srv.Stop()
			p := newPeers(time.Second, func(ctx context.Context, _ uint32) (net.Conn, error) { return l.dial(ctx) })
			defer p.close()
			_, err := viewOver(p, 2).View(t.Context(), &proto.ViewRequest{About: &proto.ViewRequest_Status{}})
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
		p := newPeers(time.Second, func(context.Context, uint32) (net.Conn, error) { return nil, io.ErrUnexpectedEOF })
		defer p.close()
		_, err := viewOver(p, 2).View(t.Context(), &proto.ViewRequest{})
		if err == nil || errors.Is(err, view.ErrOlder) || errors.Is(err, view.ErrBusy) || errors.Is(err, view.ErrTooLong) {
			t.Errorf("%v, want an error that says why it cannot be reached", err)
		}
	})
}

// Every field of a row that a member answers with gets its own value: no two are swapped, and none is left
// out.
func TestRowsKeepTheirFields(t *testing.T) {
	at, ms, us := time.UnixMilli, time.Millisecond, time.Microsecond
	for _, tt := range []struct{ got, want protobuf.Message }{
		{
			connectionRow(&tally.Connection{
				Number: 1, Addr: "a", Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, Timeout: 6 * ms, Established: at(7), Replies: 8, Op: 9, Xid: 10, Zxid: 11,
				Replied: 12 * us, LastLatency: 13 * us, MinLatency: 14 * us, AvgLatency: 15 * us, MaxLatency: 16 * us, Expires: at(17),
			}),
			&proto.ConnectionRow{
				Number: 1, Address: []byte("a"), Writing: true, Queued: 2, Received: 3, Sent: 4, Session: 5, TimeoutMs: 6, EstablishedMs: 7, Replies: 8, Op: 9, Xid: 10, Zxid: 11,
				RepliedUs: 12, LastUs: 13, MinUs: 14, AvgUs: 15, MaxUs: 16, ExpiresMs: 17,
			},
		},
		{
			connectionRow(&tally.Connection{Reading: true, Established: at(1), Expires: at(2)}),
			&proto.ConnectionRow{Address: []byte{}, Reading: true, EstablishedMs: 1, ExpiresMs: 2},
		},
		{
			removalRow(&znode.Removal{Path: "/p", Zxid: 1, Part: 2, AtMs: 3, Cause: znode.TimeOver, Member: 4, Session: 5, Address: "a"}),
			&proto.RemovalRow{Path: []byte("/p"), Zxid: 1, Part: 2, RemovedMs: 3, Cause: proto.RemovalCause_REMOVAL_CAUSE_TTL, Member: 4, Session: 5, Address: []byte("a")},
		},
	} {
		if !protobuf.Equal(tt.got, tt.want) {
			t.Errorf("%v, want\n%v", tt.got, tt.want)
		}
	}
}
