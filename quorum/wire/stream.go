package wire

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"
)

// Stream is raft's StreamLayer between members. Its connections begin with the hello. Its Addr is
// the advertised address of this member, not the one that the listener is bound to.
type Stream struct {
	*Listener
	hello Hello
	dial  DialFunc
}

// DialFunc opens a connection to addr (host:port) within ctx.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// DialTCP is the DialFunc for plain TCP.
func DialTCP(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}

// NewStream returns the stream layer of a member over l, which it owns.
func NewStream(l *Listener, hello Hello, dial DialFunc) *Stream {
	return &Stream{Listener: l, hello: hello, dial: dial}
}

// Addr returns the configured address of this member.
func (s *Stream) Addr() net.Addr { return memberAddr(s.hello.book.Self().Addr) }

// Dial connects to a member within a time, and says hello within the same time again, or within helloTimeout if that is
// less. It implements raft.StreamLayer.
func (s *Stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, ok := s.hello.book.member(address)
	if !ok {
		return nil, fmt.Errorf("quorum: dial %q: no such member", address)
	}
	hello := s.hello
	hello.within = min(timeout, helloTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return hello.Dial(ctx, s.dial, string(address), to)
}

type memberAddr string

func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }
