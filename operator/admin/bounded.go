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
	// maxRequests limits the requests under way, not counting probes: many more than collectors and operators need.
	// addressSeats of them may come from one address without credentials, and as many are for those with credentials alone.
	maxRequests           = 128
	maxRequestsPerAddress = 64
	// gracePeriod protects a new connection from being closed for another one. A request that is sent at once is read in that time.
	gracePeriod = 100 * time.Millisecond
	// stuckTimeout is the longest that a part of a reply may take to leave before its connection may be closed for another one.
	stuckTimeout = time.Second
	// slotWait is the longest wait for a seat, while a quarter of the connections is free: a client that is rejected at once
	// retries at once.
	slotWait = 250 * time.Millisecond
	// rejectTimeout is the longest that a client may take to read the reply that there is no seat for it.
	rejectTimeout = 100 * time.Millisecond
	// maxRepliesPerConn is the number of replies after which a connection is closed. Pages of a long list take several.
	maxRepliesPerConn = 256
)

// boundedListener is a listener with a bound on its connections, and on those that have a request under way. If there is no room for a new
// connection, another one is closed. That is one without a request that is not new: the one that has waited for longest, of the
// address with most connections. If all have requests, it is one whose client does not read the answer. If there is none of these
// either, the new connection waits. So neither silent clients nor clients that do not read keep a probe out.
//
// A request takes a seat, which its connection keeps until the answer has been sent. A probe needs no seat.
type boundedListener struct {
	net.Listener
	maxConns  int
	roomFreed chan struct{} // has room for one: a connection has ended or has nothing to do any more
	closed    chan struct{}
	closeOnce sync.Once

	mu             sync.Mutex
	conns          map[*boundedConn]bool
	idleCount      uint64                     // how often a connection became quiet
	connsByAddress map[netip.Addr]int         // connections of an address
	usedSlots      [authenticatedSlot + 1]int // those that are taken
	anonymousSlots map[netip.Addr]int         // anonymous seats of an address
}

// slotKind is the kind of seat that a connection has.
type slotKind int

const (
	noSlot slotKind = iota
	anonymousSlot
	authenticatedSlot // of somebody with credentials
)

// boundedConn is a connection of a boundedListener. The fields after the connection are guarded by its lock.
type boundedConn struct {
	net.Conn
	listener     *boundedListener
	network      netip.Addr
	idle         bool      // it has no request
	acceptedAt   time.Time // when it came
	idleOrder    uint64    // in which connections became quiet
	replies      int
	slot         slotKind
	writeStarted time.Time // since when a write has not ended; zero: there is none
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

func newBoundedListener(l net.Listener, most int) *boundedListener {
	return &boundedListener{
		Listener: l, maxConns: most, roomFreed: make(chan struct{}, 1), closed: make(chan struct{}),
		conns: map[*boundedConn]bool{}, connsByAddress: map[netip.Addr]int{}, anonymousSlots: map[netip.Addr]int{},
	}
}

// Close implements net.Listener.
func (b *boundedListener) Close() error {
	b.closeOnce.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// Accept returns the next connection when there is room for it.
func (b *boundedListener) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &boundedConn{Conn: c, listener: b, network: networkOf(c.RemoteAddr())}
	for {
		oldest, wait := b.admitConn(one, time.Now())
		if oldest != nil {
			_ = oldest.Close() // nobody waits for the outcome
		}
		if wait == 0 {
			return one, nil
		}
		over := time.NewTimer(wait)
		select {
		case <-b.roomFreed:
		case <-over.C:
		case <-b.closed:
			over.Stop()
			_ = c.Close()
			return nil, net.ErrClosed
		}
		over.Stop()
	}
}

// admitConn adds c, and returns the connection that has to be closed for it, if any. If none can be closed yet, it adds nothing, and
// wait is the time until the next try.
func (b *boundedListener) admitConn(c *boundedConn, now time.Time) (oldest *boundedConn, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.conns) >= b.maxConns {
		if oldest = b.evictionCandidate(now); oldest == nil {
			return nil, gracePeriod / 4
		}
		b.removeConn(oldest)
	}
	c.acceptedAt = now
	b.markIdle(c)
	b.conns[c] = true
	b.connsByAddress[c.network]++
	return oldest, 0
}

// evictionCandidate returns the connection that makes room, or nil. The caller holds the lock.
func (b *boundedListener) evictionCandidate(now time.Time) (found *boundedConn) {
	for c := range b.conns {
		idle := c.idle && (c.replies > 0 || now.Sub(c.acceptedAt) >= gracePeriod)
		if !idle && !c.isStuck(now) {
			continue
		}
		if found == nil || b.connsByAddress[c.network] > b.connsByAddress[found.network] || b.connsByAddress[c.network] == b.connsByAddress[found.network] && c.evictBefore(found) {
			found = c
		}
	}
	return found
}

// evictBefore reports whether c makes room rather than d: quiet connections before others, and then the one that waits for longest.
func (c *boundedConn) evictBefore(d *boundedConn) bool {
	if c.idle != d.idle {
		return c.idle
	}
	return c.idleOrder < d.idleOrder
}

// isStuck reports whether the client does not read its answer.
func (c *boundedConn) isStuck(now time.Time) bool {
	return !c.writeStarted.IsZero() && now.Sub(c.writeStarted) >= stuckTimeout
}

// Write implements net.Conn. It records since when it has been writing.
func (c *boundedConn) Write(p []byte) (int, error) {
	c.setWriteStarted(time.Now())
	defer c.setWriteStarted(time.Time{})
	return c.Conn.Write(p)
}

// Close implements net.Conn. It gives the place of the connection back, whichever side closes it.
func (c *boundedConn) Close() error {
	c.listener.mu.Lock()
	c.listener.removeConn(c)
	c.listener.mu.Unlock()
	return c.Conn.Close()
}

func (c *boundedConn) setWriteStarted(at time.Time) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.writeStarted = at
}

// boundedConnOf returns the connection below TLS, or nil if it is none of a boundedListener's.
func boundedConnOf(c net.Conn) *boundedConn {
	for {
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			one, _ := c.(*boundedConn)
			return one
		}
		c = over.NetConn()
	}
}

// connStateChanged implements http.Server.ConnState. The server calls it when the headers of a request have been read, when the request
// has been answered, and when the connection has ended.
func (b *boundedListener) connStateChanged(conn net.Conn, state http.ConnState) {
	c := boundedConnOf(conn)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.conns[c] {
		return // admit has removed it
	}
	b.releaseSlot(c)
	switch state {
	case http.StateActive:
		c.idle = false
	case http.StateIdle:
		b.markIdle(c)
		c.replies++
	case http.StateClosed, http.StateHijacked:
		b.removeConn(c)
	}
	if state != http.StateActive {
		select {
		case b.roomFreed <- struct{}{}:
		default:
		}
	}
}

// markIdle records that c has no request. The caller holds the lock.
func (b *boundedListener) markIdle(c *boundedConn) {
	b.idleCount++
	c.idle, c.idleOrder = true, b.idleCount
}

// removeConn removes c. The caller holds the lock.
func (b *boundedListener) removeConn(c *boundedConn) {
	if !b.conns[c] {
		return
	}
	b.releaseSlot(c)
	delete(b.conns, c)
	if b.connsByAddress[c.network]--; b.connsByAddress[c.network] <= 0 {
		delete(b.connsByAddress, c.network)
	}
}

// releaseSlot frees the seat of c. The caller holds the lock.
func (b *boundedListener) releaseSlot(c *boundedConn) {
	if c.slot == noSlot {
		return
	}
	b.usedSlots[c.slot]--
	if c.slot == anonymousSlot {
		if b.anonymousSlots[c.network]--; b.anonymousSlots[c.network] <= 0 {
			delete(b.anonymousSlots, c.network)
		}
	}
	c.slot = noSlot
}

// takeSlot gives c a seat of a kind for the request that it has. If there is none, one of the same kind makes room whose client does
// not read; it is returned, to be closed. ok is false if there is no such one, or if c has made room itself since its request came:
// nothing would give its seat back.
func (b *boundedListener) takeSlot(c *boundedConn, kind slotKind, now time.Time) (stuck *boundedConn, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.conns[c] {
		return nil, false
	}
	crowded := kind == anonymousSlot && b.anonymousSlots[c.network] >= maxRequestsPerAddress
	if crowded || b.usedSlots[kind] >= slotLimit(kind) {
		for d := range b.conns {
			if d.slot == kind && d.isStuck(now) && (!crowded || d.network == c.network) && (stuck == nil || d.writeStarted.Before(stuck.writeStarted)) {
				stuck = d
			}
		}
		if stuck == nil {
			return nil, false
		}
		b.removeConn(stuck)
	}
	c.slot = kind
	b.usedSlots[kind]++
	if kind == anonymousSlot {
		b.anonymousSlots[c.network]++
	}
	return stuck, true
}

// hasRoom reports whether a quarter of the connections is free.
func (b *boundedListener) hasRoom() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.conns) < b.maxConns*3/4
}

func slotLimit(kind slotKind) int {
	if kind == authenticatedSlot {
		return maxRequestsPerAddress
	}
	return maxRequests
}

// connKey is the key under which the context of a request has its connection.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, boundedConnOf(c))
}

// takeRequestSlot takes a seat for a request, and reports whether it may be answered. A connection that has had enough answers is closed
// after this one.
func (h *HTTP) takeRequestSlot(w http.ResponseWriter, r *http.Request) bool {
	c, _ := r.Context().Value(connKey{}).(*boundedConn)
	if c == nil {
		return true // a test without connections
	}
	kind := anonymousSlot
	if h.authorizer.roleOf(r) > roleNone {
		kind = authenticatedSlot
	}
	stuck, ok := c.listener.takeSlot(c, kind, time.Now())
	if !ok && c.listener.hasRoom() {
		sleepContext(r.Context(), slotWait)
		stuck, ok = c.listener.takeSlot(c, kind, time.Now())
	}
	if stuck != nil {
		_ = stuck.Close() // nobody waits for the outcome
	}
	if c.replyCount() >= maxRepliesPerConn-1 || !ok {
		w.Header().Set("Connection", "close")
	}
	return ok
}

func (c *boundedConn) replyCount() int {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	return c.replies
}

// errNoSlot is the answer to a request for which there is no seat.
var errNoSlot = &Failure{Status: http.StatusServiceUnavailable, Text: "too many requests are under way; try again"}

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

// closeIdle closes the connections without a request.
func (b *boundedListener) closeIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.idle {
			_ = c.Conn.Close() // does not wait: nothing is being written to it
		}
	}
}
