package member

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// writeCounter counts the writes to a connection.
type writeCounter struct {
	net.Conn
	writes *atomic.Int64
}

func (c writeCounter) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// A message on a stream takes one write, and its reply another one: gRPC sends nothing else until a good part of the window is used.
func TestMessageTakesOneWrite(t *testing.T) {
	const messages = 20
	synctest.Test(t, func(t *testing.T) {
		l, s := newLoopback(1), polite{reached: make(chan string, 1)}
		srv := memberServer(newSenderGuard(nil, anyID, inside))
		proto.RegisterFollowerServer(srv, s)
		go func() { _ = srv.Serve(l) }() // it ends with Stop
		defer srv.Stop()
		var sent, returned atomic.Int64
		p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) {
			ours, theirs := net.Pipe()
			l.conns <- &wire.Conn{Conn: writeCounter{theirs, &returned}, PeerID: 2}
			return &wire.Conn{Conn: writeCounter{ours, &sent}, PeerID: 1}, nil
		})
		defer p.closeAll()
		follower, err := p.followerClient(1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := follower.Pings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		exchange := func() {
			if err := stream.Send(&proto.Ping{Leader: 2}); err != nil {
				t.Fatal(err)
			}
			<-s.reached
			if _, err := stream.Recv(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		exchange() // after it the stream is open
		sent.Store(0)
		returned.Store(0)
		for range messages {
			exchange()
		}
		if sent.Load() != messages || returned.Load() != messages {
			t.Errorf("%d messages and replies took %d and %d writes, want one each", messages, sent.Load(), returned.Load())
		}
	})
}
