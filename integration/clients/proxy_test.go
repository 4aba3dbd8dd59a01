package clients

import (
	"net"
	"sync"
	"testing"
	"time"

	"rollcall/lab/process"
)

// proxy stands between clients and one member, so that their connections can be cut while both
// live. It is safe for concurrent use.
type proxy struct {
	addr   string // where clients connect
	target string
	pause  time.Duration // before each piece is passed on

	mu      sync.Mutex
	blocked bool // new connections are closed at once
	open    map[net.Conn]bool
	running sync.WaitGroup
}

// pieces is the number of bytes that are passed on at a time.
const pieces = 4 << 10

// startProxy listens until the test ends, on the host of the target.
func startProxy(t *testing.T, target string, pause time.Duration) *proxy {
	t.Helper()
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, pause: pause, open: map[net.Conn]bool{}}
	p.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.serve(c)
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.block()
		p.running.Wait()
	})
	return p
}

// serve connects a client to the member, unless clients are blocked.
func (p *proxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp4", p.target, process.Patience)
	if err != nil {
		_ = client.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.blocked {
		_, _ = client.Close(), server.Close()
		return
	}
	p.open[client], p.open[server] = true, true
	p.running.Go(func() { p.pass(client, server) })
	p.running.Go(func() { p.pass(server, client) })
}

// pass copies until either side ends, and then closes both.
func (p *proxy) pass(to, from net.Conn) {
	buf := make([]byte, pieces)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.pause > 0 {
			time.Sleep(p.pause)
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			break
		}
	}
	_, _ = to.Close(), from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, to)
	delete(p.open, from)
}

// cut breaks all connections; new ones are accepted.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
}

// block breaks all connections and rejects new ones until unblock.
func (p *proxy) block() {
	p.mu.Lock()
	p.blocked = true
	p.mu.Unlock()
	p.cut()
}

func (p *proxy) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.blocked = false
}
