package rollcalltest

import (
	"context"
	"net"
	"sync"

	"rollcall/lab/proxy/tap"
	"rollcall/lab/simulated"
)

// clientsHost is the host of all clients, and of the proxies, in the network of the servers.
const clientsHost = 0

// maxLinks limits the connections to one server. It is far above what a test needs, and below the descriptors that a
// process may open.
const maxLinks = 10_000

// proxy takes the clients of a server. It outlives the server's runs, so that the address stays the same. It puts
// the faults between clients and the server into effect. It is safe for concurrent use.
type proxy struct {
	server   int
	address  string // of the server in the network
	listener net.Listener
	network  *simulated.Network
	judge    *judge

	links  sync.WaitGroup // the goroutines of the proxy and of its links
	ctx    context.Context
	cancel context.CancelFunc

	mu     sync.Mutex
	open   map[*link]struct{}
	closed bool
}

// newProxy returns the proxy of a server with an address in a network. It accepts clients at once.
func newProxy(server int, address string, l net.Listener, network *simulated.Network, j *judge) *proxy {
	p := &proxy{
		server: server, address: address, listener: l, network: network, judge: j, open: map[*link]struct{}{},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.links.Go(func() { tap.AcceptAll(p.ctx, l, p.startLink) })
	return p
}

// startLink connects a client to the server. Without a server, or with too many clients, it closes the connection.
func (p *proxy) startLink(client net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.open) >= maxLinks {
		_ = client.Close()
		return
	}
	l := &link{Link: tap.New[Verdict](client), proxy: p}
	p.open[l] = struct{}{}
	p.links.Go(func() {
		l.forwardAll()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, l)
	})
}

// linksOf returns the links of a session, or all if session is 0.
func (p *proxy) linksOf(session int64) (found []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		if session == 0 || l.session.Load() == session {
			found = append(found, l)
		}
	}
	return found
}

// close breaks all connections at once, and waits for the proxy's goroutines.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	_ = p.listener.Close()
	for _, l := range p.linksOf(0) {
		_ = l.Client.Close()
		l.End()
	}
	p.links.Wait()
}
