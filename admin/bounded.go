package admin

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// bounded is a listener with a bound on its connections. A new connection beyond the bound closes
// the one that has waited for longest without a request. So thousands of silent connections do not
// keep a probe out. If all have a request under way, the new connection is closed.
type bounded struct {
	net.Listener
	most int

	mu    sync.Mutex
	conns map[net.Conn]*list.Element // all connections; the element is in quiet, or nil
	quiet *list.List                 // of net.Conn: those without a request, the one that waits for longest first
}

func newBounded(l net.Listener, most int) *bounded {
	return &bounded{Listener: l, most: most, conns: make(map[net.Conn]*list.Element), quiet: list.New()}
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
		first := b.quiet.Front()
		if first == nil {
			return c
		}
		oldest = b.quiet.Remove(first).(net.Conn)
		delete(b.conns, oldest)
	}
	b.conns[c] = b.quiet.PushBack(c)
	return oldest
}

// state implements http.Server.ConnState. The server calls it when the headers of a request have
// been read, when the request has been answered, and when the connection has ended.
func (b *bounded) state(c net.Conn, state http.ConnState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.conns[c]
	if !known {
		return // admit has removed it
	}
	if e != nil {
		b.quiet.Remove(e)
	}
	switch state {
	case http.StateActive:
		b.conns[c] = nil
	case http.StateNew, http.StateIdle:
		b.conns[c] = b.quiet.PushBack(c)
	default: // closed
		delete(b.conns, c)
	}
}

// closeQuiet closes the connections without a request.
func (b *bounded) closeQuiet() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for e := b.quiet.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close() // does not wait: nothing is being written to it
	}
}
