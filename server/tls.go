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
	Unified    bool          // Serve takes TLS too, detected by the first byte
	Detection  time.Duration // limit of the wait for that byte; default 5 s, ZooKeeper's
	Handshakes int           // TLS handshakes under way, above which the oldest silent one is dropped; default 4,096
	Checks     CertificateChecks
}

// Defaults of TLS.
const (
	DefaultDetection = 5 * time.Second
	// DefaultHandshakes bounds the memory of clients that have proved nothing. A handshake was measured to
	// hold 37 KB if the client has sent little, and 165 KB if it has sent all of maxHandshakeBytes: 150 or
	// 650 MiB in all. So many handshakes take a processor some seconds, and a rejected client tries another
	// member.
	DefaultHandshakes = 4096
)

const (
	// tlsHandshakeByte is the first byte of a TLS handshake. Plain connections begin with a length, whose
	// first byte is 0, or with a letter.
	tlsHandshakeByte = 22
)

// tlsAcceptor is the server's side of TLS.
type tlsAcceptor struct {
	cfg              TLS
	tlsConfig        *tls.Config
	computeSlots     *admission.Slots // of handshakes that compute
	handshakeLimiter *admission.HandshakeLimiter[*conn]
	failureLog       *admission.LogLimiter

	certificateChecker *certificateChecker
}

func newTLSAcceptor(cfg TLS) (*tlsAcceptor, error) {
	if cfg.Config == nil {
		return nil, nil
	}
	if cfg.Detection < 0 || cfg.Handshakes < 0 {
		return nil, fmt.Errorf("server: a limit of TLS is negative: %v, %d", cfg.Detection, cfg.Handshakes)
	}
	cfg.Detection = cmp.Or(cfg.Detection, DefaultDetection)
	cfg.Handshakes = cmp.Or(cfg.Handshakes, DefaultHandshakes)
	s := &tlsAcceptor{
		cfg: cfg, computeSlots: admission.NewHandshakeCPUSlots(),
		handshakeLimiter: admission.NewHandshakeLimiter[*conn](cfg.Handshakes), failureLog: admission.NewLogLimiter(),
		certificateChecker: newCertificateChecker(cfg.Checks),
	}
	s.tlsConfig = cfg.Config.Clone()
	find := s.tlsConfig.GetConfigForClient
	s.tlsConfig.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if err := hello.Conn.(*handshakeSocket).completeHello(); err != nil {
			return nil, err
		}
		if find == nil {
			return nil, nil
		}
		return find(hello)
	}
	return s, nil
}

// mayServeTLS reports whether connections of a listener may speak TLS. s may be nil.
func (s *tlsAcceptor) mayServeTLS(l *listener) bool {
	return s != nil && (l.speaksTLS || s.cfg.Unified)
}

// startTLS makes the TLS handshake if the connection needs it, and reports whether the connection continues.
func (s *tlsAcceptor) startTLS(c *conn, sock net.Conn) bool {
	if !s.mayServeTLS(c.listener) {
		return true
	}
	if !c.listener.speaksTLS {
		c.stream.DropAfter(min(s.cfg.Detection, c.srv.cfg.Limits.Handshake), handshakeLate)
		first, err := stream.PeekFirstByte(sock)
		if err != nil {
			return c.stream.ReadFailed(err)
		}
		c.stream.DropAfter(c.srv.cfg.Limits.Handshake-time.Since(c.stream.Life.StartedAt()), handshakeLate)
		if first != tlsHandshakeByte {
			return true
		}
	}
	return s.admitAndHandshake(c, sock)
}

// admitAndHandshake makes the TLS handshake if the limiter admits it.
func (s *tlsAcceptor) admitAndHandshake(c *conn, sock net.Conn) bool {
	mine, loser := s.handshakeLimiter.Admit(c)
	if mine == nil {
		c.stream.Drop(tlsCrowded)
		s.recordFailure(c, admission.ErrTooManyHandshakes)
		return false
	}
	if loser != nil {
		loser.Owner().stream.Drop(tlsCrowded)
	}
	own, err := s.performHandshake(mine, c, sock)
	if mine.End() {
		err = admission.ErrDisplaced
	}
	if err == nil {
		err = s.takeCertificate(c, own.ConnectionState()) // the place is free: a slow responder or resolver keeps no others out
	}
	if err != nil {
		c.stream.Drop(tlsFailed) // unless it has ended
		s.recordFailure(c, err)
	}
	return err == nil
}

// tlsState describes TLS for operators.
type tlsState struct{ version, cipher string }

// performHandshake makes an admitted TLS handshake.
func (s *tlsAcceptor) performHandshake(at *admission.Handshake[*conn], c *conn, sock net.Conn) (*tls.Conn, error) {
	ctx := c.stream.Life.Context()
	below := &handshakeSocket{Conn: sock, computeSlots: s.computeSlots, handshake: at, ctx: ctx}
	own := tls.Server(below, s.tlsConfig)
	if !c.stream.ReplaceSocket(own) {
		return nil, context.Canceled
	}
	err := own.HandshakeContext(ctx)
	below.finish()
	return own, err
}

// takeCertificate checks the client's certificate, which may wait for others, and makes it an identity.
func (s *tlsAcceptor) takeCertificate(c *conn, state tls.ConnectionState) error {
	if err := s.certificateChecker.check(c.stream.Life.Context(), &state, c.addr); err != nil {
		return err
	}
	c.stream.Lock()
	c.tls = &tlsState{keystore.JavaTLSVersion(state.Version), tls.CipherSuiteName(state.CipherSuite)}
	c.stream.Unlock()
	return c.identity.addCertificate(&state)
}

// recordFailure adds a failed handshake to the audit log, and logs the reason. It ignores a client that just
// closed, as a probe of the port does, and a handshake that took too long.
func (s *tlsAcceptor) recordFailure(c *conn, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
		return
	}
	err = keystore.AddClockHint(err)
	if !errors.Is(err, admission.ErrTooManyHandshakes) && !errors.Is(err, admission.ErrDisplaced) {
		// these do not depend on the client
		c.srv.cfg.Audit.Add(audit.Event{Address: c.addr.String(), Operation: audit.Authenticate, Target: "tls", Result: audit.Failure, Error: err.Error()})
		if isClientCertificateError(err) {
			c.srv.cfg.CredentialLimiter.RecordWithoutSlowing(c.identity.host, admission.ClientCertificate)
		}
	}
	if unlogged, due := s.failureLog.AllowLine(time.Now()); due {
		c.srv.log.Warn("a client's TLS handshake failed", "client", c.addr, "err", err, "unlogged", unlogged)
	}
}
