package member

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials"

	"rollcall/quorum/wire"
)

// A member that opens more gRPC connections than it may loses the oldest ones. Those of other members stay,
// and a connection that has ended takes no place.
func TestConnectionsOfACaller(t *testing.T) {
	c := newPeerConnLimiter()
	var _ credentials.TransportCredentials = c
	open := func(member uint32) (ours net.Conn, theirs net.Conn) {
		t.Helper()
		theirs, far := net.Pipe()
		ours, info, err := c.ServerHandshake(&wire.Conn{Conn: far, PeerID: member})
		if err != nil || info.(peerInfo).member != member {
			t.Fatalf("member %d: %v, %v", member, info, err)
		}
		return ours, theirs
	}
	ended := func(c net.Conn) bool {
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		return errors.Is(err, io.EOF)
	}
	_, others := open(3)
	var near, far []net.Conn
	for range maxConnsPerPeer {
		ours, theirs := open(2)
		near, far = append(near, ours), append(far, theirs)
	}
	if err := near[5].Close(); err != nil {
		t.Fatal(err)
	}
	open(2)
	if ended(far[0]) {
		t.Error("the oldest is closed, although another one has ended")
	}
	open(2)
	if !ended(far[0]) || ended(far[1]) || ended(others) {
		t.Error("the oldest connection of that member alone is to be closed")
	}
	for range 100 {
		open(2)
	}
	if n := len(c.openConns[2]); n != maxConnsPerPeer || len(c.openConns[3]) != 1 {
		t.Errorf("%d connections of member 2, want %d; %d of member 3", n, maxConnsPerPeer, len(c.openConns[3]))
	}
}

// A connection that does not speak gRPC is closed.
func TestSilentCallerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoopback(1)
		srv := memberServer(newSenderGuard(nil, anyID, inside))
		go func() { _ = srv.Serve(l) }() // it ends with Stop
		defer srv.Stop()
		conn, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		begin := time.Now()
		_, _ = io.Copy(io.Discard, conn)
		if took := time.Since(begin); took != handshakeTimeout {
			t.Errorf("closed after %v, want %v", took, handshakeTimeout)
		}
	})
}
