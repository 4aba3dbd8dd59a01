// Package trust makes the connections between members private, and proves the identity of the other member before
// a byte of another protocol is read.
//
// There are three proofs: certificates of an authority, tickets of Kerberos, and a secret that the members share. All use
// TLS 1.3, which negotiates the proof.
//
//   - Guard: proves this member and checks the other one, on connections that it dials and accepts.
//   - Secrets: the file with the shared secret, reloaded when it changes.
//   - Conn: a connection, with the identity that its other end has proved.
//   - Rejection: the error for a rejected connection.
//
// A newcomer is a process with a number that no known member has. It may say Hello (Conn.MaySayHelloAs), and become a member at a host for
// which its certificate is valid (Conn.MayJoinAt), if package member lets members come from that host.
//
// With a secret or Kerberos, each start generates a new certificate that no member checks: the proof that follows is
// bound to the channel (proof.go).
//
// Guard.mu and tickets.mu are the only locks, and neither is taken under the other. Guard.Run, and the watch of the
// certificates and the renewal of the tickets that it starts, are the only goroutines.
package trust

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	"rollcall/internal/keystore"
)

// Settings are set by configuration keys. The zero Settings leave connections plain.
type Settings struct {
	SecretFile       string      // file with the secrets that members share; "": none
	MemberLogin      MemberLogin // a secret in a JAAS file, in place of SecretFile
	Kerberos         Kerberos
	ShowCertificates bool // members show certificates
	Certificates     Certificates
	AcceptPlain      bool // plain connections are accepted too, and dialed to members without TLS
}

// Config configures a Guard.
type Config struct {
	Settings
	MemberID        uint32
	ConfiguredHosts map[uint32]string            // by member: the host in its server line; required for certificates
	CurrentHosts    func(member uint32) []string // any of them counts; nil: unknown member; default: ConfiguredHosts
	CurrentMembers  func() []uint32              // all that this member may dial, for Kerberos; default: those of ConfiguredHosts
	HasLeft         func(member uint32) bool     // reports whether a member has left the ensemble; default: none has
	PartingTime     time.Duration                // how long connections of members that have left stay open
	AdmitNewcomers  bool                         // see Conn.MaySayHelloAs; New rejects what Settings.CheckNewcomers rejects
	Logger          *slog.Logger                 // default: nothing is logged
	Now             func() time.Time             // wall clock, for certificates; default: time.Now

	ticketSource ticketSource // default: the KDC
}

// Guard makes connections private and proves members. A nil Guard leaves every connection plain. It is safe for
// concurrent use.
type Guard struct {
	memberID        uint32
	acceptPlain     bool
	secrets         *Secrets       // nil: there are none
	secretTLS       *tls.Config    // of the dialed side; nil without secrets
	keys            *keystore.Keys // nil: there are no certificates
	certificateTLS  *tls.Config    // of the dialed side; nil without certificates
	kerberos        *kerberosProof // nil: there is none
	showCertificate bool           // this member shows its certificate when it dials
	anyHost         bool
	admitNewcomers  bool
	hostsOf         func(member uint32) []string
	hasLeft         func(member uint32) bool
	partingTime     time.Duration
	logger          *slog.Logger
	reloadRequests  chan struct{} // one place
	keysChanged     chan struct{} // one place
	membersChanged  chan struct{} // one place

	mu          sync.Mutex
	provedConns map[*Conn]uint32 // with the member that was proved
}

// New reads the files and returns the Guard, or nil if cfg leaves connections plain. It starts nothing. It returns
// an error if a required file cannot be used, or if this member's certificate is not valid now or is for another
// host.
func New(cfg Config) (*Guard, error) {
	if cfg.IsPlain() {
		return nil, nil
	}
	if _, err := cfg.CheckStoreLocations(); err != nil {
		return nil, err
	}
	if cfg.AdmitNewcomers {
		if err := cfg.CheckNewcomers(); err != nil {
			return nil, err
		}
	}
	g := &Guard{
		memberID: cfg.MemberID, acceptPlain: cfg.AcceptPlain, showCertificate: cfg.ShowCertificates,
		anyHost: cfg.Certificates.AnyHost, hostsOf: cfg.CurrentHosts, logger: cfg.Logger,
		admitNewcomers: cfg.AdmitNewcomers, hasLeft: cfg.HasLeft, partingTime: cfg.PartingTime, reloadRequests: make(chan struct{}, 1), keysChanged: make(chan struct{}, 1),
		membersChanged: make(chan struct{}, 1), provedConns: map[*Conn]uint32{},
	}
	if g.hasLeft == nil {
		g.hasLeft = func(uint32) bool { return false }
	}
	if g.logger == nil {
		g.logger = slog.New(slog.DiscardHandler)
	}
	if g.hostsOf == nil {
		g.hostsOf = cfg.configuredHosts
	}
	var err error
	if from := cfg.secretSource(); from.path != "" {
		if g.secrets, err = openSecrets(from, g.logger); err != nil {
			return nil, err
		}
		if g.secretTLS, err = unprovedTLSConfig(secretProtocol); err != nil {
			return nil, err
		}
	}
	if cfg.Kerberos.isSet() {
		if g.kerberos, err = openKerberos(cfg, g); err != nil {
			return nil, err
		}
	}
	if cfg.UsesCertificates() {
		if g.keys, err = keystore.Open(cfg.keyOptions(func() { signalOnce(g.keysChanged) })); err != nil {
			return nil, err
		}
		g.certificateTLS = g.certificateTLSConfig()
		if g.anyHost {
			g.logger.Warn("ssl.quorum.hostnameVerification=false: any certificate of the authority may speak as any member")
		}
	}
	return g, nil
}

func (cfg Config) configuredHosts(member uint32) []string {
	if host, known := cfg.ConfiguredHosts[member]; known {
		return []string{host}
	}
	return nil
}

// ProofMethods returns "secret", "Kerberos", "certificates", or two of them with "and" between them.
func (g *Guard) ProofMethods() string {
	var methods []string
	if g.secrets != nil {
		methods = append(methods, "secret")
	}
	if g.kerberos != nil {
		methods = append(methods, "Kerberos")
	}
	if g.keys != nil {
		methods = append(methods, "certificates")
	}
	return strings.Join(methods, " and ")
}

// watchInterval is the interval at which the files are checked for changes. A rotation takes minutes, and an
// operator can send SIGHUP.
const watchInterval = keystore.WatchInterval

// Run reloads the files when they change and when Reload requests it, until ctx ends. After a change it checks
// every open connection again, and closes those whose secret is no longer in the file or whose certificate would
// be rejected now. Their members connect again. After a change of the members it checks the connections that were proved
// by a certificate or a ticket, and also closes those of members that have left for Config.PartingTime. It closes those of newcomers
// that have a host now at once. If a file cannot be used, its previous contents stay in use. Time
// alone closes no connection: an expired certificate or revocation list takes effect at the next change. The watch
// of the keys also warns before this member's certificate expires. With Kerberos, Run gets the tickets for the other members, ahead of
// their ends. A connection stays open after the end of its ticket.
func (g *Guard) Run(ctx context.Context) error {
	if g == nil {
		return nil
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	if g.keys != nil {
		watch.Go(func() { g.keys.Watch(ctx) })
	}
	if g.kerberos != nil {
		watch.Go(func() { g.kerberos.tickets.run(ctx) })
	}
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	var recheck <-chan time.Time // nil: the members have not changed since the last check
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-g.membersChanged:
			g.closeDisproved((*Conn).isNewcomer)
			recheck = time.After(g.partingTime)
			continue
		case <-recheck:
			recheck = nil
			g.closeDisproved(everyConn)
			continue
		case <-g.reloadRequests:
			if g.keys != nil {
				g.keys.ReloadAndLog()
			}
		case <-g.keysChanged:
			g.closeDisproved(everyConn)
			continue
		}
		if g.secrets != nil && g.secrets.reload() {
			g.closeDisproved(everyConn)
		}
	}
}

// RequestReload makes Run reload the files now. It does not wait.
func (g *Guard) RequestReload() {
	if g != nil {
		signalOnce(g.reloadRequests)
	}
}

// MembersChanged makes Run get the tickets for new members, and check the open connections again after
// Config.PartingTime. It does not wait.
func (g *Guard) MembersChanged() {
	if g == nil {
		return
	}
	signalOnce(g.membersChanged)
	if g.kerberos != nil {
		signalOnce(g.kerberos.tickets.needed)
	}
}

// signalOnce puts a token into a channel with one place. It does not wait.
func signalOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// AcceptsPlain reports whether plain connections are accepted, too. The Guard must not be nil.
func (g *Guard) AcceptsPlain() bool { return g.acceptPlain }

// CertificateExpiry returns the expiry time of this member's own certificate, or the zero Time if it has none.
func (g *Guard) CertificateExpiry() time.Time {
	if g == nil || g.keys == nil {
		return time.Time{}
	}
	return g.keys.Certificate().Leaf.NotAfter
}

// ErrPeerIsPlain is returned by SecureDialed if the other end has ended the connection without speaking TLS, and
// this member may use plain connections to it. The caller dials another connection for that.
var ErrPeerIsPlain = errors.New("the member does not speak TLS")

// ErrHandshakeClosed is the dialer's error if the dialed side closes the connection without a TLS alert.
var ErrHandshakeClosed = errors.New("TLS handshake: the member closed the connection; its log says why")

// Dialed is the other end of a connection that this member has dialed.
type Dialed struct {
	Member uint32
	// Host is that of the address. Kerberos names a member by it. "": one of the member's known hosts.
	Host string
	// NamedHost is the host that an operator's change gives to a member that may not be known yet. Its proof must be for
	// this host. "": one of its known hosts.
	NamedHost string
}

// MayDial returns an error if this member has nothing with which it could prove itself to a member now: it has
// Kerberos alone, and no ticket. A connection would end with the same error, and the member would log that it came to nothing.
func (g *Guard) MayDial(to Dialed) error {
	if g == nil || g.kerberos == nil || g.showCertificate || g.secrets != nil {
		return nil
	}
	_, err := g.kerberos.offerFor(to)
	return err
}

// SecureDialed makes a connection private that this member has dialed, and proves both ends. The caller has set a
// deadline, and closes conn if SecureDialed returns an error.
func (g *Guard) SecureDialed(conn net.Conn, to Dialed) (net.Conn, error) {
	if g == nil || !g.showCertificate && g.secrets == nil && g.kerberos == nil {
		return conn, nil
	}
	var ticket *offer
	if g.kerberos != nil {
		var err error
		if ticket, err = g.kerberos.offerFor(to); err != nil && !g.showCertificate && g.secrets == nil {
			return nil, err // nothing else can be offered
		}
	}
	recorder := &readRecorder{Conn: conn}
	t := tls.Client(recorder, g.dialerTLSConfig(to, ticket != nil))
	if err := t.Handshake(); err != nil {
		if g.acceptPlain && !recorder.hasRead && !isTimeout(err) {
			return nil, fmt.Errorf("%w: %w", ErrPeerIsPlain, err)
		}
		if isClosedByPeer(err) {
			return nil, fmt.Errorf("%w: %w", ErrHandshakeClosed, err)
		}
		return nil, fmt.Errorf("TLS handshake: %w", err)
	}
	c := &Conn{Conn: t, rawConn: conn, guard: g}
	if err := g.proveDialed(c, to, ticket); err != nil {
		return nil, err
	}
	c.provedMember = to.Member
	return c, g.trackProved(c, to.Member)
}

// proveDialed proves both ends of a dialed connection after the TLS handshake.
func (g *Guard) proveDialed(c *Conn, to Dialed, ticket *offer) error {
	switch state := c.Conn.(*tls.Conn).ConnectionState(); state.NegotiatedProtocol {
	case certificateProtocol:
		c.shownCertificate = shownCertificate{state.PeerCertificates, x509.ExtKeyUsageServerAuth, to.NamedHost}
		return g.checkRevocation(&state, x509.ExtKeyUsageServerAuth)
	case kerberosProtocol:
		if to.NamedHost == "" {
			c.dialedPrincipal = ticket.to
		}
		return g.proveTicketAsDialer(c, to.Member, ticket)
	}
	return g.proveSecretAsDialer(c, to.Member)
}

// revocationTimeout limits the check whether another member's certificate is revoked: its connection has 5 s for the whole handshake.
const revocationTimeout = 5 * time.Second

// checkRevocation returns an error if the responders of the other member's certificates do not say that they count.
func (g *Guard) checkRevocation(state *tls.ConnectionState, usage x509.ExtKeyUsage) error {
	ctx, cancel := context.WithTimeout(context.Background(), revocationTimeout)
	defer cancel()
	return g.keys.CheckByOCSP(ctx, state.PeerCertificates, usage, state.OCSPResponse)
}

// isClosedByPeer reports whether err means that the other end closed the connection. A system that closes a socket
// with unread bytes resets the connection, and then a write may fail, too.
func isClosedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// SecureAccepted makes an accepted connection private, and has the other member prove itself. The caller has set a
// deadline, and closes conn after an error. The error is a *Rejection if the other end has sent anything. begin is
// called after the first TLS message has arrived and is one of a member, before anything is computed for it. An
// error from begin ends the handshake, and SecureAccepted wraps it. begin is not called for a plain connection.
func (g *Guard) SecureAccepted(conn net.Conn, begin func() error) (*Conn, error) {
	if g == nil {
		return &Conn{Conn: conn, rawConn: conn}, nil
	}
	peeked := &peekedConn{Conn: conn}
	if _, err := conn.Read(peeked.firstByte[:]); err != nil {
		return nil, fmt.Errorf("no TLS handshake: %w", err)
	}
	switch peeked.firstByte[0] {
	case helloByte:
		if !g.acceptPlain {
			return nil, newRejection(PlainHello, "a plain hello, but this member takes none: portUnification is not set")
		}
		return &Conn{Conn: peeked, rawConn: conn}, nil
	case TLSHandshakeByte:
	default:
		return nil, newRejection(UnknownProtocol, "not a Rollcall member: it does not speak TLS")
	}
	admitted := func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		cfg, err := g.selectDialedTLSConfig(hello)
		if err == nil {
			err = begin()
		}
		return cfg, err
	}
	t := tls.Server(peeked, &tls.Config{GetConfigForClient: admitted, MinVersion: tls.VersionTLS13})
	if err := t.Handshake(); err != nil {
		return nil, newRejection(BadHandshake, "TLS handshake: %w", err)
	}
	c := &Conn{Conn: t, rawConn: conn, guard: g}
	if err := g.proveAccepted(c, t.ConnectionState()); err != nil {
		return nil, err
	}
	return c, nil
}

// proveAccepted has the other end of an accepted connection prove itself after the TLS handshake.
func (g *Guard) proveAccepted(c *Conn, state tls.ConnectionState) error {
	switch state.NegotiatedProtocol {
	case certificateProtocol: // MaySpeakAs tracks it
		c.shownCertificate = shownCertificate{state.PeerCertificates, x509.ExtKeyUsageClientAuth, ""}
		if err := g.checkRevocation(&state, x509.ExtKeyUsageClientAuth); err != nil {
			return newRejection(BadHandshake, "%w", err)
		}
		return nil
	case kerberosProtocol:
		return g.proveTicketAsDialed(c)
	}
	return g.proveSecretAsDialed(c)
}

// TLSHandshakeByte is the first byte of every TLS connection.
const TLSHandshakeByte = 0x16

// helloByte is the first byte of a plain hello.
const helloByte = 'R'

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
