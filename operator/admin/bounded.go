package admin

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConns limits the connections of each port for HTTP: the seats, and for each of them some connections that are
	// between two requests or have just come. They are few beside the descriptors of the clients.
	maxConns = 1024
	// maxSeats limits the requests under way, not counting probes: many more than collectors and operators need.
	// addressSeats of them may come from one address without credentials, and as many are for those with credentials alone.
	maxSeats     = 128
	addressSeats = 64
	// graceTime protects a new connection from being closed for another one. A request that is sent at once is read in that time.
	graceTime = 100 * time.Millisecond
	// stuckTime is the longest that a part of a reply may take to leave before its connection may be closed for another one.
	stuckTime = time.Second
	// seatTime is the longest wait for a seat, while a quarter of the connections is free: a client that is rejected at once
	// retries at once.
	seatTime = 250 * time.Millisecond
	// refusalTime is the longest that a client may take to read the reply that there is no seat for it.
	refusalTime = 100 * time.Millisecond
	// maxAnswers is the number of replies after which a connection is closed. Pages of a long list take several.
	maxAnswers = 256
)

// boundedListener is a listener with a bound on its connections, and on those that have a request under way. If there is no room for a new
// connection, another one is closed. That is one without a request that is not new: the one that has waited for longest, of the
// address with most connections. If all have requests, it is one whose client does not read the answer. If there is none of these
// either, the new connection waits. So neither silent clients nor clients that do not read keep a probe out.
//
// A request takes a seat, which its connection keeps until the answer has been sent. A probe needs no seat.
type boundedListener struct {
	net.Listener
	most   int
	left   chan struct{} // has room for one: a connection has ended or has nothing to do any more
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	conns map[*boundedConn]bool
	turns uint64             // how often a connection became quiet
	from  map[netip.Addr]int // connections of an address
	seats [ownSeat + 1]int   // those that are taken
	taken map[netip.Addr]int // anonymous seats of an address
}

// seat is the kind of seat that a connection has.
type seat int

const (
	noSeat seat = iota
	anonymousSeat
	ownSeat // of somebody with credentials
)

// boundedConn is a connection of a boundedListener. The fields after the connection are guarded by its lock.
type boundedConn struct {
	net.Conn
	of      *boundedListener
	addr    netip.Addr
	quiet   bool      // it has no request
	since   time.Time // when it came
	order   uint64    // in which connections became quiet
	answers int
	seat    seat
	writing time.Time // since when a write has not ended; zero: there is none
}

// CloseWrite implements what net/http asks of a connection before it closes one whose request it has not read to the end: without
// it, the client would get a reset in place of the answer.
func (c *boundedConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite closes the writing side of a connection that has one.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func newBounded(l net.Listener, most int) *boundedListener {
	return &boundedListener{
		Listener: l, most: most, left: make(chan struct{}, 1), closed: make(chan struct{}),
		conns: map[*boundedConn]bool{}, from: map[netip.Addr]int{}, taken: map[netip.Addr]int{},
	}
}

// Close implements net.Listener.
func (b *boundedListener) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// Accept returns the next connection when there is room for it.
func (b *boundedListener) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &boundedConn{Conn: c, of: b, addr: networkOf(c.RemoteAddr())}
	for {
		oldest, wait := b.admit(one, time.Now())
		if oldest != nil {
			_ = oldest.Close() // nobody waits for the outcome
		}
		if wait == 0 {
			return one, nil
		}
		over := time.NewTimer(wait)
		select {
		case <-b.left:
		case <-over.C:
		case <-b.closed:
			over.Stop()
			_ = c.Close()
			return nil, net.ErrClosed
		}
		over.Stop()
	}
}

// admit adds c, and returns the connection that has to be closed for it, if any. If none can be closed yet, it adds nothing, and
// wait is the time until the next try.
func (b *boundedListener) admit(c *boundedConn, now time.Time) (oldest *boundedConn, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) >= b.most {
		if oldest = b.idlest(now); oldest == nil {
			return nil, graceTime / 4
		}
		b.forget(oldest)
	}
	c.since = now
	b.rest(c)
	b.conns[c] = true
	b.from[c.addr]++
	return oldest, 0
}

// idlest returns the connection that makes room, or nil. The caller holds the lock.
func (b *boundedListener) idlest(now time.Time) (found *boundedConn) {
	for c := range b.conns {
		idle := c.quiet && (c.answers > 0 || now.Sub(c.since) >= graceTime)
		if !idle && !c.stuck(now) {
			continue
		}
		if found == nil || b.from[c.addr] > b.from[found.addr] || b.from[c.addr] == b.from[found.addr] && c.before(found) {
			found = c
		}
	}
	return found
}

// before reports whether c makes room rather than d: quiet connections before others, and then the one that waits for longest.
func (c *boundedConn) before(d *boundedConn) bool {
	if c.quiet != d.quiet {
		return c.quiet
	}
	return c.order < d.order
}

// stuck reports whether the client does not read its answer.
func (c *boundedConn) stuck(now time.Time) bool {
	return !c.writing.IsZero() && now.Sub(c.writing) >= stuckTime
}

// Write implements net.Conn. It records since when it has been writing.
func (c *boundedConn) Write(p []byte) (int, error) {
	c.note(time.Now())
	defer c.note(time.Time{})
	return c.Conn.Write(p)
}

// Close implements net.Conn. It gives the place of the connection back, whichever side closes it.
func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

func (c *boundedConn) note(at time.Time) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.writing = at
}

// boundOf returns the connection below TLS, or nil if it is none of a boundedListener's.
func boundOf(c net.Conn) *boundedConn {
	for {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			one, _ := c.(*boundedConn)
			return one
		}
		c = over.NetConn()
	}
}

// state implements http.Server.ConnState. The server calls it when the headers of a request have been read, when the request
// has been answered, and when the connection has ended.
func (b *boundedListener) state(conn net.Conn, state http.ConnState) {
	c := boundOf(conn)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.conns[c] {
		return // admit has removed it
	}
	b.leave(c)
	switch state {
	case http.StateActive:
		c.quiet = false
	case http.StateIdle:
		b.rest(c)
		c.answers++
	case http.StateClosed, http.StateHijacked:
		b.forget(c)
	}
	if state != http.StateActive {
		select {
		case b.left <- struct{}{}:
		default:
		}
	}
}

// rest records that c has no request. The caller holds the lock.
func (b *boundedListener) rest(c *boundedConn) {
	b.turns++
	c.quiet, c.order = true, b.turns
}

// forget removes c. The caller holds the lock.
func (b *boundedListener) forget(c *boundedConn) {
	if !b.conns[c] {
		return
	}
	b.leave(c)
	delete(b.conns, c)
	if b.from[c.addr]--; b.from[c.addr] <= 0 {
		delete(b.from, c.addr)
	}
}

// leave frees the seat of c. The caller holds the lock.
func (b *boundedListener) leave(c *boundedConn) {
	if c.seat == noSeat {
		return
	}
	b.seats[c.seat]--
	if c.seat == anonymousSeat {
		if b.taken[c.addr]--; b.taken[c.addr] <= 0 {
			delete(b.taken, c.addr)
		}
	}
	c.seat = noSeat
}

// sit gives c a seat of a kind for the request that it has. If there is none, one of the same kind makes room whose client does
// not read; it is returned, to be closed. ok is false if there is no such one, or if c has made room itself since its request came:
// nothing would give its seat back.
func (b *boundedListener) sit(c *boundedConn, kind seat, now time.Time) (stuck *boundedConn, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.conns[c] {
		return nil, false
	}
	crowded := kind == anonymousSeat && b.taken[c.addr] >= addressSeats
	if crowded || b.seats[kind] >= seatsOf(kind) {
		for d := range b.conns {
			if d.seat == kind && d.stuck(now) && (!crowded || d.addr == c.addr) && (stuck == nil || d.writing.Before(stuck.writing)) {
				stuck = d
			}
		}
		if stuck == nil {
			return nil, false
		}
		b.forget(stuck)
	}
	c.seat = kind
	b.seats[kind]++
	if kind == anonymousSeat {
		b.taken[c.addr]++
	}
	return stuck, true
}

// spacious reports whether a quarter of the connections is free.
func (b *boundedListener) spacious() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns) < b.most*3/4
}

func seatsOf(kind seat) int {
	if kind == ownSeat {
		return addressSeats
	}
	return maxSeats
}

// connKey is the key under which the context of a request has its connection.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, boundOf(c))
}

// takeSeat takes a seat for a request, and reports whether it may be answered. A connection that has had enough answers is closed
// after this one.
func (h *HTTP) takeSeat(w http.ResponseWriter, r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(*boundedConn)
	if c == nil {
		return true // a test without connections
	}
	kind := anonymousSeat
	if h.authorizer.role(r) > roleNone {
		kind = ownSeat
	}
	stuck, ok := c.of.sit(c, kind, time.Now())
	if !ok && c.of.spacious() {
		rest(r.Context(), seatTime)
		stuck, ok = c.of.sit(c, kind, time.Now())
	}
	if stuck != nil {
		_ = stuck.Close() // nobody waits for the outcome
	}
	if c.answered() >= maxAnswers-1 || !ok {
		w.Header().Set("Connection", "close")
	}
	return ok
}

func (c *boundedConn) answered() int {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.answers
}

// errNoSeat is the answer to a request for which there is no seat.
var errNoSeat = &Failure{Status: http.StatusServiceUnavailable, Text: "too many requests are under way; try again"}

// networkOf returns the address that a connection is counted under: all loopback addresses are one, and a /64 of IPv6 is.
func networkOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	addr := ap.Addr().Unmap()
	switch {
	case err != nil:
		return netip.Addr{}
	case addr.IsLoopback():
		return netip.IPv6Loopback()
	case addr.Is6():
		if p, err := addr.WithZone("").Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return addr
}

// closeQuiet closes the connections without a request.
func (b *boundedListener) closeQuiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.quiet {
			_ = c.Conn.Close() // does not wait: nothing is being written to it
		}
	}
}
