package load

import (
	"context"
	"encoding/binary"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// clientGate is between a client and its connections. It can stop the client: nothing is read or sent while it is shut,
// and the client's own work waits for it. The timers of package client keep running, unlike those of a stopped process.
//
// A process that is really stopped needs a child process, with a gate that sends it SIGSTOP. Its records can be added
// to the Evidence, because their times are of the machine's monotonic clock.
type clientGate struct {
	dial   func(ctx context.Context, network, address string) (net.Conn, error)
	frames bool // the bytes are frames, and not TLS

	dialedAt   atomic.Int64 // when the last connection was there, in ns since the load began
	lastZxid   atomic.Int64 // of the last reply; 0: unknown
	sinceStart func() time.Duration

	mu       sync.Mutex
	reopened chan struct{} // closed when the gate opens; nil: it is open
}

// shutGate shuts the gate, and open opens it. The second call in a row of either does nothing.
func (g *clientGate) shutGate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reopened == nil {
		g.reopened = make(chan struct{})
	}
}

func (g *clientGate) openGate() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reopened != nil {
		close(g.reopened)
		g.reopened = nil
	}
}

// waitOpen waits until the gate is open, or done is closed.
func (g *clientGate) waitOpen(done <-chan struct{}) {
	g.mu.Lock()
	shut := g.reopened
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
func (g *clientGate) dialConn(ctx context.Context, network, address string) (net.Conn, error) {
	g.waitOpen(ctx.Done())
	conn, err := g.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	g.dialedAt.Store(int64(g.sinceStart()))
	g.lastZxid.Store(0)
	return &gatedConn{Conn: conn, gate: g, closed: make(chan struct{}), awaitsFirst: true}, nil
}

// gatedConn is a connection behind a gate. One goroutine reads from it.
type gatedConn struct {
	net.Conn
	gate   *clientGate
	once   sync.Once
	closed chan struct{}

	awaitsFirst bool   // no frame has come whole: the reply to the handshake, which has no header
	frameHead   []byte // of the present frame: its length and the header of a reply
	frameRest   int    // bytes of the present frame behind head
}

// headLength is the length of a frame's length, xid and zxid.
const headLength = 4 + 4 + 8

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.waitOpen(c.closed) // what came while the gate was shut waits, too
	if c.gate.frames {
		c.noteReplies(b[:n])
	}
	return n, err
}

func (c *gatedConn) Write(b []byte) (int, error) {
	c.gate.waitOpen(c.closed)
	return c.Conn.Write(b)
}

func (c *gatedConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// noteReplies notes the transactions in the headers of replies.
func (c *gatedConn) noteReplies(b []byte) {
	for len(b) > 0 {
		if c.frameRest > 0 {
			n := min(c.frameRest, len(b))
			c.frameRest, b = c.frameRest-n, b[n:]
			continue
		}
		n := min(headLength-len(c.frameHead), len(b))
		c.frameHead, b = append(c.frameHead, b[:n]...), b[n:]
		if len(c.frameHead) < headLength {
			return
		}
		xid, zxid := int32(binary.BigEndian.Uint32(c.frameHead[4:])), int64(binary.BigEndian.Uint64(c.frameHead[8:]))
		if !c.awaitsFirst && xid > 0 {
			c.gate.lastZxid.Store(zxid)
		}
		c.frameRest = max(0, int(int32(binary.BigEndian.Uint32(c.frameHead)))+4-headLength)
		c.awaitsFirst, c.frameHead = false, c.frameHead[:0]
	}
}
