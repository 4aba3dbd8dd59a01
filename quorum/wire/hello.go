package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"sync"
	"time"

	"rollcall/quorum/disk"
	"rollcall/quorum/trust"
)

// Every connection between members begins with the hello, on both ports:
//
//	dialer → magic (8), version (2), from (4), to (4), disk of from (8), start (8), disk of to (8), ensemble (32), checksum (4)
//	dialed → code (1), length of the rest (1), the rest, checksum (4)
//
// The rest is disk (8) and start (8) if the code is 0, and otherwise a text. A checksum is the CRC-32C of all bytes before it.
// Integers are big-endian. A member that does not know its ensemble yet sends zeros for it. Raft's port refuses a dialer that
// names another ensemble or none, because what comes there gets into the log. gRPC's port lets it in, and the member holds every
// call against the ensemble that the hello has named (Conn.Ensemble). The disk of to is 0 if the dialer takes the member
// with any disk. raft's dialer always names a disk.
//
// The hello keeps misconfigured members from reaching raft or gRPC. It is no
// authentication: package trust does that before, and the hello must name the member that was proved.
const (
	helloMagic   = "ROLLCALL"
	helloVersion = 1
	helloSize    = len(helloMagic) + 2 + 4 + 4 + 3*8 + hashSize + checksumSize
	welcomeSize  = 8 + 8 // the rest of the answer with code 0
	hashSize     = 32
	checksumSize = 4

	// helloTimeout limits a handshake on both sides. It allows for several round trips of a bad
	// network, and is short enough that a silent stranger soon frees its place.
	helloTimeout = 5 * time.Second
	// unacknowledgedTimeout is how long the kernel waits for sent data to be acknowledged on a connection
	// between members before it ends the connection: a firewall may have dropped it. It is as long
	// as a request may pause.
	unacknowledgedTimeout = stallTimeout
	// refusalInterval is how often the same refusal is logged, because a stranger may retry for
	// ever.
	refusalInterval = 10 * time.Second
)

// The answers to a hello. A wrong magic gets none.
const (
	helloOK byte = iota
	helloBadVersion
	helloBadFrom
	helloBadTo
	helloBadEnsemble
	helloBadDisk
	helloNoEnsemble
	helloTwins
	helloSuperseded
	helloCodes // number of codes
)

// errHelloRejected is wrapped by the error that a dialer gets when the other side refused its hello.
var errHelloRejected = errors.New("connection refused by member")

// ErrOtherEnsemble is wrapped, too, if the other side is of another ensemble.
var ErrOtherEnsemble = errors.New("it is of another ensemble")

// errUnidentified is the error of a member whose data directory is not open yet.
var errUnidentified = errors.New("quorum: this member is starting, and does not know its disk yet")

// Hello identifies this member. NewHello makes it, and it does not change afterwards.
type Hello struct {
	memberID         uint32
	addressBook      *AddressBook
	handshakeLimiter *HandshakeLimiter // of the Listeners with this hello
	trustGuard       *trust.Guard      // nil: connections are plain
	acceptsUnknown   bool              // members of no ensemble, and commands, which have no disk, are let in, too
	dialedHost       string            // of the members that are dialed; "": the book and the guard know them
	dialedDisk       disk.ID           // that the members that are dialed must have; 0: any
	knownProcesses   *processTable     // of the Listeners and dialers with this hello
	logger           *slog.Logger      // for corruptions
	// corruptions are those of the connections of the Listeners and dialers with this hello.
	corruptions *Corruptions
	// handshakeTimeout limits the handshake and the hello with a member that is dialed; 0: helloTimeout.
	handshakeTimeout time.Duration
}

// NewHello returns the hello of the member whose book it is.
func NewHello(book *AddressBook) Hello {
	return Hello{
		memberID: book.Self().ID, addressBook: book, handshakeLimiter: newHandshakeLimiter(book), knownProcesses: newProcessTable(), logger: slog.New(slog.DiscardHandler),
		corruptions: &Corruptions{lastLogged: map[uint32]time.Time{}},
	}
}

// WithLogger returns the hello for connections that log when a checksum does not match.
func (h Hello) WithLogger(log *slog.Logger) Hello {
	h.logger = log
	return h
}

// Corruptions returns the Corruptions that all connections with this hello share.
func (h Hello) Corruptions() *Corruptions { return h.corruptions }

// AcceptingUnknown returns the hello of a Listener that also lets in members that know no ensemble, which ask for it, and commands, which
// have no disk.
func (h Hello) AcceptingUnknown() Hello {
	h.acceptsUnknown = true
	return h
}

// ForHost returns the hello for a dialer of a member that may not be known yet: what proves it must be for this host.
func (h Hello) ForHost(host string) Hello {
	h.dialedHost = host
	return h
}

// HandshakeLimiter returns the Door that all Listeners with this hello share.
func (h Hello) HandshakeLimiter() *HandshakeLimiter { return h.handshakeLimiter }

// WithGuard returns the hello over connections that guard makes private. If guard is nil, they are plain.
func (h Hello) WithGuard(guard *trust.Guard) Hello {
	h.trustGuard = guard
	return h
}

// Conn is a connection that has begun with a hello.
type Conn struct {
	net.Conn
	PeerID   uint32  // the member at the other end
	PeerDisk disk.ID // its disk; 0: a command asks, which runs beside no data
	// DialerEnsemble is what the hello has named, if the other end has dialed. Zero: none.
	DialerEnsemble EnsembleID
	knownProcesses *processTable
	process        Process
}

// dialerHello is what a hello says of its dialer.
type dialerHello struct {
	Process
	ensembleID EnsembleID // zero: it names none
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.knownProcesses != nil {
		c.knownProcesses.connClosed(c.process, c)
	}
	return c.Conn.Close()
}

// RecordProcess records a request of a process on a connection that it opened before. If the disk has another process that runs, Heard
// closes the connections of both and returns an error.
func (h Hello) RecordProcess(of Process) error { return h.knownProcesses.recordHello(of, nil) }

// newConn returns the connection to a process, or an error if its disk has another process that runs. It never closes private. What
// the hello itself has yet to write goes to private: a plain connection has checksums only after the hello.
func (h Hello) newConn(private net.Conn, of Process) (*Conn, error) {
	of.Addr = private.RemoteAddr().String()
	if !trust.IsPrivate(private) {
		private = newChecksumConn(private, func(err error) { h.corruptions.recordAndLog(h.logger, of.ID, of.Addr, err) })
	}
	conn := &Conn{Conn: private, PeerID: of.ID, PeerDisk: of.DiskID, knownProcesses: h.knownProcesses, process: of}
	if of.DiskID == 0 {
		return conn, nil
	}
	return conn, h.knownProcesses.recordHello(of, conn)
}

// Dial opens a connection to member to, which listens at addr, within ctx. Then it does what Dialed
// does. A member that knows plain connections only gets one, if this member may open one.
func (h Hello) Dial(ctx context.Context, dial DialFunc, addr string, to uint32) (net.Conn, error) {
	private, err := h.dialOnce(ctx, dial, addr, to)
	if errors.Is(err, trust.ErrPeerIsPlain) {
		private, err = h.WithGuard(nil).dialOnce(ctx, dial, addr, to)
	}
	return private, err
}

func (h Hello) dialOnce(ctx context.Context, dial DialFunc, addr string, to uint32) (net.Conn, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return h.HandshakeDialed(conn, to)
}

// HandshakeDialed makes a new connection private, says hello to member to and waits for the answer, all of it
// within 5 s. If it returns an error it has closed conn.
func (h Hello) HandshakeDialed(conn net.Conn, to uint32) (net.Conn, error) {
	limitUnacknowledged(conn, unacknowledgedTimeout)
	private, err := h.secureDialed(conn, to)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("quorum: connect to member %d: %w", to, err)
	}
	of, err := h.exchangeHello(private, to)
	if err == nil {
		var c *Conn
		if c, err = h.newConn(private, of); err == nil {
			return c, nil
		}
	}
	_ = private.Close() // err says more
	return nil, fmt.Errorf("quorum: hello to member %d: %w", to, err)
}

// secureDialed makes a new connection private and sets the deadline of the handshake and the hello.
func (h Hello) secureDialed(conn net.Conn, to uint32) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(cmp.Or(h.handshakeTimeout, helloTimeout))); err != nil {
		return nil, err
	}
	return h.trustGuard.SecureDialedAt(conn, to, h.dialedHost)
}

// exchangeHello says hello, and returns the process that answers.
func (h Hello) exchangeHello(conn net.Conn, to uint32) (of Process, err error) {
	if _, err := conn.Write(h.encodeHello(to)); err != nil {
		return of, err
	}
	code, rest, err := readHelloReply(conn)
	switch {
	case err != nil:
		return of, err
	case code == helloBadEnsemble:
		return of, fmt.Errorf("%w: %w: %q", errHelloRejected, ErrOtherEnsemble, rest)
	case code == helloTwins:
		return of, fmt.Errorf("%w: %w: %q", errHelloRejected, ErrTwins, rest)
	case code != helloOK:
		return of, fmt.Errorf("%w: %q", errHelloRejected, rest)
	case len(rest) != welcomeSize:
		return of, fmt.Errorf("the answer has %d bytes, want %d", len(rest), welcomeSize)
	}
	of = Process{ID: to, DiskID: disk.ID(binary.BigEndian.Uint64(rest)), RunID: binary.BigEndian.Uint64(rest[8:])}
	if h.dialedDisk != 0 && of.DiskID != h.dialedDisk {
		return of, fmt.Errorf("meant for the disk %v, and the disk %v has answered", h.dialedDisk, of.DiskID)
	}
	return of, conn.SetDeadline(time.Time{})
}

func (h Hello) encodeHello(to uint32) []byte {
	ensemble := h.addressBook.EnsembleID()
	b := append(make([]byte, 0, helloSize), helloMagic...)
	b = binary.BigEndian.AppendUint16(b, helloVersion)
	b = binary.BigEndian.AppendUint32(b, h.memberID)
	b = binary.BigEndian.AppendUint32(b, to)
	b = binary.BigEndian.AppendUint64(b, uint64(h.addressBook.Self().DiskID))
	b = binary.BigEndian.AppendUint64(b, h.addressBook.RunID())
	b = binary.BigEndian.AppendUint64(b, uint64(h.dialedDisk))
	return appendChecksum(append(b, ensemble[:]...))
}

// helloRejection is the reason why a hello was refused: code for the dialer, text for both sides.
type helloRejection struct {
	replyCode byte
	text      string
}

func (r *helloRejection) Error() string { return r.text }

// isTransient reports whether the reason for a refusal ends by itself, so that it is not logged: a member that starts soon knows its
// ensemble, a leader dials a lost disk until another one has its place, and a hello of a process that has ended may be read late.
func (r *helloRejection) isTransient() bool {
	return r.replyCode == helloBadDisk || r.replyCode == helloNoEnsemble || r.replyCode == helloSuperseded
}

var errWrongMagic = errors.New("not a Rollcall member: wrong magic")

// errUnexpectedTLS is for a stranger that begins as a member with TLS does.
var errUnexpectedTLS = errors.New("a TLS handshake, but this member takes plain connections only: neither ensembleSecretFile nor sslQuorum is set")

// readHello reads a hello and returns what it says of the process that sent it. The error is a *refusal if the dialer
// must be told. speaks returns an error if the dialer has proved that it is another member.
func (h Hello) readHello(r io.Reader, speaks func(uint32) error) (of dialerHello, err error) {
	var b [helloSize]byte
	if _, err := io.ReadFull(r, b[:len(helloMagic)]); err != nil {
		return of, fmt.Errorf("no hello: %w", err)
	}
	if !bytes.Equal(b[:len(helloMagic)], []byte(helloMagic)) {
		if h.trustGuard == nil && b[0] == trust.TLSHandshakeByte {
			return of, errUnexpectedTLS
		}
		return of, errWrongMagic
	}
	rest := b[len(helloMagic):]
	if _, err := io.ReadFull(r, rest[:2]); err != nil {
		return of, fmt.Errorf("hello cut short: %w", err)
	}
	if version := binary.BigEndian.Uint16(rest); version != helloVersion { // the rest may have another length
		return of, &helloRejection{helloBadVersion, fmt.Sprintf("protocol version %d, member %d speaks %d", version, h.memberID, helloVersion)}
	}
	if _, err := io.ReadFull(r, rest[2:]); err != nil {
		return of, fmt.Errorf("hello cut short: %w", err)
	}
	if err := verifyChecksum(b[:]); err != nil {
		return of, fmt.Errorf("hello: %w", err)
	}
	to := binary.BigEndian.Uint32(rest[6:])
	of.Process = Process{ID: binary.BigEndian.Uint32(rest[2:]), DiskID: disk.ID(binary.BigEndian.Uint64(rest[10:])), RunID: binary.BigEndian.Uint64(rest[18:])}
	meant := disk.ID(binary.BigEndian.Uint64(rest[26:]))
	of.ensembleID = EnsembleID(rest[34 : 34+hashSize])
	if err := speaks(of.ID); err != nil {
		return of, err
	}
	own := h.addressBook.Self().DiskID
	switch {
	case to != h.memberID:
		return of, &helloRejection{helloBadTo, fmt.Sprintf("meant for member %d, this is member %d", to, h.memberID)}
	case own == 0:
		return of, errUnidentified
	case meant != 0 && meant != own:
		return of, &helloRejection{helloBadDisk, fmt.Sprintf("meant for member %d with the disk %v, and this one has the disk %v", to, meant, own)}
	}
	if err := h.checkEnsemble(of.ID, of.ensembleID); err != nil {
		return of, err
	}
	return of, h.checkDialer(of.Process)
}

// checkEnsemble returns a *refusal for a member of another ensemble. Raft's port also refuses members while one of the two
// knows no ensemble.
func (h Hello) checkEnsemble(from uint32, theirs EnsembleID) error {
	own := h.addressBook.EnsembleID()
	unknown := EnsembleID{}
	switch {
	case theirs != unknown && own != unknown && theirs != own:
		return &helloRejection{helloBadEnsemble, fmt.Sprintf("member %d is of the ensemble %x, and member %d of %x", from, theirs[:shownEnsembleBytes], h.memberID, own[:shownEnsembleBytes])}
	case !h.acceptsUnknown && (theirs == unknown || own == unknown):
		return &helloRejection{helloNoEnsemble, fmt.Sprintf("member %d or member %d does not know its ensemble yet", from, h.memberID)}
	}
	return nil
}

// checkDialer returns a *refusal for a process that cannot be another member's. A member that the book does not know may have
// come into the ensemble, and lead, while this member was away.
func (h Hello) checkDialer(of Process) error {
	switch {
	case of.ID == h.memberID:
		return &helloRejection{helloBadFrom, fmt.Sprintf("another process says it is member %d", of.ID)}
	case of.ID == 0 || of.ID > maxMemberID:
		return &helloRejection{helloBadFrom, fmt.Sprintf("member id %d is not between 1 and %d", of.ID, maxMemberID)}
	case of.DiskID == 0 && !h.acceptsUnknown:
		return &helloRejection{helloBadFrom, fmt.Sprintf("member %d names no disk", of.ID)}
	}
	return nil
}

// shownEnsembleBytes is how many bytes of an ensemble's id texts show: enough to tell two apart.
const shownEnsembleBytes = 4

// Listener returns only connections that began with a correct hello; they are *Conn. It closes
// silent ones after 5 s, or earlier to make room (greeting.go), and they never delay Accept. Close
// closes the inner listener and every connection that is still being greeted.
type Listener struct {
	net.Listener
	hello      Hello
	logger     *slog.Logger
	readyConns chan *Conn
	closed     chan struct{}
	wg         sync.WaitGroup

	mu            sync.Mutex
	pendingConns  map[*pendingConn]bool
	acceptedCount uint64 // number of connections so far
	acceptErr     error  // error of the inner Accept; set before closed is closed
	lastLogged    [int(helloCodes) + int(trust.ReasonCount)]time.Time
}

// NewListener starts greeting the connections that inner accepts. Close ends its goroutines. If
// logger is nil nothing is logged.
func NewListener(inner net.Listener, hello Hello, logger *slog.Logger) *Listener {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &Listener{
		Listener: inner, hello: hello, logger: logger,
		readyConns: make(chan *Conn),
		closed:     make(chan struct{}), pendingConns: map[*pendingConn]bool{},
	}
	l.wg.Go(l.acceptLoop)
	return l
}

// Accept waits for the next connection from a member.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.readyConns:
		return c, nil
	case <-l.closed:
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.acceptErr
	}
}

// Close ends the listener and waits for its goroutines.
func (l *Listener) Close() error {
	err := l.shutDown(net.ErrClosed)
	l.wg.Wait()
	return err
}

// shutDown closes everything, once. Accept returns why from then on.
func (l *Listener) shutDown(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.acceptErr != nil {
		return nil
	}
	l.acceptErr = why
	close(l.closed)
	for c := range l.pendingConns {
		c.Close()
	}
	return l.Listener.Close()
}

func (l *Listener) acceptLoop() {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			addr := remoteIP(conn)
			if why := l.hello.handshakeLimiter.checkAvailable(addr); why != nil {
				conn.Close()
				l.logRejection(conn, why)
				continue
			}
			if g := l.addPending(conn, addr); g != nil {
				l.wg.Go(func() { l.acceptPending(g) })
				continue
			}
			conn.Close() // the listener was closed meanwhile
		case isTemporary(err): // out of file descriptors, or the peer has gone already
			l.logger.Warn("accept failed", "err", err)
			select {
			case <-time.After(acceptRetryPause):
			case <-l.closed:
			}
			continue
		default:
			_ = l.shutDown(err) // it is closed already
		}
		return
	}
}

// acceptRetryPause is the pause that saves CPU time while the process is out of file descriptors.
const acceptRetryPause = 100 * time.Millisecond

func isTemporary(err error) bool {
	var ne interface{ Temporary() bool }
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &ne) && ne.Temporary()
}

// secureAccepted makes a new connection private, reads its hello and answers it. It returns the private
// connection. If it returns an error, it has closed that.
func (l *Listener) secureAccepted(g *pendingConn) (*Conn, error) {
	if err := g.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	begin := func() error { return l.hello.handshakeLimiter.takeToken(g.remoteAddr) }
	private, err := l.hello.trustGuard.SecureAccepted(g.Conn, begin)
	if err != nil {
		return nil, err
	}
	c, err := l.replyToHello(private)
	if err != nil {
		_ = private.Close() // err says more
	}
	return c, err
}

func (l *Listener) replyToHello(conn *trust.Conn) (c *Conn, err error) {
	of, err := l.hello.readHello(conn, conn.MaySpeakAs)
	if err == nil {
		c, err = l.hello.newConn(conn, of.Process)
		c.DialerEnsemble = of.ensembleID
	}
	switch {
	case errors.Is(err, ErrTwins):
		err = &helloRejection{helloTwins, err.Error()}
	case errors.Is(err, errSuperseded):
		err = &helloRejection{helloSuperseded, err.Error()}
	}
	if err != nil {
		if r, ok := errors.AsType[*helloRejection](err); ok {
			if r.isTransient() && l.hello.checkDialer(of.Process) == nil { // a member dials often, as a leader does that looks for a lost disk
				l.hello.handshakeLimiter.learnAddress(of.ID, remoteIP(conn))
			}
			_, _ = conn.Write(encodeHelloReply(r.replyCode, []byte(r.text[:min(len(r.text), math.MaxUint8)]))) // the dialer may have gone
		}
		return nil, err
	}
	if _, err = conn.Write(l.hello.encodeWelcome()); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close() // the process must not count as one with a connection
		return nil, fmt.Errorf("answer hello: %w", err)
	}
	return c, nil
}

// encodeWelcome returns the answer to a hello that is taken.
func (h Hello) encodeWelcome() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(h.addressBook.Self().DiskID))
	return encodeHelloReply(helloOK, binary.BigEndian.AppendUint64(b, h.addressBook.RunID()))
}

// logRejection logs a refusal, each kind at most once in refusalInterval.
func (l *Listener) logRejection(conn net.Conn, err error) {
	if why, ok := errors.AsType[tooFastError](err); ok {
		l.hello.handshakeLimiter.logRejection(l.logger, conn.RemoteAddr().String(), why)
		return
	}
	if r, ok := errors.AsType[*helloRejection](err); errors.Is(err, errUnidentified) || ok && r.isTransient() {
		return
	}
	kind := int(helloOK) // for silent and broken connections, and strangers that speak no TLS
	if r, ok := errors.AsType[*helloRejection](err); ok {
		kind = int(r.replyCode)
	} else if r, ok := errors.AsType[*trust.Rejection](err); ok {
		kind = int(helloCodes) + int(r.Reason)
	}
	l.mu.Lock()
	quiet := l.acceptErr != nil || !l.lastLogged[kind].IsZero() && time.Since(l.lastLogged[kind]) < refusalInterval
	if !quiet {
		l.lastLogged[kind] = time.Now()
	}
	l.mu.Unlock()
	if !quiet {
		l.logger.Warn("refused connection", "remote", conn.RemoteAddr().String(), "err", err)
	}
}
