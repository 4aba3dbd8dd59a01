package quorum

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// stallTimeout is how long a peer may pause in the middle of a request. Waiting for the
	// next request has no limit.
	stallTimeout = 5 * time.Second
	// minRate is how fast a request must arrive on the whole, in bytes a second, after the
	// first rateGrace: a snapshot that drips in slower holds up its successor for ever.
	minRate   = 64 << 10
	rateGrace = 10 * time.Second
)

// conns is the StreamLayer as raft's NetworkTransport sees it. It puts deadlines on
// requests that arrive (raft's transport has none), and closes every connection when it
// is closed (raft's transport leaves them).
type conns struct {
	raft.StreamLayer

	mu     sync.Mutex
	open   map[net.Conn]bool // value: accepted here
	closed bool
}

func newConns(s raft.StreamLayer) *conns {
	return &conns{StreamLayer: s, open: map[net.Conn]bool{}}
}

func (c *conns) Accept() (net.Conn, error) {
	conn, err := c.StreamLayer.Accept()
	if err != nil {
		return nil, err
	}
	in := &inConn{Conn: conn, owner: c}
	return in, c.track(in, true)
}

func (c *conns) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := c.StreamLayer.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	out := &outConn{Conn: conn, owner: c}
	return out, c.track(out, false)
}

func (c *conns) track(conn net.Conn, accepted bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go conn.Close() // Close wants the lock
		return net.ErrClosed
	}
	c.open[conn] = accepted
	return nil
}

func (c *conns) forget(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// Close closes the stream layer and every connection.
func (c *conns) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	c.mu.Unlock()
	if again {
		return nil
	}
	err := c.StreamLayer.Close()
	c.closeAll(false)
	return err
}

// closeAll closes every connection, or only those that were accepted.
func (c *conns) closeAll(acceptedOnly bool) {
	c.mu.Lock()
	var all []net.Conn
	for conn, accepted := range c.open {
		if accepted || !acceptedOnly {
			all = append(all, conn)
		}
	}
	c.mu.Unlock()
	for _, conn := range all {
		conn.Close()
	}
}

// outConn is a dialed connection; raft sets its deadlines.
type outConn struct {
	net.Conn
	owner *conns
}

func (c *outConn) Close() error {
	c.owner.forget(c)
	return c.Conn.Close()
}

// inConn is an accepted connection. Requests on it come one after the other: raft's
// handler, or receive on its behalf, reads one and then writes its answer.
type inConn struct {
	net.Conn
	owner *conns
	begun time.Time // when the request being read began; zero between requests
	got   int64     // bytes of it
}

// Read ends the connection if the peer stalls in the middle of a request. What follows
// in the stream would otherwise be taken for another one.
func (c *inConn) Read(p []byte) (int, error) {
	var deadline time.Time
	if !c.begun.IsZero() {
		deadline = time.Now().Add(stallTimeout)
		if last := c.begun.Add(rateGrace + time.Duration(c.got/minRate)*time.Second); last.Before(deadline) {
			deadline = last
		}
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.begun.IsZero() {
		c.begun = time.Now()
	}
	c.got += int64(n)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.Close()
	}
	return n, err
}

func (c *inConn) Write(p []byte) (int, error) {
	c.begun, c.got = time.Time{}, 0
	if err := c.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

func (c *inConn) Close() error {
	c.owner.forget(c)
	return c.Conn.Close()
}
