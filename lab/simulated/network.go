package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errGone is for hosts that have been killed: nothing that they do has any effect.
var errGone = errors.New("simulated: this host was killed")

// NoAddress finds no address of a host, because these hosts have none. The system's resolver must not be used in a
// bubble: the channel that it makes in one cannot be used in the next.
func NoAddress(_ context.Context, host string) ([]netip.Addr, error) {
	return nil, fmt.Errorf("simulated: host %s has no IP address", host)
}

// Network is the network of one ensemble, in memory. Every connection is between two hosts: members
// by their ids, and host 0 for clients. Where nothing listens, connections are refused. These are its faults:
//
//   - Cut, Block, Reset, Kill: connections are reset, and bytes in flight are lost. New ones wait until they are
//     given up (Cut), are refused (Block, Kill), or are accepted (Reset).
//   - Hang: nothing arrives, and neither side is notified, until EndHang. Then everything arrives in
//     order, as TCP resends what was lost.
//   - DelayBy: everything takes longer.
//   - Lose: packets are lost, and TCP sends them again after longer and longer timeouts.
//   - LimitRate: only so many bytes arrive per second, on all connections together.
//   - Orphan: one side has lost its connections and knows it; the other side still reads what was
//     sent on them.
//   - Forget: connections are dead, and neither side is notified. New ones can be made.
//   - FlipBit: one bit of what is sent is another one when it arrives.
//   - Drop: the same as Forget, and attempts to make new ones wait until they are given up.
//
// It is safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address
	hosts     map[string]uint32    // by address: the host that listens there, or did
	conns     map[*conn]struct{}   // both ends of each
	ports     int                  // how many ports the clients' ends have used
	cut       map[[2]uint32]bool   // links, the smaller host first
	blocked   map[route]int        // how many Blocks are in force
	dropped   map[route]int        // how many Drops are in force
	dead      map[uint32]bool
	lives     map[uint32]int              // how often each host was killed
	hung      map[[2]uint32]int           // from, to: how many hangs are in force
	slow      map[[2]uint32]time.Duration // from, to
	narrow    map[[2]uint32]*narrowLink   // from, to
	losses    map[[2]uint32]Loss          // from, to
	flips     map[[2]uint32]int           // from, to: after how many bytes a bit is flipped; none: never
	spoilt    []*conn                     // the ends that have sent a flipped bit
	changed   chan struct{}               // closed and replaced when a Cut, a hang or a Drop ends
}

// route is the way from a host to an address.
type route struct {
	from uint32
	addr string
}

// NewNetwork returns a network on which every host reaches every other.
func NewNetwork() *Network {
	return &Network{
		listeners: make(map[string]*listener),
		hosts:     make(map[string]uint32),
		conns:     make(map[*conn]struct{}),
		cut:       make(map[[2]uint32]bool),
		blocked:   make(map[route]int),
		dropped:   make(map[route]int),
		dead:      make(map[uint32]bool),
		lives:     make(map[uint32]int),
		hung:      make(map[[2]uint32]int),
		slow:      make(map[[2]uint32]time.Duration),
		narrow:    make(map[[2]uint32]*narrowLink),
		losses:    make(map[[2]uint32]Loss),
		flips:     make(map[[2]uint32]int),
		changed:   make(chan struct{}),
	}
}

// Listen opens addr on host.
func (n *Network) Listen(host uint32, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.findListener(addr) != nil {
		return nil, fmt.Errorf("simulated: address %s is in use", addr)
	}
	l := &listener{
		network: n, host: host, life: n.lives[host], addr: addr,
		incoming: make(chan net.Conn), done: make(chan struct{}),
	}
	n.listeners[addr], n.hosts[addr] = l, host
	return l, nil
}

// Dial connects host to the listener of addr. It is refused at once if there is none, and waits while the link is cut,
// hangs or drops what is sent.
func (n *Network) Dial(ctx context.Context, host uint32, addr string) (net.Conn, error) {
	for {
		ours, theirs, l, changed := n.connectPair(host, addr)
		if changed != nil {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return nil, fmt.Errorf("dial %s: %w", addr, ctx.Err())
			}
		}
		if l == nil {
			return nil, fmt.Errorf("dial %s: %w", addr, syscall.ECONNREFUSED)
		}
		err := n.awaitConnected(ctx, host, l.host, addr)
		if err == nil {
			select {
			case l.incoming <- theirs:
				return ours, nil
			case <-l.done:
				err = syscall.ECONNREFUSED
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		_ = ours.Close()
		_ = theirs.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
}

// connectPair makes the two ends of a connection to addr. If changed is not nil, the link is cut, hangs or drops; try again
// when changed is closed. If l is nil then, the connection is refused.
func (n *Network) connectPair(host uint32, addr string) (ours, theirs *conn, l *listener, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, known := n.hosts[addr]
	if known && (n.cut[linkKey(host, at)] || n.hangsLocked(host, at)) || n.dropped[route{host, addr}] > 0 {
		return nil, nil, nil, n.changed
	}
	l = n.findListener(addr)
	if l == nil || n.isCut(host, l.host) || n.blocked[route{host, addr}] > 0 {
		return nil, nil, nil, nil
	}
	there, back := newPipe(), newPipe()
	n.ports++
	ours = &conn{network: n, from: host, to: l.host, remote: addr, listens: addr, in: back, out: there, number: n.ports}
	remote := fmt.Sprintf("127.0.0.1:%d", 1024+n.ports%60000)
	theirs = &conn{network: n, from: l.host, to: host, remote: remote, listens: addr, in: there, out: back, number: n.ports}
	for _, c := range []*conn{ours, theirs} {
		n.conns[c] = struct{}{}
		c.out.setDelay(n.slow[[2]uint32{c.from, c.to}])
		c.out.limitRate(n.narrow[[2]uint32{c.from, c.to}])
		c.out.setLoss(newLossy(n.losses[[2]uint32{c.from, c.to}], c.from, c.to, c))
	}
	return ours, theirs, l, nil
}

// findListener returns the listener of addr, or nil if there is none or its host was killed.
func (n *Network) findListener(addr string) *listener {
	if l := n.listeners[addr]; l != nil && l.life == n.lives[l.host] {
		return l
	}
	return nil
}

// Cut breaks the link between two hosts: their connections are reset, and attempts to make new ones wait until Heal.
func (n *Network) Cut(a, b uint32) { n.setCut(linkKey(a, b), true) }

// Heal ends a Cut.
func (n *Network) Heal(a, b uint32) { n.setCut(linkKey(a, b), false) }

// Reset breaks the connections of one host to an address. New ones are accepted at once.
func (n *Network) Reset(from uint32, addr string) {
	for _, c := range n.findEnds(func(c *conn) bool { return c.remote == addr && c.from == from }) {
		c.resetConn()
	}
}

// Orphan breaks the connections of one host to an address for that host only. The other side learns
// of it after late, and receives nothing until then; then it reads what had been sent, and the end.
// The host may connect again at once. The other side then has two connections, and the older one
// delivers last, even if the host has been killed.
func (n *Network) Orphan(from uint32, addr string, late time.Duration) {
	for _, c := range n.findEnds(func(c *conn) bool { return c.remote == addr && c.from == from }) {
		c.orphanEnd(late)
		for _, end := range n.findEnds(func(end *conn) bool { return end.in == c.out }) {
			end.orphaned.Store(true)
		}
	}
}

// Connected reports whether a host has a connection to an address.
func (n *Network) Connected(from uint32, addr string) bool {
	return len(n.findEnds(func(c *conn) bool { return c.remote == addr && c.from == from })) > 0
}

// Forget makes the connections of one host to an address dead, as a firewall does that has
// forgotten them. Bytes in flight and bytes that are sent from now on are lost, and so is the end
// of a connection. Neither side gets an error. New connections can be made.
func (n *Network) Forget(from uint32, addr string) {
	for _, c := range n.findEnds(func(c *conn) bool { return c.remote == addr && c.from == from }) {
		c.in.loseAll()
		c.out.loseAll()
	}
}

// Drop forgets the connections of one host to an address, and makes attempts to open new ones wait
// until EndDrop. Drops are counted.
func (n *Network) Drop(from uint32, addr string) {
	n.mu.Lock()
	n.dropped[route{from, addr}]++
	n.mu.Unlock()
	n.Forget(from, addr)
}

// EndDrop ends one Drop. The connections stay dead.
func (n *Network) EndDrop(from uint32, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dropped[route{from, addr}]--
	n.wakeDialers()
}

// Block resets the connections of one host to an address and refuses new ones until Unblock. Blocks
// are counted.
func (n *Network) Block(from uint32, addr string) {
	n.mu.Lock()
	n.blocked[route{from, addr}]++
	n.mu.Unlock()
	n.Reset(from, addr)
}

// Unblock ends one Block.
func (n *Network) Unblock(from uint32, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.blocked[route{from, addr}]--
}

// Hang holds what one host sends to the other until EndHang. Hangs are counted. No connection between
// the two can be made while either direction hangs.
func (n *Network) Hang(from, to uint32) { n.adjustHangs(from, to, 1) }

// EndHang ends one Hang.
func (n *Network) EndHang(from, to uint32) { n.adjustHangs(from, to, -1) }

func (n *Network) adjustHangs(from, to uint32, by int) {
	way := [2]uint32{from, to}
	n.mu.Lock()
	n.hung[way] += by
	held := n.hung[way] > 0
	if !held {
		n.wakeDialers()
	}
	n.mu.Unlock()
	for _, p := range n.pipesBetween(from, to) {
		p.holdPieces(held)
	}
}

// wakeDialers makes every goroutine that waits to connect try again. The lock is held.
func (n *Network) wakeDialers() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// DelayBy delays everything that one host sends to the other; a delay of 0 ends it.
func (n *Network) DelayBy(from, to uint32, by time.Duration) {
	n.mu.Lock()
	n.slow[[2]uint32{from, to}] = by
	n.mu.Unlock()
	for _, p := range n.pipesBetween(from, to) {
		p.setDelay(by)
	}
}

// LimitRate limits how many bytes a second one host sends to the other, on all connections together.
// They pass in the order in which they are sent. A rate of 0 ends it.
func (n *Network) LimitRate(from, to uint32, rate int) {
	var s *narrowLink
	if rate > 0 {
		s = &narrowLink{rate: rate}
	}
	n.mu.Lock()
	n.narrow[[2]uint32{from, to}] = s
	n.mu.Unlock()
	for _, p := range n.pipesBetween(from, to) {
		p.limitRate(s)
	}
}

// FlipBit changes one bit of the n-th byte that one host sends to the other from now on, on whatever connection that is.
func (n *Network) FlipBit(from, to uint32, at int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.flips[[2]uint32{from, to}] = at
}

// FlippedBits returns the number of flipped bits, the number of connections that carried them and are still open where
// they arrived, and the number of those whose other end cannot know it yet. Connections that are forgotten do not count as open: nothing
// more arrives there.
func (n *Network) FlippedBits() (bits, open, early int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, sent := range n.spoilt {
		for c := range n.conns {
			if c.in == sent.out && !c.in.isLost() {
				open++
				if sent.since < longestRecord {
					early++
				}
			}
		}
	}
	return len(n.spoilt), open, early
}

// flipBits returns the bytes that arrive of b, which an end sends.
func (n *Network) flipBits(c *conn, b []byte) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.spoilt {
		c.since += len(b)
	}
	way := [2]uint32{c.from, c.to}
	at, flips := n.flips[way]
	switch {
	case !flips || len(b) == 0:
		return b
	case at > len(b):
		n.flips[way] = at - len(b)
		return b
	}
	delete(n.flips, way)
	n.spoilt = append(n.spoilt, c)
	c.spoilt = true
	b = bytes.Clone(b)
	b[max(at, 1)-1] ^= 1 << (at % 8)
	return b
}

// Kill takes a host off the network as a crash would: nothing that it sends from now on arrives,
// and its addresses are free.
func (n *Network) Kill(host uint32) {
	n.mu.Lock()
	n.dead[host] = true
	n.lives[host]++
	n.mu.Unlock()
	n.resetSevered()
}

// Revive lets a host come back, and returns its new Host. A Host of an earlier life, whose
// goroutines may not all have ended, can reach nothing any more.
func (n *Network) Revive(host uint32) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dead, host)
	return &Host{network: n, id: host, life: n.lives[host]}
}

// Host is a host between two kills.
type Host struct {
	network *Network
	id      uint32
	life    int
}

// Listen opens addr.
func (h *Host) Listen(addr string) (net.Listener, error) {
	if !h.isCurrent() {
		return nil, fmt.Errorf("listen %s: %w", addr, errGone)
	}
	return h.network.Listen(h.id, addr)
}

// Dial is Network.Dial from this host.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if !h.isCurrent() {
		return nil, fmt.Errorf("dial %s: %w", addr, errGone)
	}
	c, err := h.network.Dial(ctx, h.id, addr)
	if err == nil && !h.isCurrent() { // the host may have been killed meanwhile
		_ = c.Close()
		return nil, fmt.Errorf("dial %s: %w", addr, errGone)
	}
	return c, err
}

func (h *Host) isCurrent() bool {
	h.network.mu.Lock()
	defer h.network.mu.Unlock()
	return h.network.lives[h.id] == h.life
}

// Close resets every connection that is left. Raft leaves some open.
func (n *Network) Close() {
	for _, c := range n.findEnds(func(*conn) bool { return true }) {
		c.resetConn()
	}
}

func (n *Network) setCut(link [2]uint32, to bool) {
	n.mu.Lock()
	n.cut[link] = to
	if !to {
		n.wakeDialers()
	}
	n.mu.Unlock()
	n.resetSevered()
}

func (n *Network) isCut(a, b uint32) bool {
	return n.dead[a] || n.dead[b] || n.cut[linkKey(a, b)]
}

func (n *Network) resetSevered() {
	for _, c := range n.findEnds(func(c *conn) bool {
		return n.isCut(c.from, c.to) && (!c.orphaned.Load() || n.dead[c.from])
	}) {
		c.resetConn()
	}
}

// findEnds returns the ends for which ok is true. ok is called under the lock.
func (n *Network) findEnds(ok func(*conn) bool) []*conn {
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []*conn
	for c := range n.conns {
		if ok(c) {
			found = append(found, c)
		}
	}
	return found
}

// isHanging reports whether either direction between two hosts hangs.
func (n *Network) isHanging(a, b uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.hangsLocked(a, b)
}

func (n *Network) hangsLocked(a, b uint32) bool {
	return n.hung[[2]uint32{a, b}] > 0 || n.hung[[2]uint32{b, a}] > 0
}

// pipesBetween returns the pipes in which one host sends to the other. They belong to the ends that read,
// because what the other end had sent, and its close, may still arrive after that end is gone.
func (n *Network) pipesBetween(from, to uint32) []*pipe {
	var ways []*pipe
	for _, c := range n.findEnds(func(c *conn) bool { return c.from == to && c.to == from }) {
		ways = append(ways, c.in)
	}
	return ways
}

func linkKey(a, b uint32) [2]uint32 { return [2]uint32{min(a, b), max(a, b)} }

// conn is one end of a connection.
type conn struct {
	network  *Network
	from, to uint32
	remote   string
	listens  string // the address of the end that was dialed
	number   int    // of the connection
	in, out  *pipe
	orphaned atomic.Bool // the other end is gone, and what it had sent still arrives
	spoilt   bool        // this end has sent a flipped bit; guarded by network.mu
	since    int         // bytes that it has sent since then; guarded by network.mu
}

// longestRecord is the length of the longest record of TLS 1.3, with its header (RFC 8446, 5.2). If the flipped bit is
// in the length of a record, the other end cannot know it before that many bytes have arrived.
const longestRecord = 5 + 1<<14 + 256

// Read returns the bytes that have arrived.
func (c *conn) Read(b []byte) (int, error) { return c.in.readPieces(b) }

// Write fails on a connection that the other end has closed, from the moment when Read could have
// reached the end, unless the link hangs. Before that moment this side cannot know, and the bytes
// are lost. gRPC relies on that: after a failed write it opens streams on the connection again,
// without a pause, until Read fails.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.writePieces(c.network.flipBits(c, b))
	if !errors.Is(err, io.ErrClosedPipe) {
		return n, err
	}
	if c.network.isHanging(c.from, c.to) || !c.in.hasEnded() {
		return len(b), nil
	}
	return n, syscall.EPIPE
}

// Close lets the other end read what has been sent, and then the end.
func (c *conn) Close() error {
	c.loseFlow()
	c.in.closeReader()
	c.out.closeWriter()
	return nil
}

func (c *conn) resetConn() {
	c.loseFlow()
	c.in.resetPipe()
	c.out.resetPipe()
}

func (c *conn) orphanEnd(late time.Duration) {
	c.loseFlow()
	c.in.closeReader()
	c.in.swallowWrites()
	c.out.orphanWriter(late)
}

func (c *conn) loseFlow() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.conns, c)
}

func (c *conn) LocalAddr() net.Addr  { return address("memory") }
func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // never fails
	return c.SetWriteDeadline(t)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.setReadDeadline(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.setWriteDeadline(t)
	return nil
}

type listener struct {
	network  *Network
	host     uint32
	life     int // of the host
	addr     string
	incoming chan net.Conn
	once     sync.Once
	done     chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.network.mu.Lock()
		defer l.network.mu.Unlock()
		if l.network.listeners[l.addr] == l {
			delete(l.network.listeners, l.addr)
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return address(l.addr) }

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }
