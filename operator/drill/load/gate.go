package load

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gate is between a client and its connections. It can stop the client: nothing is read or sent while it is shut, and
// the client's own work waits for it. The timers of package client go on, unlike those of a stopped process.
//
// A process that is really stopped needs a child process, with a gate that sends it SIGSTOP. Its records can be added
// to the Evidence, because their times are of the machine's monotonic clock.
type gate struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	frames bool // the bytes are frames, and not TLS

	dialed atomic.Int64 // when the last connection was there, in ns since the load began
	zxid   atomic.Int64 // of the last reply; 0: unknown
	since  func() time.Duration

	mu   sync.Mutex
	shut chan struct{} // closed when the gate opens; nil: it is open
}

// close shuts the gate, and open opens it. The second call in a row of either does nothing.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

// wait waits until the gate is open, or done is closed.
func (g *gate) wait(done <-chan struct{}) {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-done:
	}
}

// dialConn is a client.Config.DialConn.
func (g *gate) dialConn(ctx context.Context, network, address string) (net.Conn, error) {
	g.wait(ctx.Done())
	conn, err := g.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.dialed.Store(int64(g.since()))
	g.zxid.Store(0)
	return &gatedConn{Conn: conn, gate: g, closed: make(chan struct{}), first: true}, nil
}

// gatedConn is a connection behind a gate. One goroutine reads from it.
type gatedConn struct {
	net.Conn
	gate   *gate
	once   sync.Once
	closed chan struct{}

	first bool   // no frame has come whole: the reply to the handshake, which has no header
	head  []byte // of the present frame: its length and the header of a reply
	rest  int    // bytes of the present frame behind head
}

// headLength is the length of a frame's length, xid and zxid.
const headLength = 4 + 4 + 8

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.wait(c.closed) // what came while the gate was shut waits, too
	if c.gate.frames {
		c.look(b[:n])
	}
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.wait(c.closed)
	return c.Conn.Write(b)
}

func (c *gatedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// look notes the transactions in the headers of replies.
func (c *gatedConn) look(b []byte) {
	for len(b) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(b))
			c.rest, b = c.rest-n, b[n:]
			continue
		}
		n := min(headLength-len(c.head), len(b))
		c.head, b = append(c.head, b[:n]...), b[n:]
		if len(c.head) < headLength {
			return
		}
		xid, zxid := int32(binary.BigEndian.Uint32(c.head[4:])), int64(binary.BigEndian.Uint64(c.head[8:]))
		if !c.first && xid > 0 {
			c.gate.zxid.Store(zxid)
		}
		c.rest = max(0, int(int32(binary.BigEndian.Uint32(c.head)))+4-headLength)
		c.first, c.head = false, c.head[:0]
	}
}
