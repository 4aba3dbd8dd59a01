package follower

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// service has a member's two services over real gRPC.
type service struct {
	proto.UnimplementedLeaderServer
	proto.UnimplementedFollowerServer
	f       *Follower
	got     chan *proto.Forwarded
	streams atomic.Int32
}

// Forward takes two messages and ends the stream, with or without an error.
func (s *service) Forward(stream proto.Leader_ForwardServer) error {
	for range 2 {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		s.got <- m
	}
	if s.streams.Add(1)%2 == 0 {
		return stream.SendAndClose(&proto.ForwardEnd{})
	}
	return status.Error(codes.Unavailable, "term is over")
}

func (s *service) Pings(stream proto.Follower_PingsServer) error { return s.f.Pings(stream) }

// overGRPC are peers that all lead, at the other end of a connection.
type overGRPC struct {
	Peers
	conn **grpc.ClientConn
}

func (p overGRPC) Leader(context.Context, uint32) (proto.LeaderClient, error) {
	return proto.NewLeaderClient(*p.conn), nil
}

// Streams behave over gRPC as the fakes of the other tests do. They end without an error, with one,
// or by being replaced, and the link opens the next one.
func TestOverGRPC(t *testing.T) {
	var conn *grpc.ClientConn
	bubble(t, func(c *Config) { c.Peers = overGRPC{c.Peers, &conn} }, func(t *testing.T, r *rig) {
		listener := bufconn.Listen(1 << 16)
		s := &service{f: r.f, got: make(chan *proto.Forwarded, 100)}
		server := grpc.NewServer()
		proto.RegisterLeaderServer(server, s)
		proto.RegisterFollowerServer(server, s)
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()
		var err error
		conn, err = grpc.NewClient("passthrough:///member", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()

		r.start(1, 1, 1001)
		announce := <-s.got
		r.apply(announce.Txns...)
		for i := range 6 {
			r.submit(1, jute.OpCreate, string(rune('a'+i)))
			time.Sleep(tick)
		}
		synctest.Wait()
		for len(s.got) > 0 {
			r.apply((<-s.got).Txns...)
		}
		if n := len(r.state.log); n != 6 {
			t.Errorf("%d writes applied, want 6", n)
		}

		pings, err := proto.NewFollowerClient(conn).Pings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.f.Touch(5, timeout)
		if err := pings.Send(&proto.Ping{Term: 1, Nonce: 1001, Leader: 1, Number: 1, Proof: 2}); err != nil {
			t.Fatal(err)
		}
		if pong, err := pings.Recv(); err != nil || pong.Proof != 2 {
			t.Errorf("answered %v, %v; want the proof", pong, err)
		}
		pong, err := pings.Recv()
		if err != nil {
			t.Fatal(err)
		}
		wantFlushed(t, pong, map[uint64][]int64{1: {5}})
		r.raft.term.Store(2)
		if err := pings.Send(&proto.Ping{Term: 1, Nonce: 1001, Leader: 1, Number: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := pings.Recv(); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("a ping of an old term: %v, want FailedPrecondition", err)
		}
		if err := pings.Send(&proto.Ping{}); !errors.Is(err, io.EOF) {
			t.Errorf("the stream goes on: %v", err)
		}
	})
}
