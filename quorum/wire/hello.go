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

	"rollcall/internal/lockwatch"
	"rollcall/quorum/disk"
	"rollcall/quorum/trust"
)

// Every connection between members begins with the hello, on both ports:
//
//	dialer → magic (8), version (2), from (4), to (4), disk of from (8), run id (8), disk of to (8), ensemble (32), checksum (4)
//	dialed → code (1), length of the rest (1), the rest, checksum (4)
//	dialer → confirmsRejection (1), and only after the code helloSuperseded
//
// The rest is disk (8) and run id (8) if the code is 0, and otherwise a text. A checksum is the CRC-32C of all bytes
// before it. Integers are big-endian. A member that does not know its ensemble yet sends zeros for it. Raft's port
// rejects a dialer that names another ensemble or none, because its requests get into the log. gRPC's port admits it,
// and the member checks every call against the ensemble in the hello (Conn.DialerEnsemble). The disk of to is 0 if the
// dialer accepts the member with any disk. raft's dialer always names a disk.
//
// The hello keeps misconfigured members from reaching raft or gRPC. It does not authenticate: package trust does that
// before, and the hello must name the member that was proved.
const (
	helloMagic   = "ROLLCALL"
	helloVersion = 1
	helloSize    = len(helloMagic) + 2 + 4 + 4 + 3*8 + hashSize + checksumSize
	welcomeSize  = 8 + 8 // the rest of the reply with code 0
	hashSize     = 32
	checksumSize = 4
	// confirmsRejection shows that the dialer runs: see recordDialer.
	confirmsRejection = 1

	// helloTimeout limits a handshake on both sides. It allows for several round trips of a bad network, and
	// frees a silent stranger's place soon.
	helloTimeout = 5 * time.Second
	// unacknowledgedTimeout limits the time until sent data is acknowledged on a connection between members,
	// because a firewall may have dropped the connection. It is as long as a request may pause.
	unacknowledgedTimeout = stallTimeout
	// refusalInterval is the minimum time between log lines about the same kind of rejection, because a
	// stranger may retry for ever.
	refusalInterval = 10 * time.Second
)

// The codes of replies to a hello. A wrong magic gets no reply.
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
	helloCodes
)

// errHelloRejected is wrapped by a dialer's error if the other side rejected its hello.
var errHelloRejected = errors.New("connection refused by member")

// ErrOtherEnsemble is wrapped, too, if the other side belongs to another ensemble.
var ErrOtherEnsemble = errors.New("it is of another ensemble")

// errUnidentified is the error of a member whose data directory is not open yet.
var errUnidentified = errors.New("quorum: this member is starting, and does not know its disk yet")

// Hello identifies this member. Create it with NewHello. It is immutable.
type Hello struct {
	memberID         uint32
	addressBook      *AddressBook
	handshakeLimiter *HandshakeLimiter // shared by the Listeners with this hello
	trustGuard       *trust.Guard      // nil: connections are plain
	acceptsUnknown   bool              // see AcceptingUnknown
	dialedHost       string            // see ForHost; "": the address book and the guard know it
	dialedAddrHost   string            // the host of the address that Dial dials
	dialedDisk       disk.ID           // that dialed members must have; 0: any
	knownProcesses   *processTable     // shared by the Listeners and dialers with this hello
	logger           *slog.Logger      // for corruptions
	corruptions      *Corruptions
	proofRejections  *proofRejections // shared by all dials with this hello
	outside          bool             // see OutsideEnsemble
	// handshakeTimeout limits the handshake and the hello with a dialed member; 0: helloTimeout.
	handshakeTimeout time.Duration
}

// NewHello returns the hello of the member that the address book belongs to.
func NewHello(book *AddressBook) Hello {
	return Hello{
		memberID: book.Self().ID, addressBook: book, handshakeLimiter: newHandshakeLimiter(book),
		knownProcesses: newProcessTable(book.IsKnown), logger: slog.New(slog.DiscardHandler),
		corruptions: &Corruptions{lastLogged: logTimes[uint32]{}}, proofRejections: newProofRejections(),
	}
}

// WithLogger returns the hello for connections that log checksum mismatches.
func (h Hello) WithLogger(log *slog.Logger) Hello {
	h.logger = log
	return h
}

// Corruptions returns the counter shared by all connections with this hello.
func (h Hello) Corruptions() *Corruptions { return h.corruptions }

// AcceptingUnknown returns the hello of a Listener that also admits members without an ensemble, which query
// it, and commands, which have no disk.
func (h Hello) AcceptingUnknown() Hello {
	h.acceptsUnknown = true
	return h
}

// OutsideEnsemble returns the hello for dialing a member of another ensemble: it names none, so that member admits it on
// the port for gRPC, but for Hello only.
func (h Hello) OutsideEnsemble() Hello {
	h.outside = true
	return h
}

// ForHost returns the hello for dialing a member that may be unknown: its proof must be for this host.
func (h Hello) ForHost(host string) Hello {
	h.dialedHost = host
	return h
}

// HandshakeLimiter returns the limiter shared by all Listeners with this hello.
func (h Hello) HandshakeLimiter() *HandshakeLimiter { return h.handshakeLimiter }

// WithGuard returns the hello over connections secured by guard. If guard is nil, they are plain.
func (h Hello) WithGuard(guard *trust.Guard) Hello {
	h.trustGuard = guard
	return h
}

// Conn is a connection after its hello.
type Conn struct {
	net.Conn
	PeerID   uint32  // the member at the other end
	PeerDisk disk.ID // 0: a command, which has no data
	// DialerEnsemble is the ensemble in the hello if the other end dialed, or zero for none.
	DialerEnsemble EnsembleID
	knownProcesses *processTable
	process        Process
}

type dialerHello struct {
	Process
	ensembleID EnsembleID // zero: none
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.knownProcesses != nil {
		c.knownProcesses.connClosed(c.process, c)
	}
	return c.Conn.Close()
}

// RecordClosingTwins records a request of a process on a connection that it opened before. If another process runs
// with the same disk, RecordClosingTwins closes the connections of both and returns an error.
func (h Hello) RecordClosingTwins(of Process) error {
	return h.knownProcesses.recordClosingTwins(of, nil)
}

// wrapAndRegister returns the connection to a process, which record has recorded, or an error if another process runs with
// the same disk. Newcomers are not recorded, because they have not proved their number. It never closes private. The rest of the hello itself is written to private: a plain connection has checksums
// only after the hello.
func (h Hello) wrapAndRegister(private net.Conn, of Process, record func(Process, net.Conn) error) (*Conn, error) {
	of.Addr = private.RemoteAddr().String()
	if !trust.IsPrivate(private) {
		private = newChecksumConn(private, func(err error) { h.corruptions.recordAndLog(h.logger, of.ID, of.Addr, err) })
	}
	conn := &Conn{Conn: private, PeerID: of.ID, PeerDisk: of.DiskID, knownProcesses: h.knownProcesses, process: of}
	if of.DiskID == 0 || trust.IsOfNewcomer(private) {
		return conn, nil
	}
	return conn, record(of, conn)
}

// Dial opens a connection to member to, which listens at addr, within ctx, and runs HandshakeDialed. If that takes
// long, it tries again beside it, and the first connection counts (dialOverlapping). A member that supports only plain
// connections gets one, if this member may open one.
func (h Hello) Dial(ctx context.Context, dial DialFunc, addr string, to uint32) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		h.dialedAddrHost = host
	}
	conn, err := dialOverlapping(ctx, func(ctx context.Context) (net.Conn, error) {
		private, err := h.dialOnce(ctx, dial, addr, to)
		if errors.Is(err, trust.ErrPeerIsPlain) {
			private, err = h.WithGuard(nil).dialOnce(ctx, dial, addr, to)
		}
		return private, err
	})
	if err = h.proofRejections.explain(to, err); err != nil {
		return nil, fmt.Errorf("quorum: connect to member %d at %s: %w", to, addr, err)
	}
	return conn, nil
}

func (h Hello) dialOnce(ctx context.Context, dial DialFunc, addr string, to uint32) (net.Conn, error) {
	if err := h.trustGuard.MayDial(h.dialedEnd(to)); err != nil {
		return nil, err
	}
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // ends the handshake
	return h.HandshakeDialed(conn, to)
}

// HandshakeDialed secures a new connection, sends the hello to member to and waits for the reply, all within
// 5 s. If it returns an error, it has closed conn.
func (h Hello) HandshakeDialed(conn net.Conn, to uint32) (net.Conn, error) {
	setSocketOptions(conn, unacknowledgedTimeout)
	private, err := h.secureDialed(conn, to)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("handshake: %w", err)
	}
	of, err := h.exchangeHello(private, to)
	if err == nil {
		var c *Conn
		if c, err = h.wrapAndRegister(private, of, h.knownProcesses.recordClosingTwins); err == nil {
			return c, nil
		}
	}
	_ = private.Close() // err says more
	return nil, fmt.Errorf("hello: %w", err)
}

// secureDialed sets the deadline for the handshake and the hello, and secures the connection.
func (h Hello) secureDialed(conn net.Conn, to uint32) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(cmp.Or(h.handshakeTimeout, helloTimeout))); err != nil {
		return nil, err
	}
	return h.trustGuard.SecureDialed(conn, h.dialedEnd(to))
}

func (h Hello) dialedEnd(to uint32) trust.Dialed {
	return trust.Dialed{Member: to, Host: h.dialedAddrHost, NamedHost: h.dialedHost}
}

// exchangeHello sends the hello and returns the process that replies.
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
	case code == helloSuperseded:
		_, _ = conn.Write([]byte{confirmsRejection}) // the other side may have gone
		return of, fmt.Errorf("%w: %q", errHelloRejected, rest)
	case code != helloOK:
		return of, fmt.Errorf("%w: %q", errHelloRejected, rest)
	case len(rest) != welcomeSize:
		return of, fmt.Errorf("the reply has %d bytes, want %d", len(rest), welcomeSize)
	}
	of = Process{ID: to, DiskID: disk.ID(binary.BigEndian.Uint64(rest)), RunID: binary.BigEndian.Uint64(rest[8:])}
	if h.dialedDisk != 0 && of.DiskID != h.dialedDisk {
		return of, fmt.Errorf("meant for the disk %v, and the disk %v has replied", h.dialedDisk, of.DiskID)
	}
	return of, conn.SetDeadline(time.Time{})
}

func (h Hello) encodeHello(to uint32) []byte {
	ensemble := h.addressBook.EnsembleID()
	if h.outside {
		ensemble = EnsembleID{}
	}
	b := append(make([]byte, 0, helloSize), helloMagic...)
	b = binary.BigEndian.AppendUint16(b, helloVersion)
	b = binary.BigEndian.AppendUint32(b, h.memberID)
	b = binary.BigEndian.AppendUint32(b, to)
	b = binary.BigEndian.AppendUint64(b, uint64(h.addressBook.Self().DiskID))
	b = binary.BigEndian.AppendUint64(b, h.addressBook.RunID())
	b = binary.BigEndian.AppendUint64(b, uint64(h.dialedDisk))
	return appendChecksum(append(b, ensemble[:]...))
}

// helloRejection is the reason for rejecting a hello: the code for the dialer, the text for both sides.
type helloRejection struct {
	replyCode byte
	text      string
}

func (r *helloRejection) Error() string { return r.text }

// isTransient reports whether the reason ends by itself, so that it is not logged: a starting member soon
// learns its ensemble, a leader dials a lost disk until it is replaced, and the hello of an ended process may
// be read late.
func (r *helloRejection) isTransient() bool {
	return r.replyCode == helloBadDisk || r.replyCode == helloNoEnsemble || r.replyCode == helloSuperseded
}

var errWrongMagic = errors.New("not a Rollcall member: wrong magic")

// errUnexpectedTLS is for a stranger that begins like a member with TLS.
var errUnexpectedTLS = errors.New("a TLS handshake, but this member takes plain connections only: neither " +
	"ensembleSecretFile nor sslQuorum is set")

// readAndCheckHello reads and checks a dialer's hello. The error is a *helloRejection if it must be sent to the
// dialer. speaks returns an error if the dialer has proved to be another member.
func (h Hello) readAndCheckHello(r io.Reader, speaks func(uint32) error) (of dialerHello, err error) {
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
		return of, &helloRejection{
			helloBadVersion,
			fmt.Sprintf("protocol version %d, member %d speaks %d", version, h.memberID, helloVersion),
		}
	}
	if _, err := io.ReadFull(r, rest[2:]); err != nil {
		return of, fmt.Errorf("hello cut short: %w", err)
	}
	if err := verifyChecksum(b[:]); err != nil {
		return of, fmt.Errorf("hello: %w", err)
	}
	to := binary.BigEndian.Uint32(rest[6:])
	of.Process = Process{
		ID: binary.BigEndian.Uint32(rest[2:]), DiskID: disk.ID(binary.BigEndian.Uint64(rest[10:])),
		RunID: binary.BigEndian.Uint64(rest[18:]),
	}
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
		return of, &helloRejection{
			helloBadDisk,
			fmt.Sprintf("meant for member %d with the disk %v, and this one has the disk %v", to, meant, own),
		}
	}
	if err := h.checkEnsemble(of.ID, of.ensembleID); err != nil {
		return of, err
	}
	return of, h.checkDialer(of.Process)
}

// checkEnsemble returns a *helloRejection for a member of another ensemble. Raft's port also rejects members
// while either of the two knows no ensemble.
func (h Hello) checkEnsemble(from uint32, theirs EnsembleID) error {
	own := h.addressBook.EnsembleID()
	unknown := EnsembleID{}
	switch {
	case theirs != unknown && own != unknown && theirs != own:
		return &helloRejection{
			helloBadEnsemble,
			fmt.Sprintf("member %d is of the ensemble %x, and member %d of %x", from, theirs[:shownEnsembleBytes], h.memberID,
				own[:shownEnsembleBytes]),
		}
	case !h.acceptsUnknown && (theirs == unknown || own == unknown):
		return &helloRejection{
			helloNoEnsemble,
			fmt.Sprintf("member %d or member %d does not know its ensemble yet", from, h.memberID),
		}
	}
	return nil
}

// checkDialer returns a *helloRejection for a process that cannot be another member's. A member that is not
// in the address book may have joined the ensemble, and may lead it, while this member was away.
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

// shownEnsembleBytes is the length of the prefix of an ensemble's id in texts.
const shownEnsembleBytes = 4

// Listener returns only connections that began with a correct hello; they are *Conn. It closes silent ones
// after 5 s, or earlier to make room (see addPendingEvicting), and they never delay Accept. Close closes the inner
// listener and every pending connection.
type Listener struct {
	net.Listener
	hello      Hello
	logger     *slog.Logger
	readyConns chan *Conn
	closed     chan struct{}
	wg         sync.WaitGroup

	mu            sync.Mutex
	pendingConns  map[*pendingConn]bool
	acceptedCount uint64
	acceptErr     error // of the inner Accept; set before closed is closed
	lastLogged    logTimes[int]
}

// NewListener starts accepting from inner. Close ends its goroutines. If logger is nil, nothing is logged.
func NewListener(inner net.Listener, hello Hello, logger *slog.Logger) *Listener {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &Listener{
		Listener: inner, hello: hello, logger: logger,
		readyConns: make(chan *Conn),
		closed:     make(chan struct{}), pendingConns: map[*pendingConn]bool{}, lastLogged: logTimes[int]{},
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

// shutDown closes everything, once. From then on Accept returns the reason.
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
			if g := l.addPendingEvicting(conn, addr); g != nil {
				l.wg.Go(func() { l.handshakePending(g) })
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

// acceptRetryPause saves CPU time while the process is out of file descriptors.
const acceptRetryPause = 100 * time.Millisecond

func isTemporary(err error) bool {
	var ne interface{ Temporary() bool }
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &ne) && ne.Temporary()
}

// secureAndExchangeHello secures a new connection, reads its hello and replies. It returns the secured connection, or
// closes it and returns an error.
func (l *Listener) secureAndExchangeHello(g *pendingConn) (*Conn, error) {
	if err := g.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, err
	}
	begin := func() error { return l.hello.handshakeLimiter.takeToken(g.remoteAddr) }
	private, err := l.hello.trustGuard.SecureAccepted(g.Conn, begin)
	if err != nil {
		return nil, err
	}
	c, err := l.readHelloAndReply(private)
	if err != nil {
		_ = private.Close() // err says more
	}
	return c, err
}

func (l *Listener) readHelloAndReply(conn *trust.Conn) (c *Conn, err error) {
	speaks := conn.MaySpeakAs
	if l.hello.acceptsUnknown { // not on raft's port: its requests get into the log
		speaks = conn.MaySayHelloAs
	}
	of, err := l.hello.readAndCheckHello(conn, speaks)
	if err == nil {
		c, err = l.hello.wrapAndRegister(conn, of.Process, l.hello.knownProcesses.recordDialer)
		c.DialerEnsemble = of.ensembleID
	}
	switch {
	case errors.Is(err, ErrTwins):
		err = &helloRejection{helloTwins, err.Error()}
	case errors.Is(err, errSuperseded):
		return nil, l.rejectSuperseded(conn, of.Process)
	}
	if err != nil {
		if r, ok := errors.AsType[*helloRejection](err); ok {
			if r.isTransient() && l.hello.checkDialer(of.Process) == nil {
				// such a member dials often: a leader, for example, checks for a lost disk
				l.hello.learnAddress(of.ID, conn)
			}
			// the dialer may have gone
			_, _ = conn.Write(encodeHelloReply(r.replyCode, []byte(r.text[:min(len(r.text), math.MaxUint8)])))
		}
		return nil, err
	}
	if _, err = conn.Write(l.hello.encodeWelcome()); err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = c.Close() // unregisters it from knownProcesses
		return nil, fmt.Errorf("reply to hello: %w", err)
	}
	return c, nil
}

// rejectSuperseded rejects the hello of a process after a later one has come, and returns the reason. If the process confirms
// the rejection, it still runs.
func (l *Listener) rejectSuperseded(conn *trust.Conn, of Process) error {
	superseded := &helloRejection{helloSuperseded, errSuperseded.Error()}
	if _, err := conn.Write(encodeHelloReply(superseded.replyCode, []byte(superseded.text))); err != nil {
		return err
	}
	var confirmation [1]byte
	if _, err := io.ReadFull(conn, confirmation[:]); err != nil || confirmation[0] != confirmsRejection {
		return superseded // the process has ended
	}
	if l.hello.checkDialer(of) == nil {
		l.hello.learnAddress(of.ID, conn) // it dials often
	}
	of.Addr = conn.RemoteAddr().String()
	if err := l.hello.knownProcesses.recordClosingTwins(of, nil); errors.Is(err, ErrTwins) {
		return &helloRejection{helloTwins, err.Error()} // for the log: the dialer reads no more
	}
	return superseded
}

// learnAddress records that a known member dials from the address of conn. The addresses of other processes stay strangers': any
// number that they claim would give their addresses a member's share of the handshakes.
func (h Hello) learnAddress(member uint32, conn net.Conn) {
	if !trust.IsOfNewcomer(conn) && h.addressBook.IsKnown(member) {
		h.handshakeLimiter.learnAddress(member, remoteIP(conn))
	}
}

// encodeWelcome returns the reply that accepts a hello.
func (h Hello) encodeWelcome() []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(h.addressBook.Self().DiskID))
	return encodeHelloReply(helloOK, binary.BigEndian.AppendUint64(b, h.addressBook.RunID()))
}

// logRejection logs at most one rejection of each kind per refusalInterval.
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
	isDue := l.acceptErr == nil && l.lastLogged.allowLine(kind)
	l.mu.Unlock()
	if isDue {
		l.logger.Warn("refused connection", "remote", conn.RemoteAddr().String(), "err", err)
	}
}

// Locks returns the locks that all connections with this hello share.
func (h Hello) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{
		{Name: "wire.AddressBook.mu", Locker: &h.addressBook.mu},
		{Name: "wire.HandshakeLimiter.mu", Locker: &h.handshakeLimiter.mu},
		{Name: "wire.processTable.mu", Locker: &h.knownProcesses.mu},
		{Name: "wire.Corruptions.mu", Locker: &h.corruptions.mu},
		{Name: "wire.proofRejections.mu", Locker: &h.proofRejections.mu},
	}
}

// Locks returns the lock of the listener.
func (l *Listener) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "wire.Listener.mu", Locker: &l.mu}}
}
