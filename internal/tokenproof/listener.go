package tokenproof

import (
	"crypto/tls"
	"errors"
	"net"

	"rollcall/internal/slowkey"
)

// Listener takes plain connections, and connections with a proof of the token. The first byte tells them
// apart.
type Listener struct {
	net.Listener
	key       slowkey.Key
	tlsConfig *tls.Config
	// OnRejected, unless it is nil, is called with each connection whose proof is wrong.
	OnRejected func(conn net.Conn)
}

// NewListener returns a Listener for the connections of inner.
func NewListener(inner net.Listener, key slowkey.Key) (*Listener, error) {
	config, err := newBlankTLSConfig()
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: inner, key: key, tlsConfig: config}, nil
}

// Accept returns the next connection. The first Read reads the proof, so that no client holds up Accept.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, listener: l}, nil
}

// Conn is a connection of a Listener. Its first Read must return before Write or HasProof are called, as it
// does in an HTTP server.
type Conn struct {
	net.Conn
	listener *Listener
	hasBegun bool
	tlsConn  *tls.Conn // nil: plain
}

// HasProof reports whether the other end has proved the token.
func (c *Conn) HasProof() bool { return c.tlsConn != nil }

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if !c.hasBegun {
		return c.readFirst(p)
	}
	if c.tlsConn != nil {
		return c.tlsConn.Read(p)
	}
	return c.Conn.Read(p)
}

// readFirst reads the beginning of a connection.
func (c *Conn) readFirst(p []byte) (int, error) {
	var begin [1]byte
	if n, err := c.Conn.Read(begin[:]); n == 0 {
		return n, err
	}
	c.hasBegun = true
	if begin[0] != handshakeTLS {
		p[0] = begin[0]
		return 1, nil
	}
	private := tls.Server(&prefixedConn{Conn: c.Conn, prefix: begin[:]}, c.listener.tlsConfig)
	if err := verifyAndProve(private, c.listener.key); err != nil {
		if errors.Is(err, errProof) && c.listener.OnRejected != nil {
			c.listener.OnRejected(c.Conn)
		}
		_ = c.Conn.Close() // without a reply to a stranger
		return 0, err
	}
	c.tlsConn = private
	return private.Read(p)
}

// CloseWrite closes the writing side, if the connection has one.
func (c *Conn) CloseWrite() error {
	if c.tlsConn != nil {
		return c.tlsConn.CloseWrite()
	}
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.tlsConn != nil {
		return c.tlsConn.Write(p)
	}
	return c.Conn.Write(p)
}

// prefixedConn is a connection with some bytes that have been read already.
type prefixedConn struct {
	net.Conn
	prefix []byte
}

func (r *prefixedConn) Read(p []byte) (int, error) {
	if len(r.prefix) == 0 {
		return r.Conn.Read(p)
	}
	n := copy(p, r.prefix)
	r.prefix = r.prefix[n:]
	return n, nil
}
