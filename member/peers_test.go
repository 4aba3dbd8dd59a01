package member

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/quorum/wire"
)

// The start of an HTTP/2 connection.
const (
	preface  = 24                                     // bytes that a client sends first
	settings = "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // a frame that a server sends first
)

// If the other side has never seen a stream, Recv on it fails. The stream is not reopened on
// another connection, for which Recv would wait with the stream's lock held.
func TestUnseenStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		p := newPeerConns(time.Second, func(ctx context.Context, _ uint32) (net.Conn, error) {
			if dials++; dials > 1 {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			go goAway(theirs)
			return &wire.Conn{Conn: ours, PeerID: 2}, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		c, err := p.followerClient(2)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := c.Pings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := stream.Recv()
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			if err == nil || errors.Is(err, io.EOF) {
				t.Errorf("Recv: %v, want an error", err)
			}
		default:
			t.Error("Recv waits for another connection")
		}
		cancel()
		p.closeAll()
	})
}

// close may wait for a connection that takes no bytes, but nothing else waits for close.
func TestCloseHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.WriteString(theirs, settings) }()
			go func() { _, _ = io.CopyN(io.Discard, theirs, 60) }() // enough to connect, not to say farewell
			return &wire.Conn{Conn: ours, PeerID: 2}, nil
		})
		c, err := p.clientConn(2)
		if err != nil {
			t.Fatal(err)
		}
		c.Connect()
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			p.closeAll()
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("close did not wait, so this shows nothing")
		default:
		}
		if p.mu.TryLock() {
			p.mu.Unlock()
		} else {
			t.Error("close waits with the lock held")
		}
		<-closed
	})
}

// goAway is an HTTP/2 server that takes no stream: it answers the first with GOAWAY.
func goAway(conn net.Conn) {
	const (
		headers = 1                                                                           // the type of a frame
		refusal = "\x00\x00\x08\x07\x00\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" // no stream seen, no error
	)
	defer func() { _ = conn.Close() }()
	write := func(frame string) { _, _ = io.WriteString(conn, frame) }
	if _, err := io.CopyN(io.Discard, conn, preface); err != nil {
		return
	}
	go write(settings)
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head[:4])>>8)); err != nil {
			return
		}
		if head[3] == headers {
			go write(refusal)
		}
	}
}

// A silent connection is replaced only while the other one is not being opened, or for too long. So one connection to a
// member, which may have stalled, is left. A connection that is replaced is closed.
func TestOneConnectionStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		})
		first, second := peerRoute{2, 0}, peerRoute{2, 1}
		conns := map[net.Conn]bool{} // all that were opened
		dial := func(route peerRoute) {
			conn, err := p.dialPeer(t.Context(), route)
			if err != nil {
				t.Fatal(err)
			}
			conns[conn] = true
		}
		check := func(when string, wantFirst, wantSecond bool) {
			t.Helper()
			p.mu.Lock()
			defer p.mu.Unlock()
			gotFirst, gotSecond := p.newestConns[first], p.newestConns[second]
			if (gotFirst != nil) != wantFirst || (gotSecond != nil) != wantSecond {
				t.Errorf("%s: %t and %t, want %t and %t", when, gotFirst != nil, gotSecond != nil, wantFirst, wantSecond)
			}
			for conn := range conns {
				if stays := conn == gotFirst || conn == gotSecond; ended(conn) == stays {
					t.Errorf("%s: a connection is open: %t, want %t", when, !stays, stays)
				}
			}
		}
		dial(first)
		dial(second)
		p.replaceConn(second)
		p.replaceConn(first)
		check("both are silent", true, false)
		dial(second)
		p.replaceConn(first)
		check("the other one has been opened", false, true)
		time.Sleep(connectTicks * time.Second)
		p.replaceConn(second)
		check("the other one was not opened", false, false)
		dial(first)
		dial(second)
		p.closeConns(2)
		check("closed", false, false)
		for conn := range conns {
			_ = conn.Close() // those that were closed have ended already
		}
	})
}

// A call after the end of the member opens no connection, which nobody would close.
func TestNoConnectionAfterClose(t *testing.T) {
	p := newPeerConns(time.Second, func(context.Context, uint32) (net.Conn, error) { return nil, errors.New("dialed") })
	p.closeAll()
	if c, err := p.followerClient(2); !errors.Is(err, errPeersClosed) {
		t.Errorf("%v, %v, want %v", c, err, errPeersClosed)
	}
}
