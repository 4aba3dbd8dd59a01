// Package session keeps a session with servers that speak ZooKeeper's protocol, and sends requests
// over it.
//
// A Session has one goroutine for as long as it lives, the reader. It connects, does the handshake,
// reads, and calls the caller's functions. Output is collected in a buffer. The goroutine that sends
// a request writes it. What the functions of the caller send while the reader handles replies is
// written by the reader, in one write, when it has handled them. None of these writes waits: a second
// goroutine writes what the connection does not take at once. A timer watches over pings and silence;
// it needs no goroutine while it waits. A session that only pings therefore costs one goroutine and a
// few hundred bytes of buffers.
//
// If a connection breaks, or nothing is received for two thirds of the session's timeout or for 30 s, the
// requests in flight end with ErrConnectionLost. They are not sent again. The reader tries the
// servers in turn to resume the session, sends its identities, sets its watches again, and only
// then lets requests pass.
//
// The caller's functions run on the reader: they must not block, and must not call Close, Abandon,
// Do or anything that waits like Do. They may call Go.
package session

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
)

// These are the defaults of Config.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInFlight = 1024
	DefaultMaxRequest  = jute.DefaultMaxBuffer // the default of servers
)

// NeverGiveUp is a value of Config.GiveUpAfter.
const NeverGiveUp time.Duration = -1

// Config configures a Session. From Open on, its slices belong
// to the Session.
type Config struct {
	// Servers are the servers to try, in this order: host:port, unix: and the path of a socket, or srv: and a
	// name, such as srv:_zookeeper._tcp.example.com. Names are resolved at each attempt. SRV records are resolved
	// again for each round over all servers, by Resolver. At most 32 servers are tried in a round.
	Servers  []string
	Shuffle  bool     // try the servers in a random order, drawn once; the order of SRV records is kept
	Resolver Resolver // nil: net.DefaultResolver

	Timeout time.Duration // the session timeout to request; 0: DefaultTimeout
	Resume  *ResumeToken  // resume this session instead of opening a new one
	Login   Mechanism     // the login by SASL, first on every connection; nil: none
	Auth    []Auth        // identities to send first on every connection, after the login; at most MaxIdentities

	// AllowReadOnly admits servers that have no leader. The state is then ReadOnly: only reads pass, and
	// their results may be old. A session that is opened there ends with its connection. Meanwhile the
	// Session searches for a server that can write, and moves to it.
	AllowReadOnly bool

	// MaxInFlight limits the requests in flight; 0: DefaultMaxInFlight.
	MaxInFlight int

	// MaxRequest limits a request, in bytes; 0: DefaultMaxRequest. A longer one fails with ErrTooLong before it is sent:
	// a server closes the connection of a request that is longer than its jute.maxbuffer, and all requests in flight end.
	// If the servers accept more, set it to their value, up to the constant MaxRequest.
	MaxRequest int

	// FailWithoutConnection makes Do return ErrNotConnected at once while there is no connection, instead of
	// waiting for one. Close waits all the same.
	FailWithoutConnection bool

	// TLS secures all connections except those to Unix sockets. If its ServerName is empty, it is the host of the
	// server, or the target of its SRV record. nil: no TLS.
	TLS *tls.Config

	// Dial opens a connection to one of Servers, or to host:port of an SRV record. TLS is added to it. It must return
	// when ctx ends, and several goroutines may call it. nil: TCP with TCP_NODELAY, or a Unix socket.
	Dial dialFunc

	// Clock is the clock by which the session's right ends and by which the Session gives up. nil: one like BootTime,
	// which is the bubble's in a bubble of testing/synctest.
	Clock Clock

	// Margin is the time by which the session's right ends before the timeout is over. 0: a tenth of the timeout, which
	// allows for clocks whose speeds differ by 10 %.
	Margin time.Duration

	// GiveUpAfter is the time without a connection, from when the last answered request was sent, after which the
	// Session has expired for its client: it ends with ErrGaveUp and does not connect again. 0: 4/3 of the timeout.
	// Negative, such as NeverGiveUp: the Session tries until a server replies that the session has expired. Sessions
	// survive an outage of all servers, so that may be long after.
	GiveUpAfter time.Duration

	// OnEvent is called with every event of a node, in the order in which the connection delivers
	// them. zxid is the server's for that event, or -1 if the server does not know it. The path is
	// valid during the call.
	OnEvent func(e jute.WatcherEvent, zxid int64)

	// OnState is called with every change of the session's state, in order. It begins with Connecting,
	// and ends with a final state, after which no function is called any more.
	OnState func(Change)

	// OnRepeat is called, under the rules of OnEvent and in its place, with an event that Go has requested with a
	// setWatches2 and whose zxid is not greater than LastZxid: the other watches of the Session have had it. If it is nil,
	// the event is dropped.
	OnRepeat func(e jute.WatcherEvent, zxid int64)

	// OnPong is called with each ping's round-trip time.
	OnPong func(time.Duration)

	Logger *slog.Logger // nil: no log
}

type dialFunc = func(ctx context.Context, addr string) (net.Conn, error)

// ResumeToken identifies a session to resume.
type ResumeToken struct {
	ID       jute.SessionID
	Password []byte
	LastZxid int64 // servers that have not applied it reject the connection
}

// Auth is an identity to send, such as scheme digest and user:password.
type Auth struct {
	Scheme string
	Auth   []byte
}

// Session holds one session. It is safe for concurrent use.
type Session struct {
	cfg         Config
	log         *slog.Logger
	clockOrigin time.Time // the start of all durations below
	ctx         context.Context
	stop        context.CancelFunc
	readerEnded chan struct{} // closed when the reader ends
	zxid        atomic.Int64  // see LastZxid; set by the reader
	waiters     sync.Pool     // of *waiter
	right       Right

	mu          sync.Mutex
	session     ResumeToken   // without its zxid
	local       bool          // only one read-only server knows the session
	timeout     time.Duration // the session's timeout: requested, later granted
	servers     serverList
	link        *link       // nil while requests do not pass
	timer       *time.Timer // runs while connected; nil before that
	calls       callQueue   // sent and without a reply, in order
	xid         int32
	roomWaiters []chan struct{} // callers that wait for room; each has capacity 1
	linkChanged chan struct{}   // closed when link or end changes
	closing     bool            // only Close may still send
	endError    error           // why no request will ever be sent again; nil: one may be
	lastFailure error           // why the last attempt to connect failed
}

// Open connects to one of the servers. It returns when the session exists and its identities are
// accepted. It tries the servers in turn until ctx ends, so give ctx a deadline. If ctx ends, the
// error is ctx's, with the last failure. If the session to resume is gone, the error is ErrExpired.
// If the login or an identity is rejected, it is jute.AuthFailed.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	c, err := newSession(cfg)
	if err != nil {
		return nil, err
	}
	go (&reader{c: c}).keepConnected()
	if err := c.AwaitReady(ctx); err != nil {
		c.mu.Lock()
		last := c.lastFailure
		c.mu.Unlock()
		c.Abandon()
		if last != nil && !errors.Is(err, last) {
			return nil, fmt.Errorf("client: open: %w; last: %w", err, last)
		}
		return nil, fmt.Errorf("client: open: %w", err)
	}
	return c, nil
}

func newSession(cfg Config) (*Session, error) {
	if err := checkServerCount(cfg.Servers); err != nil {
		return nil, err
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxInFlight = cmp.Or(cfg.MaxInFlight, DefaultMaxInFlight)
	cfg.MaxRequest = cmp.Or(cfg.MaxRequest, DefaultMaxRequest)
	switch {
	case cfg.Timeout < time.Millisecond || cfg.Timeout > maxTimeout:
		return nil, fmt.Errorf("client: timeout %v is not between 1ms and %v", cfg.Timeout, maxTimeout)
	case cfg.MaxInFlight < 0:
		return nil, fmt.Errorf("client: MaxInFlight %d is negative", cfg.MaxInFlight)
	case cfg.MaxRequest < 0 || cfg.MaxRequest > MaxRequest:
		return nil, fmt.Errorf("client: MaxRequest %d is not between 0 and %d", cfg.MaxRequest, MaxRequest)
	case len(cfg.Auth) > MaxIdentities:
		return nil, fmt.Errorf("%w: Config.Auth has %d", ErrTooManyIdentities, len(cfg.Auth))
	case cfg.Margin < 0 || cfg.Margin >= cfg.Timeout:
		return nil, fmt.Errorf("client: margin %v is not between 0 and the timeout, %v", cfg.Margin, cfg.Timeout)
	}
	if cfg.Dial == nil {
		cfg.Dial = dialDefault
	}
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if cfg.Clock == nil {
		cfg.Clock = newClock()
	}
	c := &Session{
		cfg: cfg, log: cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)), clockOrigin: time.Now(),
		readerEnded: make(chan struct{}), linkChanged: make(chan struct{}), timeout: cfg.Timeout,
		right: Right{clock: cfg.Clock, margin: cfg.Margin}, servers: serverList{resolver: cfg.Resolver},
	}
	c.right.wantProof = c.proveNow
	c.servers.setServers(withoutDuplicates(cfg.Servers), nil, cfg.Shuffle)
	if r := cfg.Resume; r != nil {
		c.session = ResumeToken{ID: r.ID, Password: slices.Clone(r.Password)}
		c.zxid.Store(r.LastZxid)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// maxTimeout is the longest session timeout that can be requested.
const maxTimeout = 1<<31*time.Millisecond - time.Millisecond // an int of milliseconds on the wire

// monotonicNow returns the time since the Session was made, by the monotonic clock.
func (c *Session) monotonicNow() time.Duration { return time.Since(c.clockOrigin) }

// Right returns the session's right.
func (c *Session) Right() *Right { return &c.right }

// Identity returns the session's id and its timeout as the servers granted it.
func (c *Session) Identity() (jute.SessionID, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.ID, c.timeout
}

// ResumeToken returns the session for another Session to resume.
func (c *Session) ResumeToken() ResumeToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ResumeToken{ID: c.session.ID, Password: slices.Clone(c.session.Password), LastZxid: c.zxid.Load()}
}

// LastZxid returns the greatest zxid in a reply so far, or the one before that of the last event if that is greater. All events of transactions up to it have been passed to
// OnEvent.
func (c *Session) LastZxid() int64 { return c.zxid.Load() }

// Server returns the address of the server that the Session is connected to, or "" while there is
// none.
func (c *Session) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.server.addr
}

// AwaitReady waits until requests can be sent. It returns ctx's error if ctx ends first, or the reason
// if requests can never be sent again.
func (c *Session) AwaitReady(ctx context.Context) error {
	for {
		c.mu.Lock()
		link, end, changed := c.link, c.endError, c.linkChanged
		c.mu.Unlock()
		if end != nil {
			return end
		}
		if link != nil {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeGrace is the time after the end of Close's context in which the reader may end. It needs no more than a
// moment, unless a function of the caller blocks it.
const closeGrace = time.Second

// AwaitEnd waits until ended is closed, but not longer than a second after the end of ctx: as Close does for the
// reader.
func AwaitEnd(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
	}
}

// Close closes the session and waits for the reply. Without a connection it waits for one. Calls
// that begin after Close end with ErrClosed, and the right ends at once. Whatever Close returns, the
// Session has then ended as with Abandon, unless a function of the caller blocks the reader for a second after the end
// of ctx. The error is ctx's, in which case the session ends when it
// expires, or ErrClosed if Abandon has ended the Session before. It is nil if the session had expired, and for each
// further Close.
func (c *Session) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	if again {
		AwaitEnd(ctx, c.readerEnded)
		return nil
	}
	err := ErrConnectionLost
	for errors.Is(err, ErrConnectionLost) {
		_, err = c.doRequest(ctx, outgoing{op: jute.OpCloseSession, isLast: true}, nil)
	}
	c.stop()
	AwaitEnd(ctx, c.readerEnded)
	if errors.Is(err, jute.SessionExpired) {
		return nil
	}
	return err
}

// Abandon ends the Session without a request to the server: the session lives until it expires. Requests
// in flight end with ErrClosed. When Abandon returns, no goroutine is left and no function of the
// caller will be called any more. A function of Right.AfterEnd that a timer called at the same time
// may still run.
func (c *Session) Abandon() {
	c.stop()
	<-c.readerEnded
}
