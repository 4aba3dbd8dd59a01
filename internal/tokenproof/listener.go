package tokenproof

import (
	"crypto/tls"
	"errors"
	"net"

	"rollcall/internal/slowkey"
)

// Listener takes plain connections, and those on which the token is proved. The first byte tells them apart.
type Listener struct {
	net.Listener
	key    slowkey.Key
	config *tls.Config
	// Refused, unless it is nil, is called with each connection whose proof is wrong.
	Refused func(conn net.Conn)
}

// NewListener returns a Listener for the connections of inner.
func NewListener(inner net.Listener, key slowkey.Key) (*Listener, error) {
	config, err := configuration()
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: inner, key: key, config: config}, nil
}

// Accept returns the next connection. The proof is read by the first Read, so that nobody holds up Accept.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, listener: l}, nil
}

// Conn is a connection of a Listener. Its first Read must return before Write or Proved are called, as it does in a server of HTTP.
type Conn struct {
	net.Conn
	listener *Listener
	begun    bool
	private  *tls.Conn // nil: plain
}

// Proved reports whether the other end has proved the token.
func (c *Conn) Proved() bool { return c.private != nil }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !c.begun {
		return c.first(p)
	}
	if c.private != nil {
		return c.private.Read(p)
	}
	return c.Conn.Read(p)
}

// first reads the beginning of a connection.
func (c *Conn) first(p []byte) (int, error) {
	var begin [1]byte
	if n, err := c.Conn.Read(begin[:]); n == 0 {
		return n, err
	}
	c.begun = true
	if begin[0] != handshakeTLS {
		p[0] = begin[0]
		return 1, nil
	}
	private := tls.Server(&replayed{Conn: c.Conn, first: begin[:]}, c.listener.config)
	if err := accept(private, c.listener.key); err != nil {
		if errors.Is(err, errProof) && c.listener.Refused != nil {
			c.listener.Refused(c.Conn)
		}
		_ = c.Conn.Close() // nothing is said to a stranger
		return 0, err
	}
	c.private = private
	return private.Read(p)
}

// CloseWrite closes the writing side, if the connection has one.
func (c *Conn) CloseWrite() error {
	if c.private != nil {
		return c.private.CloseWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.private != nil {
		return c.private.Write(p)
	}
	return c.Conn.Write(p)
}

// replayed is a connection of which some bytes have been read already.
type replayed struct {
	net.Conn
	first []byte
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}
