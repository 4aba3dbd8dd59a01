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
	addr  memberAddr
	ids   map[raft.ServerAddress]uint32
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

// NewStream returns the stream layer of member hello.self over l, which it owns. peers must be the
// list that hello was made from.
func NewStream(l *Listener, hello Hello, peers []Peer, dial DialFunc) *Stream {
	s := &Stream{Listener: l, ids: map[raft.ServerAddress]uint32{}, hello: hello, dial: dial}
	for _, p := range peers {
		s.ids[raft.ServerAddress(p.Addr)] = p.ID
		if p.ID == hello.self {
			s.addr = memberAddr(p.Addr)
		}
	}
	return s
}

// Addr returns the advertised address.
func (s *Stream) Addr() net.Addr { return s.addr }

// Dial connects to a member and says hello. It implements raft.StreamLayer.
func (s *Stream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	to, ok := s.ids[address]
	if !ok {
		return nil, fmt.Errorf("quorum: dial %q: no such member", address)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return s.hello.Dial(ctx, s.dial, string(address), to)
}

type memberAddr string

func (memberAddr) Network() string  { return "tcp" }
func (a memberAddr) String() string { return string(a) }
