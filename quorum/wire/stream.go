package wire

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/earlyclose"
)

// Stream is raft's StreamLayer between members. Its connections begin with the hello. Its Addr is this
// member's advertised address, not the listener's.
type Stream struct {
	*Listener
	hello    Hello
	dialFunc DialFunc
}

// DialFunc opens a connection to addr (host:port) within ctx.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// DialTCP is the DialFunc for plain TCP. If this process dies, the kernel ends its connections before those of
// clients, so that the others notice at once.
func DialTCP(ctx context.Context, addr string) (net.Conn, error) { return earlyclose.Dial(ctx, addr) }

// NewStream returns the stream layer of a member over l, which it owns.
func NewStream(l *Listener, hello Hello, dial DialFunc) *Stream {
	return &Stream{Listener: l, hello: hello, dialFunc: dial}
}

// Addr returns the configured address of this member.
func (s *Stream) Addr() net.Addr { return memberAddr(s.hello.addressBook.Self().Addr) }

// Dial implements raft.StreamLayer. It connects to the server at an address of raft's configuration within
// timeout, and exchanges hellos within the same time again, or within helloTimeout if that is less. It
// returns an error if another server replies there.
func (s *Stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, ok := parseServerAddress(address)
	if !ok {
		return nil, fmt.Errorf("quorum: dial %q: no server's address", address)
	}
	hello := s.hello
	hello.dialedDisk, hello.handshakeTimeout = to.DiskID, min(timeout, helloTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return hello.Dial(ctx, s.dialFunc, to.Addr, to.ID)
}

type memberAddr string

func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }
