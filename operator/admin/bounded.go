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
	// maxConns limits the connections of each HTTP port: one per request slot, and several that are between two
	// requests or new.
	maxConns = 1024
	// maxRequests limits the requests under way, not counting probes. One address may use maxRequestsPerAddress of
	// them without credentials, and as many more are reserved for requests with credentials.
	maxRequests           = 128
	maxRequestsPerAddress = 64
	// gracePeriod protects a new connection from eviction until its first request has been read.
	gracePeriod = 100 * time.Millisecond
	// stuckTimeout is the time after which a blocked write makes its connection evictable.
	stuckTimeout = time.Second
	// slotWait is the longest wait for a slot while a quarter of the connections is free: a client that is
	// rejected at once retries at once.
	slotWait = 250 * time.Millisecond
	// rejectTimeout limits the time to send the reply that there is no slot.
	rejectTimeout = 100 * time.Millisecond
	// maxRepliesPerConn is the number of replies after which a connection is closed.
	maxRepliesPerConn = 256
)

// boundedListener limits its connections and their concurrent requests. For a new connection beyond the limit it
// evicts one that is idle and not new, or whose client does not read its reply. It prefers the address with the
// most connections, then idle connections, then the one that has waited longest. If it can evict none, the new
// connection waits. So neither silent clients nor slow readers lock out a probe.
//
// A request takes a slot, which its connection keeps until the reply has been sent. A probe needs none.
type boundedListener struct {
	net.Listener
	maxConns  int
	roomFreed chan struct{} // capacity 1: a connection has ended or become idle
	closed    chan struct{}
	closeOnce sync.Once

	mu             sync.Mutex
	conns          map[*boundedConn]bool
	idleCount      uint64                     // counts connections that became idle
	connsByAddress map[netip.Addr]int         // open connections
	usedSlots      [authenticatedSlot + 1]int // slots in use
	anonymousSlots map[netip.Addr]int         // anonymous slots in use
}

// slotKind is the kind of a request slot.
type slotKind int

const (
	noSlot slotKind = iota
	anonymousSlot
	authenticatedSlot // for requests with credentials
)

// boundedConn is a connection of a boundedListener, whose lock guards the fields after network.
type boundedConn struct {
	net.Conn
	listener     *boundedListener
	network      netip.Addr
	idle         bool      // it has no request under way
	acceptedAt   time.Time // by admitConn
	idleOrder    uint64    // among idle connections
	replies      int
	slot         slotKind
	writeStarted time.Time // of the write under way; zero: there is none
}

// CloseWrite lets net/http close the connection of a request that it has not read to the end. Without it, the
// client would get a reset instead of the reply.
func (c *boundedConn) CloseWrite() error { return closeWrite(c.Conn) }

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

func (b *boundedListener) Close() error {
	b.closeOnce.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// Accept implements net.Listener. It returns the next connection once there is room for it.
func (b *boundedListener) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	one := &boundedConn{Conn: c, listener: b, network: networkOf(c.RemoteAddr())}
	for {
		oldest, wait := b.admitConn(one, time.Now())
		if oldest != nil {
			_ = oldest.Close() // the outcome does not matter
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

// admitConn adds c and returns the connection to close for it, if any. If none can be closed yet, it adds
// nothing, and wait is the time until the next try.
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

// evictionCandidate returns the connection to evict, or nil. The caller holds the lock.
func (b *boundedListener) evictionCandidate(now time.Time) (found *boundedConn) {
	for c := range b.conns {
		idle := c.idle && (c.replies > 0 || now.Sub(c.acceptedAt) >= gracePeriod)
		if !idle && !c.isStuck(now) {
			continue
		}
		if found == nil || b.connsByAddress[c.network] > b.connsByAddress[found.network] ||
			b.connsByAddress[c.network] == b.connsByAddress[found.network] && c.evictBefore(found) {
			found = c
		}
	}
	return found
}

// evictBefore orders idle connections before others, and then those that have waited longest.
func (c *boundedConn) evictBefore(d *boundedConn) bool {
	if c.idle != d.idle {
		return c.idle
	}
	return c.idleOrder < d.idleOrder
}

// isStuck reports whether the client does not read its reply.
func (c *boundedConn) isStuck(now time.Time) bool {
	return !c.writeStarted.IsZero() && now.Sub(c.writeStarted) >= stuckTimeout
}

// Write implements net.Conn. It records when it began to block.
func (c *boundedConn) Write(p []byte) (int, error) {
	c.setWriteStarted(time.Now())
	defer c.setWriteStarted(time.Time{})
	return c.Conn.Write(p)
}

// Close implements net.Conn. It frees the place of the connection.
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

// boundedConnOf returns the boundedConn below TLS, or nil.
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

// connStateChanged implements http.Server.ConnState. The server calls it after the headers of a request, after
// the reply, and at the end.
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

// releaseSlot frees the slot of c. The caller holds the lock.
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

// takeSlot gives c a slot for its request. If none is free, it evicts a stuck connection of the same kind, which
// the caller must close. It returns false if there is none, or if c itself was evicted since its request came:
// nothing would free its slot.
func (b *boundedListener) takeSlot(c *boundedConn, kind slotKind, now time.Time) (stuck *boundedConn, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.conns[c] {
		return nil, false
	}
	crowded := kind == anonymousSlot && b.anonymousSlots[c.network] >= maxRequestsPerAddress
	if crowded || b.usedSlots[kind] >= slotLimit(kind) {
		for d := range b.conns {
			if d.slot == kind && d.isStuck(now) && (!crowded || d.network == c.network) &&
				(stuck == nil || d.writeStarted.Before(stuck.writeStarted)) {
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

// quarterIsFree reports whether a quarter of the connections is free.
func (b *boundedListener) quarterIsFree() bool {
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

// connKey is the context key of a request's connection.
type connKey struct{}

// connContext implements http.Server.ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, boundedConnOf(c))
}

// takeRequestSlot reports whether the request got a slot. It closes the connection after its last allowed reply.
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
	if !ok && c.listener.quarterIsFree() {
		sleepContext(r.Context(), slotWait)
		stuck, ok = c.listener.takeSlot(c, kind, time.Now())
	}
	if stuck != nil {
		_ = stuck.Close() // the outcome does not matter
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

var errNoSlot = &Failure{Status: http.StatusServiceUnavailable, Text: "too many requests are under way; try again"}

// networkOf returns the address under which connections are counted: one for all loopback addresses, and one for
// each /64 of IPv6.
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

func (b *boundedListener) closeIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		if c.idle {
			_ = c.Conn.Close() // does not wait: nothing is being written to it
		}
	}
}
