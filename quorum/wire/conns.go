package wire

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// stallTimeout is how long a peer may pause in the middle of a request. There is no limit on
	// the wait for the next request.
	stallTimeout = 5 * time.Second
	// minRate is how fast a request must arrive overall, in bytes a second, after the first
	// rateGrace. Otherwise a snapshot that trickles in would hold up the next one for ever.
	minRate   = 64 << 10
	rateGrace = 10 * time.Second
	// sendRate is the slowest link, in bytes a second, on which a follower can be caught up. The
	// time for a request and its answer is rpcTimeout plus the time for its bytes at this rate.
	sendRate = 256 << 10
	// longRequest is the size in bytes from which a request gets more time. For a shorter one,
	// rpcTimeout is enough.
	longRequest = 64 << 10
	// maxRequests limits the bytes of all requests that are being received or that raft has: the
	// longest one, and in addition more than leaders send at a time.
	maxRequests = maxRequest + 16<<20
	// maxPeerConns is how many connections another member may have here. raft uses at most six, and
	// those of an earlier run of it may not have ended. Each takes some 256 KiB.
	maxPeerConns = 16
)

var errRequests = fmt.Errorf("quorum: requests of more than %d bytes at a time", maxRequests)

// conns is the StreamLayer that raft's NetworkTransport uses. It sets deadlines for requests that
// arrive, which raft's transport does not. It lets only requests through that raft may decode,
// within limits for all of them together. When it is closed it closes every connection, which
// raft's transport does not.
type conns struct {
	raft.StreamLayer
	log *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]struct{} // *inConn and *outConn
	bytes  int64                 // of requests that are being received, or that raft has
	told   time.Time             // when a refused request was last logged
	closed bool
}

func newConns(s raft.StreamLayer, log *slog.Logger) *conns {
	return &conns{StreamLayer: s, log: log, open: map[net.Conn]struct{}{}}
}

// Accept returns a connection. If its member has maxPeerConns already, Accept closes the one that
// has been idle for longest.
func (c *conns) Accept() (net.Conn, error) {
	conn, err := c.StreamLayer.Accept()
	if err != nil {
		return nil, err
	}
	in := &inConn{Conn: conn, owner: c, used: time.Now()}
	if from, ok := conn.(*Conn); ok {
		in.peer = from.Peer
	}
	err = c.track(in)
	if surplus := c.surplus(in); surplus != nil {
		_ = surplus.Close() // raft's handler gets an error
	}
	return in, err
}

// surplus returns the connection that has to be closed because the member at the other end of in has
// more than maxPeerConns. It returns nil if the member has no more than that. It picks the connection
// that has been idle for longest, and none whose request raft is still handling.
func (c *conns) surplus(in *inConn) (idle *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for conn := range c.open {
		other, ok := conn.(*inConn)
		if !ok || other.peer != in.peer {
			continue
		}
		if n++; !other.whole && (idle == nil || other.used.Before(idle.used)) {
			idle = other
		}
	}
	if n <= maxPeerConns {
		return nil
	}
	return idle
}

func (c *conns) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := c.StreamLayer.Dial(addr, timeout)
	if err != nil {
		return nil, err
	}
	out := &outConn{Conn: conn, owner: c}
	return out, c.track(out)
}

func (c *conns) track(conn net.Conn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		go conn.Close() // Close needs the lock
		return net.ErrClosed
	}
	c.open[conn] = struct{}{}
	return nil
}

func (c *conns) untrack(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

// count counts n more bytes of the request on in; whole says whether these are its last. If all
// requests together become too long, those that began first and are not complete lose their
// connections. If there is no such request, count returns an error, and this connection is closed.
func (c *conns) count(in *inConn, n int64, whole bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += n
	if in.used = time.Now(); in.held == 0 {
		in.since = in.used
	}
	in.held, in.whole = in.held+n, whole
	for c.bytes > maxRequests {
		oldest := c.oldest(in)
		if oldest == nil {
			return errRequests
		}
		c.bytes -= oldest.held
		oldest.held = 0
		go oldest.Conn.Close() // with TLS it may take time
	}
	return nil
}

// oldest returns the incomplete request that began first, other than that on in.
func (c *conns) oldest(in *inConn) (oldest *inConn) {
	for conn := range c.open {
		other, ok := conn.(*inConn)
		if ok && other != in && other.held > 0 && !other.whole && (oldest == nil || other.since.Before(oldest.since)) {
			oldest = other
		}
	}
	return oldest
}

// release stops counting the request on in.
func (c *conns) release(in *inConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= in.held
	in.held, in.whole, in.used = 0, false, time.Now()
}

// refused logs a request that raft cannot have sent, at most one in each refusalInterval.
func (c *conns) refused(err error, from ...any) {
	c.mu.Lock()
	quiet := c.closed || !c.told.IsZero() && time.Since(c.told) < refusalInterval
	if !quiet {
		c.told = time.Now()
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("refused a request between members", append(from, "err", err)...)
	}
}

// Close closes the stream layer and every connection.
func (c *conns) Close() error {
	c.mu.Lock()
	again := c.closed
	c.closed = true
	all := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	if again {
		return nil
	}
	err := c.StreamLayer.Close()
	for _, conn := range all {
		conn.Close()
	}
	return err
}

// outConn is a dialed connection. raft sets deadlines that do not depend on the length of a
// request; outConn extends each by the time that the request takes on a link of sendRate. At most
// one goroutine sends on it at a time, and one waits for answers.
type outConn struct {
	net.Conn
	owner *conns

	mu     sync.Mutex
	until  time.Time // deadline that raft set for the request being sent
	answer bool      // until is also the deadline of the answer
	size   int64     // bytes of that request so far
	sizes  []int64   // sizes of the requests in a pipeline that are sent or being sent and not answered
}

// allowance returns how much more time a request of size bytes gets.
func allowance(size int64) time.Duration { return time.Duration(size) * time.Second / sendRate }

// SetDeadline begins a request that is answered before the next one is sent.
func (c *outConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.answer, c.size, c.sizes = t, true, 0, nil
	return c.Conn.SetDeadline(t)
}

// SetWriteDeadline begins a request in a pipeline.
func (c *outConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.answer, c.size, c.sizes = t, false, 0, append(c.sizes, 0)
	return c.Conn.SetWriteDeadline(t)
}

// SetReadDeadline begins to wait for the next answer in a pipeline.
func (c *outConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sizes) > 0 {
		t = t.Add(allowance(c.sizes[0]))
		c.sizes = c.sizes[1:]
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *outConn) Write(p []byte) (int, error) {
	if err := c.extendDeadline(int64(len(p))); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// extendDeadline counts n more bytes of the request and extends its deadline.
func (c *outConn) extendDeadline(n int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size += n
	if last := len(c.sizes) - 1; last >= 0 {
		c.sizes[last] = c.size
	}
	switch until := c.until.Add(allowance(c.size)); {
	case c.until.IsZero() || c.size < longRequest:
		return nil
	case c.answer:
		return c.Conn.SetDeadline(until)
	default:
		return c.Conn.SetWriteDeadline(until)
	}
}

func (c *outConn) Close() error {
	c.owner.untrack(c)
	return c.Conn.Close()
}

// inConn is an accepted connection. Its requests come one after the other: raft's handler, or
// receive in its place, reads one and then writes the answer. inConn passes on no byte of the next
// request before that, and nothing that is not a request of raft's.
type inConn struct {
	net.Conn
	owner *conns
	peer  uint32 // the member that the other end says it is; 0: unknown

	begun time.Time // when the request being read began; zero between requests
	got   int64     // bytes of it so far
	scan  scanner
	phase phase
	kind  byte   // of the request
	ahead []byte // bytes that have come and belong to later requests

	// Guarded by owner.mu.
	held  int64     // bytes of the request that are counted; see conns.count
	whole bool      // all of them have come, and raft has them
	since time.Time // when the first of them came
	used  time.Time // when the last of them came, or the answer was sent
}

// phase is how far the request on an inConn has come.
type phase int

const (
	awaited  phase = iota // nothing of it has come
	reading               // its bytes are coming
	complete              // it waits for its answer
	body                  // it is followed by the body of a snapshot
)

var (
	errUnasked = errors.New("quorum: raft reads past the end of a request")
	errLast    = errors.New("quorum: a connection that has brought a snapshot takes no further request")
)

// Read ends the connection if the peer pauses in the middle of a request for too long, or sends
// something that is not a request: the bytes after that could otherwise be taken for one.
func (c *inConn) Read(p []byte) (n int, err error) {
	if c.phase == complete {
		err = errUnasked
	} else if len(c.ahead) > 0 {
		n, err = c.follow(c.ahead[:min(len(p), len(c.ahead))])
		copy(p, c.ahead[:n])
		c.ahead = c.ahead[n:]
	} else if n, err = c.receive(p); err == nil {
		came := p[:n]
		n, err = c.follow(came)
		c.ahead = slices.Clone(came[n:])
	}
	if err != nil {
		_ = c.Close()
		if errors.Is(err, errBounds) || errors.Is(err, errRequests) {
			c.owner.refused(err, "member", c.peer, "remote", c.RemoteAddr().String())
		}
		return 0, err
	}
	c.got += int64(n)
	return n, nil
}

// receive reads more bytes, and waits at most as long as the peer may pause.
func (c *inConn) receive(p []byte) (int, error) {
	var deadline time.Time
	if c.phase != awaited {
		deadline = time.Now().Add(stallTimeout)
		if last := c.begun.Add(rateGrace + time.Duration(c.got/minRate)*time.Second); last.Before(deadline) {
			deadline = last
		}
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		err = nil // the next Read returns it again
	}
	return n, err
}

// follow checks bytes that have come, and returns how many of them raft may have.
func (c *inConn) follow(b []byte) (n int, err error) {
	switch {
	case c.phase == body || len(b) == 0:
		return len(b), nil
	case c.phase == awaited && int(b[0]) >= len(requestBounds):
		return 0, fmt.Errorf("%w: type %d", errBounds, b[0])
	case c.phase == awaited:
		c.phase, c.kind, c.begun, c.got = reading, b[0], time.Now(), 0
		c.scan.begin(requestBounds[c.kind])
		n = 1
	}
	k, whole, err := c.scan.scan(b[n:])
	if n += k; err != nil {
		return 0, err
	}
	if err := c.owner.count(c, int64(n), whole); err != nil {
		return 0, err
	}
	switch {
	case whole && c.kind == requestSnapshot:
		c.phase = body
		return len(b), nil
	case whole:
		c.phase = complete
	}
	return n, nil
}

// Write sends the answer to a request. After a snapshot no other request may follow on the
// connection: raft never sends one, and only raft knows where the body ends.
func (c *inConn) Write(p []byte) (int, error) {
	last := c.phase == body
	c.phase, c.begun, c.got = awaited, time.Time{}, 0
	c.owner.release(c)
	if err := c.SetWriteDeadline(time.Now().Add(stallTimeout)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if last && err == nil {
		err = errLast
	}
	return n, err
}

func (c *inConn) Close() error {
	c.owner.untrack(c)
	c.owner.release(c)
	return c.Conn.Close()
}
