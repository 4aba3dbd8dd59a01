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
	"net"
	"sync"
	"time"

	"rollcall/quorum/trust"
)

// Every connection between members begins with the hello, on both ports:
//
//	dialer → magic (8), version (2), from (4), to (4), ensemble (32)
//	dialed → 0, or a code (1), the length of a text (1) and the text
//
// Integers are big-endian. A member that does not know its ensemble yet says version 2 and an ensemble of
// zeros; all others say version 1. Members of earlier versions know version 1 only, and have the hash of the
// server list in place of the ensemble. Theirs was the first ensemble's id, so members of both kinds agree.
//
// The hello keeps misconfigured members from reaching raft or gRPC. It is no
// authentication: package trust does that before, and the hello must name the member that was proved.
const (
	helloMagic   = "ROLLCALL"
	helloVersion = 1 // of a member that knows its ensemble
	helloNew     = 2 // of a member that does not
	helloSize    = len(helloMagic) + 2 + 4 + 4 + hashSize
	hashSize     = 32

	// helloTimeout limits a handshake on both sides. It allows for several round trips of a bad
	// network, and is short enough that a silent stranger soon frees its place.
	helloTimeout = 5 * time.Second
	// unacknowledged is how long the kernel waits for sent data to be acknowledged on a connection
	// between members before it ends the connection: a firewall may have dropped it. It is as long
	// as a request may pause.
	unacknowledged = stallTimeout
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
	helloCodes // number of codes
)

// errRefused is wrapped by the error that a dialer gets when the other side refused its hello.
var errRefused = errors.New("connection refused by member")

// errOldVersion is wrapped instead if the other side is of a version that does not know members without an
// ensemble.
var errOldVersion = fmt.Errorf("%w of an earlier version", errRefused)

// Hello identifies this member. NewHello makes it, and it does not change afterwards.
type Hello struct {
	self  uint32
	book  *Book
	door  *Door        // of the Listeners with this hello
	guard *trust.Guard // nil: connections are plain
	any   bool         // members that the book does not know are let in
	host  string       // of the members that are dialed; "": the book and the guard know them
	// within limits the handshake and the hello with a member that is dialed; 0: helloTimeout.
	within time.Duration
}

// NewHello returns the hello of the member whose book it is.
func NewHello(book *Book) Hello {
	return Hello{self: book.Self().ID, book: book, door: newDoor(book)}
}

// Open returns the hello of a Listener that lets members in that the book does not know: one that is new
// asks whether it is one of the ensemble.
func (h Hello) Open() Hello {
	h.any = true
	return h
}

// At returns the hello for a dialer of a member that may not be known yet: what proves it must be for this host.
func (h Hello) At(host string) Hello {
	h.host = host
	return h
}

// Door returns the Door that all Listeners with this hello share.
func (h Hello) Door() *Door { return h.door }

// Guarded returns the hello over connections that guard makes private. If guard is nil, they are plain.
func (h Hello) Guarded(guard *trust.Guard) Hello {
	h.guard = guard
	return h
}

// Conn is a connection that has begun with a hello.
type Conn struct {
	net.Conn
	Peer uint32 // the member at the other end
}

// Dial opens a connection to member to, which listens at addr, within ctx. Then it does what Dialed
// does. A member that knows plain connections only gets one, if this member may open one. A member of an
// earlier version gets the hash of the server list, if this member does not know its ensemble.
func (h Hello) Dial(ctx context.Context, dial DialFunc, addr string, to uint32) (net.Conn, error) {
	private, err := h.dial(ctx, dial, addr, to, h.book.Ensemble())
	if errors.Is(err, trust.ErrPlain) {
		h = h.Guarded(nil)
		private, err = h.dial(ctx, dial, addr, to, h.book.Ensemble())
	}
	if errors.Is(err, errOldVersion) {
		private, err = h.dial(ctx, dial, addr, to, h.book.Hash())
	}
	return private, err
}

func (h Hello) dial(ctx context.Context, dial DialFunc, addr string, to uint32, as EnsembleID) (net.Conn, error) {
	conn, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	return h.dialed(conn, to, as)
}

// Dialed makes a new connection private, says hello to member to and waits for the answer, all of it
// within 5 s. If it returns an error it has closed conn.
func (h Hello) Dialed(conn net.Conn, to uint32) (net.Conn, error) {
	return h.dialed(conn, to, h.book.Ensemble())
}

// dialed does the same as a member of an ensemble.
func (h Hello) dialed(conn net.Conn, to uint32, as EnsembleID) (net.Conn, error) {
	limitUnacknowledged(conn, unacknowledged)
	private, err := h.prove(conn, to)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("quorum: connect to member %d: %w", to, err)
	}
	if err := h.greet(private, to, as); err != nil {
		_ = private.Close() // err says more
		return nil, fmt.Errorf("quorum: hello to member %d: %w", to, err)
	}
	return &Conn{Conn: private, Peer: to}, nil
}

// prove makes a new connection private and sets the deadline of the handshake and the hello.
func (h Hello) prove(conn net.Conn, to uint32) (net.Conn, error) {
	if err := conn.SetDeadline(time.Now().Add(cmp.Or(h.within, helloTimeout))); err != nil {
		return nil, err
	}
	return h.guard.DialedAt(conn, to, h.host)
}

func (h Hello) greet(conn net.Conn, to uint32, as EnsembleID) error {
	if _, err := conn.Write(h.preface(to, as)); err != nil {
		return err
	}
	var head [2]byte
	if _, err := io.ReadFull(conn, head[:1]); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	if head[0] == helloOK {
		return conn.SetDeadline(time.Time{})
	}
	if _, err := io.ReadFull(conn, head[1:]); err != nil {
		return fmt.Errorf("%w (code %d)", errRefused, head[0])
	}
	text := make([]byte, head[1])
	n, _ := io.ReadFull(conn, text) // whatever arrived is the best there is
	if head[0] == helloBadVersion && as == (EnsembleID{}) {
		return fmt.Errorf("%w: %q", errOldVersion, text[:n])
	}
	return fmt.Errorf("%w: %q", errRefused, text[:n])
}

func (h Hello) preface(to uint32, as EnsembleID) []byte {
	version := uint16(helloVersion)
	if as == (EnsembleID{}) {
		version = helloNew
	}
	b := append(make([]byte, 0, helloSize), helloMagic...)
	b = binary.BigEndian.AppendUint16(b, version)
	b = binary.BigEndian.AppendUint32(b, h.self)
	b = binary.BigEndian.AppendUint32(b, to)
	return append(b, as[:]...)
}

// refusal is the reason why a hello was refused: code for the dialer, text for both sides.
type refusal struct {
	code byte
	text string
}

func (r *refusal) Error() string { return r.text }

var errStranger = errors.New("not a Rollcall member: wrong magic")

// errPrivate is for a stranger that begins as a member with TLS does.
var errPrivate = errors.New("a TLS handshake, but this member takes plain connections only: neither ensembleSecretFile nor sslQuorum is set")

// read reads a hello and returns the member that sent it. The error is a *refusal if the dialer
// must be told. speaks returns an error if the dialer has proved that it is another member.
func (h Hello) read(r io.Reader, speaks func(uint32) error) (from uint32, err error) {
	var b [helloSize]byte
	if _, err := io.ReadFull(r, b[:len(helloMagic)]); err != nil {
		return 0, fmt.Errorf("no hello: %w", err)
	}
	rest := b[len(helloMagic):]
	if !bytes.Equal(b[:len(helloMagic)], []byte(helloMagic)) {
		if h.guard == nil && b[0] == trust.HandshakeByte {
			return 0, errPrivate
		}
		return 0, errStranger
	}
	if _, err := io.ReadFull(r, rest); err != nil {
		return 0, fmt.Errorf("hello cut short: %w", err)
	}
	version := binary.BigEndian.Uint16(rest)
	from, to := binary.BigEndian.Uint32(rest[2:]), binary.BigEndian.Uint32(rest[6:])
	if err := speaks(from); err != nil {
		return 0, err
	}
	theirs, own := EnsembleID(rest[10:]), h.book.Ensemble()
	switch {
	case version != helloVersion && version != helloNew:
		return 0, &refusal{helloBadVersion, fmt.Sprintf("protocol version %d, member %d speaks %d and %d", version, h.self, helloVersion, helloNew)}
	case to != h.self:
		return 0, &refusal{helloBadTo, fmt.Sprintf("meant for member %d, this is member %d", to, h.self)}
	case (version == helloNew) != (theirs == EnsembleID{}):
		return 0, &refusal{helloBadEnsemble, fmt.Sprintf("protocol version %d with the ensemble %x", version, theirs[:shownEnsemble])}
	case theirs != EnsembleID{} && own != EnsembleID{} && theirs != own:
		return 0, &refusal{helloBadEnsemble, fmt.Sprintf("member %d is of the ensemble %x, and member %d of %x", from, theirs[:shownEnsemble], h.self, own[:shownEnsemble])}
	case from == h.self:
		return 0, &refusal{helloBadFrom, fmt.Sprintf("another process says it is member %d", from)}
	case from == 0 || from > maxMember || !h.any && !h.book.Known(from) && (own == EnsembleID{} || theirs != own):
		// One that says our ensemble may have come in, and lead, while this member was away.
		return 0, &refusal{helloBadFrom, fmt.Sprintf("member %d is not in the server list", from)}
	}
	return from, nil
}

// shownEnsemble is how many bytes of an ensemble's id texts show: enough to tell two apart.
const shownEnsemble = 4

// Listener returns only connections that began with a correct hello; they are *Conn. It closes
// silent ones after 5 s, or earlier to make room (greeting.go), and they never delay Accept. Close
// closes the inner listener and every connection that is still being greeted.
type Listener struct {
	net.Listener
	hello  Hello
	log    *slog.Logger
	ready  chan *Conn
	closed chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex
	greeting map[*greeted]bool
	came     uint64 // number of connections so far
	err      error  // error of the inner Accept; set before closed is closed
	logged   [int(helloCodes) + int(trust.Reasons)]time.Time
}

// NewListener starts greeting the connections that inner accepts. Close ends its goroutines. If
// logger is nil nothing is logged.
func NewListener(inner net.Listener, hello Hello, logger *slog.Logger) *Listener {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	l := &Listener{
		Listener: inner, hello: hello, log: logger,
		ready:  make(chan *Conn),
		closed: make(chan struct{}), greeting: map[*greeted]bool{},
	}
	l.wg.Go(l.acceptLoop)
	return l
}

// Accept waits for the next connection from a member.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.ready:
		return c, nil
	case <-l.closed:
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.err
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
	if l.err != nil {
		return nil
	}
	l.err = why
	close(l.closed)
	for c := range l.greeting {
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
			if why := l.hello.door.open(addr); why != nil {
				conn.Close()
				l.refused(conn, why)
				continue
			}
			if g := l.admit(conn, addr); g != nil {
				l.wg.Go(func() { l.greet(g) })
				continue
			}
			conn.Close() // the listener was closed meanwhile
		case isTemporary(err): // out of file descriptors, or the peer has gone already
			l.log.Warn("accept failed", "err", err)
			select {
			case <-time.After(acceptRetry):
			case <-l.closed:
			}
			continue
		default:
			_ = l.shutDown(err) // it is closed already
		}
		return
	}
}

// acceptRetry is the pause that saves CPU time while the process is out of file descriptors.
const acceptRetry = 100 * time.Millisecond

func isTemporary(err error) bool {
	var ne interface{ Temporary() bool }
	return !errors.Is(err, net.ErrClosed) && errors.As(err, &ne) && ne.Temporary()
}

// answer makes a new connection private, reads its hello and answers it. It returns the private
// connection. If it returns an error, it has closed that.
func (l *Listener) answer(g *greeted) (private *trust.Conn, from uint32, err error) {
	if err := g.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return nil, 0, err
	}
	begin := func() error { return l.hello.door.begin(g.addr) }
	if private, err = l.hello.guard.Accepted(g.Conn, begin); err != nil {
		return nil, 0, err
	}
	if from, err = l.answerHello(private); err != nil {
		_ = private.Close() // err says more
	}
	return private, from, err
}

func (l *Listener) answerHello(conn *trust.Conn) (from uint32, err error) {
	from, err = l.hello.read(conn, conn.Speaks)
	if err != nil {
		if r, ok := errors.AsType[*refusal](err); ok {
			text := r.text[:min(len(r.text), 255)]
			_, _ = conn.Write(append([]byte{r.code, byte(len(text))}, text...)) // the dialer may have gone
		}
		return 0, err
	}
	if _, err := conn.Write([]byte{helloOK}); err != nil {
		return 0, fmt.Errorf("answer hello: %w", err)
	}
	return from, conn.SetDeadline(time.Time{})
}

// refused logs a refusal, each kind at most once in refusalInterval.
func (l *Listener) refused(conn net.Conn, err error) {
	if why, ok := errors.AsType[tooFast](err); ok {
		l.hello.door.log(l.log, conn.RemoteAddr().String(), why)
		return
	}
	kind := int(helloOK) // for silent and broken connections, and strangers that speak no TLS
	if r, ok := errors.AsType[*refusal](err); ok {
		kind = int(r.code)
	} else if r, ok := errors.AsType[*trust.Refusal](err); ok {
		kind = int(helloCodes) + int(r.Reason)
	}
	l.mu.Lock()
	quiet := l.err != nil || !l.logged[kind].IsZero() && time.Since(l.logged[kind]) < refusalInterval
	if !quiet {
		l.logged[kind] = time.Now()
	}
	l.mu.Unlock()
	if !quiet {
		l.log.Warn("refused connection", "remote", conn.RemoteAddr().String(), "err", err)
	}
}
