package member

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// Each method that members call has a row, so no message of one goes unchecked by mistake.
func TestEveryMethodHasItsSender(t *testing.T) {
	n := 0
	for _, service := range []grpc.ServiceDesc{proto.Follower_ServiceDesc, proto.Leader_ServiceDesc} {
		names := []string{}
		for _, m := range service.Methods {
			names = append(names, m.MethodName)
		}
		for _, s := range service.Streams {
			names = append(names, s.StreamName)
		}
		for _, name := range names {
			n++
			if _, ok := messageSenders["/"+service.ServiceName+"/"+name]; !ok {
				t.Errorf("%s of %s has no row in senders", name, service.ServiceName)
			}
		}
	}
	if n != len(messageSenders) {
		t.Errorf("%d methods, %d rows", n, len(messageSenders))
	}
}

// polite is a member that answers everything, and counts what reaches it.
type polite struct {
	proto.UnimplementedFollowerServer
	proto.UnimplementedLeaderServer
	reached chan string
}

func (p polite) Hello(context.Context, *proto.HelloRequest) (*proto.HelloReply, error) {
	p.reached <- "hello"
	return &proto.HelloReply{}, nil
}

func (p polite) View(context.Context, *proto.ViewRequest) (*proto.ViewReply, error) {
	p.reached <- "view"
	return &proto.ViewReply{}, nil
}

func (p polite) Sync(context.Context, *proto.SyncRequest) (*proto.SyncReply, error) {
	p.reached <- "sync"
	return &proto.SyncReply{}, nil
}

func (p polite) HandOver(context.Context, *proto.HandOverRequest) (*proto.HandOverReply, error) {
	p.reached <- "hand over"
	return &proto.HandOverReply{}, nil
}

func (p polite) Pings(stream proto.Follower_PingsServer) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		p.reached <- "ping"
		if err := stream.Send(&proto.Pong{}); err != nil {
			return err
		}
	}
}

func (p polite) Forward(stream proto.Leader_ForwardServer) error {
	for {
		switch _, err := stream.Recv(); {
		case errors.Is(err, io.EOF):
			return stream.SendAndClose(&proto.ForwardEnd{})
		case err != nil:
			return err
		}
		p.reached <- "writes"
	}
}

// as opens connections to a listener in the name of a member.
func as(l *loopback, member uint32) *peerConns {
	return newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) {
		ours, theirs := net.Pipe()
		l.conns <- &wire.Conn{Conn: theirs, PeerID: member}
		return &wire.Conn{Conn: ours, PeerID: 1}, nil
	})
}

// anyID is the server list of tests in which all members are known.
func anyID(uint32) bool { return true }

// inside is the ensemble of tests in which every connection names it.
func inside(peerInfo) bool { return false }

// Messages of a member in its own name reach the service, and messages in another's name do not. A member outside the
// server list may only say hello. The sender gets an error, and the log line, at most one in a while, has its number and
// address.
func TestMemberSpeaksForItselfOnly(t *testing.T) {
	says := map[string]func(ctx context.Context, f proto.FollowerClient, l proto.LeaderClient, as uint32) error{
		"hello": func(ctx context.Context, f proto.FollowerClient, _ proto.LeaderClient, as uint32) error {
			_, err := f.Hello(ctx, &proto.HelloRequest{Member: as})
			return err
		},
		"sync": func(ctx context.Context, _ proto.FollowerClient, l proto.LeaderClient, as uint32) error {
			_, err := l.Sync(ctx, &proto.SyncRequest{Member: as})
			return err
		},
		"ping": func(ctx context.Context, f proto.FollowerClient, _ proto.LeaderClient, as uint32) error {
			stream, err := f.Pings(ctx)
			if err == nil {
				err = stream.Send(&proto.Ping{Leader: as})
			}
			if err == nil {
				_, err = stream.Recv()
			}
			return err
		},
		"writes": func(ctx context.Context, _ proto.FollowerClient, l proto.LeaderClient, as uint32) error {
			stream, err := l.Forward(ctx)
			if err == nil {
				err = stream.Send(&proto.Forwarded{Member: as})
			}
			if err == nil {
				_, err = stream.CloseAndRecv()
			}
			return err
		},
	}
	for name, say := range says {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				l, s := newLoopback(1), polite{reached: make(chan string, 10)}
				srv := memberServer(newSenderGuard(slog.New(slog.NewTextHandler(&log, nil)), func(id uint32) bool { return id != 9 }, inside))
				proto.RegisterFollowerServer(srv, s)
				proto.RegisterLeaderServer(srv, s)
				go func() { _ = srv.Serve(l) }() // it ends with Stop
				defer srv.Stop()
				p := as(l, 2)
				defer p.closeAll()
				f, _ := p.followerClient(1)
				leader, err := p.leaderClient(1)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				for _, other := range []uint32{0, 1, 3, 3, 3} {
					if err := say(ctx, f, leader, other); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "this connection is of member 2") {
						t.Errorf("in the name of %d: %v", other, err)
					}
				}
				if len(s.reached) > 0 {
					t.Errorf("it has reached the service: %s", <-s.reached)
				}
				if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "peer=2 remote=pipe") || !strings.Contains(said, "from member 0") {
					t.Errorf("logged %q, want one line", said)
				}
				time.Sleep(impostorLogInterval)
				_ = say(ctx, f, leader, 3)
				if said := log.String(); strings.Count(said, "\n") != 2 {
					t.Errorf("logged %q, want one line more", said)
				}
				if err := say(ctx, f, leader, 2); err != nil || len(s.reached) != 1 || <-s.reached != name {
					t.Errorf("in its own name: %v", err)
				}
				stranger := as(l, 9)
				defer stranger.closeAll()
				itsF, _ := stranger.followerClient(1)
				itsL, err := stranger.leaderClient(1)
				if err != nil {
					t.Fatal(err)
				}
				if err := say(ctx, itsF, itsL, 9); (err == nil) != (name == "hello") {
					t.Errorf("of a member that is not in the server list: %v", err)
				}
				if _, err := f.View(ctx, &proto.ViewRequest{}); err != nil {
					t.Errorf("a question of the view: %v", err)
				}
				if _, err := leader.HandOver(ctx, &proto.HandOverRequest{}); err != nil {
					t.Errorf("a transfer of leadership: %v", err)
				}
				cancel()
			})
		})
	}
}

// A member answers for itself only: who dials a member gets nothing from another one. Connections that
// are no member's lead nowhere, on both sides.
func TestAnswersAreFromTheDialedMember(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	for _, tt := range []struct {
		conn   net.Conn
		dialed uint32
		right  bool
	}{
		{&wire.Conn{Conn: ours, PeerID: 2}, 2, true},
		{&wire.Conn{Conn: ours, PeerID: 3}, 2, false},
		{&wire.Conn{Conn: ours, PeerID: 2}, 0, false},
		{&wire.Conn{Conn: ours}, 0, false},
		{ours, 2, false},
	} {
		conn, info, err := peerCredentials{dialedMember: tt.dialed}.ClientHandshake(t.Context(), "", tt.conn)
		if (err == nil) != tt.right || tt.right != (conn == tt.conn) || tt.right != (info != nil) {
			t.Errorf("%T to %d: %v, %v, %v", tt.conn, tt.dialed, conn, info, err)
		}
	}
	for _, c := range []net.Conn{theirs, &wire.Conn{Conn: theirs}} {
		if _, _, err := (peerCredentials{}).ServerHandshake(c); !errors.Is(err, errNotMemberConn) {
			t.Errorf("a server takes %T: %v", c, err)
		}
	}
}
