package trust

import "net"

// Conn is a connection with what its other end has proved.
type Conn struct {
	net.Conn          // over TLS, or plain
	raw      net.Conn // below TLS
	guard    *Guard   // nil: plain
	secret   secret   // with which it was proved; "": with none
	shown    shown    // the certificate with which it was proved
	member   uint32   // the member that is proved; 0: none yet
}

// Speaks returns nil if the other end may speak as a member, or a *Refusal. On a plain connection
// everybody may. The first member as which a certificate may speak is the one that is proved. Only one
// goroutine may call Speaks.
func (c *Conn) Speaks(member uint32) error {
	switch {
	case c.guard == nil:
		return nil
	case c.shown.chain != nil && c.member == 0:
		if err := c.guard.keep(c, member); err != nil {
			return refuse(OtherMember, "it says that it is member %d, but its certificate is not that member's: %w", member, err)
		}
		c.member = member
	case c.member != member:
		return refuse(OtherMember, "member %d has proved itself, but it says that it is member %d", c.member, member)
	}
	return nil
}

// NetConn returns the connection below.
func (c *Conn) NetConn() net.Conn { return c.raw }

// Close closes the connection at once. TLS's own farewell would wait for a peer that does not read,
// and tells nothing: raft's messages and gRPC's say themselves where they end.
func (c *Conn) Close() error {
	if c.guard != nil {
		c.guard.forget(c)
	}
	return c.raw.Close()
}

// begun is a connection whose first byte has been read already.
type begun struct {
	net.Conn
	first [1]byte
	taken bool
}

func (b *begun) Read(p []byte) (int, error) {
	if b.taken || len(p) == 0 {
		return b.Conn.Read(p)
	}
	b.taken = true
	return copy(p, b.first[:]), nil
}

// heard notes whether anything was read from a connection.
type heard struct {
	net.Conn
	anything bool
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.anything = h.anything || n > 0
	return n, err
}

// Private reports whether a connection that Dialed, DialedAt or Accepted returned is over TLS.
func Private(conn net.Conn) bool {
	c, ok := conn.(*Conn)
	return ok && c.guard != nil
}
