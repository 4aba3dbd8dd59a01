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
	c := newPeerConnLimiter(anyID)
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

// A stranger that claims a thousand numbers takes the one share of the connections that all unlisted processes have, and closes no
// member's. The connection of one that comes into the list gets a place of its own, and later strangers do not close it.
func TestStrangersShareTheConnections(t *testing.T) {
	listed := map[uint32]bool{2: true}
	c := newPeerConnLimiter(func(member uint32) bool { return listed[member] })
	open := func(member uint32) *limitedPeerConn {
		t.Helper()
		_, far := net.Pipe()
		in, _, err := c.ServerHandshake(&wire.Conn{Conn: far, PeerID: member})
		if err != nil {
			t.Fatal(err)
		}
		return in.(*limitedPeerConn)
	}
	isOpen := func(in *limitedPeerConn) bool { return !errors.Is(in.SetDeadline(time.Time{}), io.ErrClosedPipe) }
	member, stranger := open(2), open(9)
	for n := range uint32(maxUnlistedConns - 1) {
		open(10 + n)
	}
	if !isOpen(stranger) {
		t.Error("the first of as many strangers as may be is closed")
	}
	listed[9] = true
	for n := range uint32(1000) {
		open(100 + n)
	}
	if n := len(c.openConns[unlisted]); n != maxUnlistedConns || len(c.openConns) != 3 {
		t.Errorf("strangers have %d connections, want %d; there are %d shares, want 3", n, maxUnlistedConns, len(c.openConns))
	}
	if !isOpen(member) || !isOpen(stranger) {
		t.Errorf("a member's connection is open: %t; that of one that has come into the list: %t", isOpen(member), isOpen(stranger))
	}
	if err := stranger.Close(); err != nil || len(c.openConns[9]) != 0 {
		t.Errorf("a closed connection takes a place: %v", err)
	}
}

// A process that is not in the list may send maxUnlistedBytes on a connection. A member may send more, also if it has come into the list since
// it connected; a newcomer may not, because its connection has proved nothing.
func TestBytesOfStrangers(t *testing.T) {
	for _, tt := range []struct {
		name                        string
		isListed, comes, isNewcomer bool
		ends                        bool
	}{
		{name: "a stranger", ends: true},
		{name: "a member", isListed: true},
		{name: "one that comes into the list", comes: true},
		{name: "a newcomer whose number comes into the list", comes: true, isNewcomer: true, ends: true},
	} {
		isListed := tt.isListed
		c := newPeerConnLimiter(func(uint32) bool { return isListed })
		theirs, far := net.Pipe()
		conn, _, err := c.ServerHandshake(&wire.Conn{Conn: far, PeerID: 9})
		if err != nil {
			t.Fatal(err)
		}
		in := conn.(*limitedPeerConn)
		in.isNewcomer = tt.isNewcomer
		go func() {
			_, _ = theirs.Write(make([]byte, maxUnlistedBytes+1))
			_ = theirs.Close()
		}()
		if n, err := io.ReadFull(in, make([]byte, maxUnlistedBytes)); err != nil {
			t.Errorf("%s: %v after %d bytes", tt.name, err, n)
		}
		isListed = isListed || tt.comes
		if _, err := in.Read(make([]byte, 1)); errors.Is(err, errUnlistedBytes) != tt.ends || err != nil && !tt.ends {
			t.Errorf("%s: %v at the end, want one too many: %t", tt.name, err, tt.ends)
		}
		_ = in.Close()
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
