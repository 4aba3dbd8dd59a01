package trust

import (
	"crypto/x509"
	"net"

	"rollcall/zk/kerberos"
)

// Conn is a connection, with the identity that its other end has proved.
type Conn struct {
	net.Conn                  // over TLS, or plain
	rawConn          net.Conn // below TLS
	guard            *Guard   // nil: plain
	provedSecret     secret   // "": none
	shownCertificate shownCertificate
	newcomer         bool               // see MaySayHelloAs
	byTicket         bool               // proved by Kerberos
	provedDialer     kerberos.Principal // of the other end that has dialed; zero: this one has
	dialedPrincipal  kerberos.Principal // of the known member that this one has dialed; zero: none
	provedMember     uint32             // 0: none yet
}

// MaySpeakAs returns nil if the other end may speak as member, or a *Rejection. A plain connection may speak as
// any member. A connection with a certificate is bound to the first member for which the certificate holds. Only
// one goroutine may call MaySpeakAs.
func (c *Conn) MaySpeakAs(member uint32) error {
	switch {
	case c.guard == nil:
		return nil
	case c.shownCertificate.certificateChain != nil && c.provedMember == 0:
		if err := c.guard.trackProved(c, member); err != nil {
			return newRejection(OtherMember, "it says that it is member %d, but its certificate is not that member's: %w",
				member, err)
		}
		c.provedMember = member
	case c.provedMember != member:
		return newRejection(OtherMember, "member %d has proved itself, but it says that it is member %d", c.provedMember,
			member)
	}
	return nil
}

// MaySayHelloAs is MaySpeakAs for a connection on which the other end may do no more than say Hello. It also accepts a newcomer, if
// Config.AdmitNewcomers is set: a certificate of the authority, for whatever host, of a member without a known host. Nothing
// proves the newcomer's number or host, so such a connection never counts for more: IsOfNewcomer reports it. Guard.Run closes it
// when the member gets a host, and the member connects again.
func (c *Conn) MaySayHelloAs(member uint32) error {
	if c.guard != nil && c.guard.admitNewcomers && c.shownCertificate.certificateChain != nil && c.provedMember == 0 {
		c.newcomer = len(c.guard.hostsOf(member)) == 0
	}
	return c.MaySpeakAs(member)
}

// MayJoinAt returns an error unless the certificate that the other end has shown holds for a host now, as a client's and as a
// server's. The connection is one of AsCertified.
func (c *Conn) MayJoinAt(host string) error {
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
		if err := c.guard.keys.Verify(c.shownCertificate.certificateChain, usage, host); err != nil {
			return err
		}
	}
	return nil
}

func (c *Conn) isNewcomer() bool { return c.newcomer }

// everyConn selects all connections.
func everyConn(*Conn) bool { return true }

// NetConn returns the connection below TLS.
func (c *Conn) NetConn() net.Conn { return c.rawConn }

// Close closes the connection at once, without TLS's close_notify: that would wait for a peer that does not read,
// and raft's and gRPC's messages mark their own ends.
func (c *Conn) Close() error {
	if c.guard != nil {
		c.guard.untrack(c)
	}
	return c.rawConn.Close()
}

// peekedConn is a connection whose first byte has already been read.
type peekedConn struct {
	net.Conn
	firstByte     [1]byte
	firstByteRead bool
}

func (b *peekedConn) Read(p []byte) (int, error) {
	if b.firstByteRead || len(p) == 0 {
		return b.Conn.Read(p)
	}
	b.firstByteRead = true
	return copy(p, b.firstByte[:]), nil
}

// readRecorder records whether anything was read from a connection.
type readRecorder struct {
	net.Conn
	hasRead bool
}

func (h *readRecorder) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	h.hasRead = h.hasRead || n > 0
	return n, err
}

// IsOfNewcomer reports whether the other end of a connection has proved neither its number nor its host: see Conn.MaySayHelloAs.
func IsOfNewcomer(conn net.Conn) bool {
	c, ok := conn.(*Conn)
	return ok && c.newcomer
}

// AsCertified returns a connection on which the other end has shown a certificate, or nil if that has shown none.
func AsCertified(conn net.Conn) *Conn {
	if c, ok := conn.(*Conn); ok && c.shownCertificate.certificateChain != nil {
		return c
	}
	return nil
}

// IsPrivate reports whether a connection from SecureDialed or SecureAccepted is over TLS.
func IsPrivate(conn net.Conn) bool {
	c, ok := conn.(*Conn)
	return ok && c.guard != nil
}
