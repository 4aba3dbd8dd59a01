package member

import (
	"context"
	"net"
	"sync"

	"rollcall/quorum/wire"
)

// loopback is a listener in memory for a member's connections to itself.
type loopback struct {
	memberID  uint32
	conns     chan net.Conn
	closeOnce sync.Once
	closed    chan struct{}
}

func newLoopback(self uint32) *loopback {
	return &loopback{memberID: self, conns: make(chan net.Conn), closed: make(chan struct{})}
}

// dial waits until Accept takes the other end, ctx ends or the listener is closed.
func (l *loopback) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- &wire.Conn{Conn: theirs, PeerID: l.memberID}:
		return &wire.Conn{Conn: ours, PeerID: l.memberID}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *loopback) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *loopback) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return nil
}

func (l *loopback) Addr() net.Addr { return loopbackAddr{} }

type loopbackAddr struct{}

func (loopbackAddr) Network() string { return "memory" }
func (loopbackAddr) String() string  { return "loopback" }
