package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
)

var errUnreachable = errors.New("cluster: unreachable")

// Network is the wires of one ensemble in memory. Every connection belongs to two
// hosts (members by id; clients are host 0), so that links can be cut and hosts killed.
// Safe for concurrent use.
type Network struct {
	mu        sync.Mutex
	listeners map[string]*listener // by address
	conns     map[*conn]struct{}   // both ends of each
	cut       map[[2]uint32]bool   // links, smaller host first
	blocked   map[route]bool
	dead      map[uint32]bool
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
		conns:     make(map[*conn]struct{}),
		cut:       make(map[[2]uint32]bool),
		blocked:   make(map[route]bool),
		dead:      make(map[uint32]bool),
	}
}

// Listen opens addr on host.
func (n *Network) Listen(host uint32, addr string) (net.Listener, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("cluster: address %s is in use", addr)
	}
	l := &listener{network: n, host: host, addr: addr, incoming: make(chan net.Conn), done: make(chan struct{})}
	n.listeners[addr] = l
	return l, nil
}

// Dial connects host to whoever listens on addr. It fails at once if nobody can be
// reached there.
func (n *Network) Dial(ctx context.Context, host uint32, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.listeners[addr]
	if l == nil || n.severed(host, l.host) || n.blocked[route{host, addr}] {
		n.mu.Unlock()
		return nil, fmt.Errorf("dial %s: %w", addr, errUnreachable)
	}
	a, b := net.Pipe()
	ours := &conn{Conn: a, network: n, from: host, to: l.host, remote: addr}
	theirs := &conn{Conn: b, network: n, from: l.host, to: host, remote: fmt.Sprintf("127.0.0.1:%d", 40000+len(n.conns))}
	n.conns[ours], n.conns[theirs] = struct{}{}, struct{}{}
	n.mu.Unlock()
	select {
	case l.incoming <- theirs:
		return ours, nil
	case <-l.done:
	case <-ctx.Done():
	}
	_ = ours.Close()
	_ = theirs.Close()
	return nil, fmt.Errorf("dial %s: %w", addr, errUnreachable)
}

// Cut breaks the link between two hosts: their connections are reset, new ones refused.
func (n *Network) Cut(a, b uint32) { n.set(n.cut, link(a, b), true) }

// Heal mends it.
func (n *Network) Heal(a, b uint32) { n.set(n.cut, link(a, b), false) }

// Reset breaks the connections of one host to an address; new ones are taken at once.
func (n *Network) Reset(from uint32, addr string) {
	n.mu.Lock()
	var gone []*conn
	for c := range n.conns {
		if c.remote == addr && c.from == from {
			gone = append(gone, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		_ = c.Close()
	}
}

// Block resets the connections of one host to an address and refuses new ones until
// Unblock.
func (n *Network) Block(from uint32, addr string) {
	n.mu.Lock()
	n.blocked[route{from, addr}] = true
	n.mu.Unlock()
	n.Reset(from, addr)
}

// Unblock ends Block.
func (n *Network) Unblock(from uint32, addr string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.blocked, route{from, addr})
}

// Kill takes a host off the network as a crash would: nothing that it sends from now on
// arrives.
func (n *Network) Kill(host uint32) {
	n.mu.Lock()
	n.dead[host] = true
	n.mu.Unlock()
	n.resetSevered()
}

// Revive lets a killed host come back.
func (n *Network) Revive(host uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.dead, host)
}

// Close resets every connection that is left: raft leaves some open.
func (n *Network) Close() {
	n.mu.Lock()
	open := make([]*conn, 0, len(n.conns))
	for c := range n.conns {
		open = append(open, c)
	}
	n.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

func (n *Network) set(m map[[2]uint32]bool, key [2]uint32, to bool) {
	n.mu.Lock()
	m[key] = to
	n.mu.Unlock()
	n.resetSevered()
}

func (n *Network) severed(a, b uint32) bool {
	return n.dead[a] || n.dead[b] || n.cut[link(a, b)]
}

func (n *Network) resetSevered() {
	n.mu.Lock()
	var gone []*conn
	for c := range n.conns {
		if n.severed(c.from, c.to) {
			gone = append(gone, c)
		}
	}
	n.mu.Unlock()
	for _, c := range gone {
		_ = c.Close()
	}
}

func link(a, b uint32) [2]uint32 { return [2]uint32{min(a, b), max(a, b)} }

type conn struct {
	net.Conn
	network  *Network
	from, to uint32
	remote   string
}

func (c *conn) Close() error {
	c.network.mu.Lock()
	delete(c.network.conns, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

type listener struct {
	network  *Network
	host     uint32
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
