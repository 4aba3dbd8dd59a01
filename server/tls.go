package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"rollcall/internal/admission"
	"rollcall/internal/keystore"
	"rollcall/operator/audit"
	"rollcall/server/stream"
)

// TLS configures the connections of clients over TLS.
type TLS struct {
	Config     *tls.Config   // nil: they cannot
	Unified    bool          // Serve takes TLS too, and tells it from plain connections by the first byte
	Detection  time.Duration // how long that byte may take; default 5 s, ZooKeeper's
	Handshakes int           // TLS handshakes under way, above which the oldest silent one is dropped; default 4,096
}

// Defaults of TLS.
const (
	DefaultDetection = 5 * time.Second
	// DefaultHandshakes bounds the memory of clients that have proved nothing. A handshake was measured to
	// hold 37 KB if the client has sent little, and 165 KB if it has sent all of maxHandshakeBytes. That is
	// 150 MiB for all of them, or 650 MiB. So many handshakes take a processor some seconds,
	// and a client that is refused tries another member.
	DefaultHandshakes = 4096
)

const (
	// tlsRecord is the first byte of a TLS handshake. Plain connections begin with a length, whose first
	// byte is 0, or with a letter.
	tlsRecord = 22
)

// secure is the server's side of TLS.
type secure struct {
	cfg        TLS
	config     *tls.Config
	slots      *admission.Slots // of handshakes that compute
	handshakes *admission.HandshakeLimiter[*conn]
	failures   *admission.LogLimiter
}

func newSecure(cfg TLS) (*secure, error) {
	if cfg.Config == nil {
		return nil, nil
	}
	if cfg.Detection < 0 || cfg.Handshakes < 0 {
		return nil, fmt.Errorf("server: a limit of TLS is negative: %v, %d", cfg.Detection, cfg.Handshakes)
	}
	cfg.Detection = cmp.Or(cfg.Detection, DefaultDetection)
	cfg.Handshakes = cmp.Or(cfg.Handshakes, DefaultHandshakes)
	s := &secure{cfg: cfg, slots: admission.NewHandshakeSlots(), handshakes: admission.NewHandshakeLimiter[*conn](cfg.Handshakes), failures: admission.NewLogLimiter()}
	s.config = cfg.Config.Clone()
	find := s.config.GetConfigForClient
	s.config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := hello.Conn.(*handshakeSocket).begin(); err != nil {
			return nil, err
		}
		if find == nil {
			return nil, nil
		}
		return find(hello)
	}
	return s, nil
}

// takes reports whether connections of a listener may speak TLS. s may be nil.
func (s *secure) takes(l *listener) bool {
	return s != nil && (l.secure || s.cfg.Unified)
}

// secured makes a connection speak TLS if it has to, and reports whether the connection continues. It returns when the
// handshake of TLS is done.
func (s *secure) secured(c *conn, sock net.Conn) bool {
	if !s.takes(c.listener) {
		return true
	}
	if !c.listener.secure {
		c.stream.Limit(min(s.cfg.Detection, c.srv.cfg.Limits.Handshake), handshakeLate)
		first, err := stream.FirstByte(sock)
		if err != nil {
			return c.stream.Lost(err)
		}
		c.stream.Limit(c.srv.cfg.Limits.Handshake-time.Since(c.stream.Life.Begun()), handshakeLate)
		if first != tlsRecord {
			return true
		}
	}
	return s.shakeHands(c, sock)
}

// shakeHands makes the handshake of TLS, if there is a place for it.
func (s *secure) shakeHands(c *conn, sock net.Conn) bool {
	mine, loser := s.handshakes.Admit(c)
	if mine == nil {
		c.stream.Drop(tlsCrowded)
		s.refused(c, admission.ErrFull)
		return false
	}
	if loser != nil {
		loser.Owner().stream.Drop(tlsCrowded)
	}
	err := s.handshakeAt(mine, c, sock)
	if mine.End() {
		err = admission.ErrCrowded
	}
	if err != nil {
		c.stream.Drop(tlsFailed) // unless it has ended
		s.refused(c, err)
	}
	return err == nil
}

// tlsState is the state of TLS that operators see.
type tlsState struct{ version, cipher string }

// handshakeAt makes the handshake of TLS for a client that has a place.
func (s *secure) handshakeAt(at *admission.Handshake[*conn], c *conn, sock net.Conn) error {
	ctx := c.stream.Life.Context()
	below := &handshakeSocket{Conn: sock, slots: s.slots, handshake: at, ctx: ctx}
	own := tls.Server(below, s.config)
	if !c.stream.Wrap(own) {
		return context.Canceled
	}
	err := own.HandshakeContext(ctx)
	below.finish()
	if err != nil {
		return err
	}
	state := own.ConnectionState()
	c.stream.Lock()
	c.tls = &tlsState{keystore.VersionName(state.Version), tls.CipherSuiteName(state.CipherSuite)}
	c.stream.Unlock()
	return c.identity.addCertificate(&state)
}

// refused puts a failed handshake into the audit log, and logs why it failed. It does neither if the client just
// went away, as a probe of the port does, or if the handshake took too long.
func (s *secure) refused(c *conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return
	}
	err = keystore.Explained(err)
	if !errors.Is(err, admission.ErrFull) && !errors.Is(err, admission.ErrCrowded) { // these say nothing of who the client is
		c.srv.cfg.Audit.Add(audit.Event{Address: c.addr.String(), Operation: audit.Authenticate, Target: "tls", Result: audit.Failure, Error: err.Error()})
		if noCertificate(err) {
			c.srv.cfg.Guesses.Count(c.identity.host, admission.Certificate)
		}
	}
	if unlogged, due := s.failures.Due(time.Now()); due {
		c.srv.log.Warn("a client's TLS handshake failed", "client", c.addr, "err", err, "unlogged", unlogged)
	}
}
