package admin

import (
	"cmp"
	"container/list"
	"net"
	"net/http"
	"sync"
)

// bounded is a listener with a bound on its connections. A new connection beyond the bound closes
// the one that has waited for longest without a request. If all have a request under way, it closes the
// one whose request has lasted for longest, among those from other machines. So neither thousands of
// silent connections nor slow readers keep a probe out. If all requests are this machine's own, the new
// connection is closed.
type bounded struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns map[net.Conn]*list.Element // all connections; the element is in quiet or busy, or nil
	quiet *list.List                 // of net.Conn: those without a request, the one that waits for longest first
	busy  *list.List                 // of net.Conn: those from other machines with a request, the longest first
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, most: most, conns: make(map[net.Conn]*list.Element), quiet: list.New(), busy: list.New()}
}

// Accept returns the next connection for which there is room.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		refused := b.admit(c)
		if refused != nil {
			_ = refused.Close() // nobody waits for the outcome
		}
		if refused != c {
			return c, nil
		}
	}
}

// admit adds c, and returns the connection that has to be closed for it, if any. It is c if there
// is no other.
func (b *bounded) admit(c net.Conn) net.Conn {
	b.mu.Lock()
	defer b.mu.Unlock()
	var oldest net.Conn
	if len(b.conns) >= b.most {
		first := cmp.Or(b.quiet.Front(), b.busy.Front())
		if first == nil {
			return c
		}
		oldest = first.Value.(net.Conn)
		b.forget(oldest)
	}
	b.conns[c] = b.quiet.PushBack(c)
	return oldest
}

// state implements http.Server.ConnState. The server calls it when the headers of a request have
// been read, when the request has been answered, and when the connection has ended.
func (b *bounded) state(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.conns[c]; !known {
		return // admit has removed it
	}
	b.forget(c)
	switch state {
	case http.StateActive:
		b.conns[c] = nil
		if !local(c.RemoteAddr().String()) {
			b.conns[c] = b.busy.PushBack(c)
		}
	case http.StateNew, http.StateIdle:
		b.conns[c] = b.quiet.PushBack(c)
	}
}

// forget removes c from all lists.
func (b *bounded) forget(c net.Conn) {
	if e := b.conns[c]; e != nil {
		b.quiet.Remove(e) // does nothing if e is in the other list
		b.busy.Remove(e)
	}
	delete(b.conns, c)
}

// closeQuiet closes the connections without a request.
func (b *bounded) closeQuiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.quiet.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close() // does not wait: nothing is being written to it
	}
}
