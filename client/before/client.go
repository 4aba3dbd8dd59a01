// Package before keeps a session with servers that speak ZooKeeper's protocol, and sends requests
// over it.
//
// A Client has one goroutine for as long as it lives, the reader. It connects, does the handshake,
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
package before

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/fifo"
	"rollcall/zk/jute"
)

// These are the defaults of Config.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInFlight = 1024
)

// Config says how a Client connects and which functions it calls. From Open on, its slices belong
// to the Client.
type Config struct {
	Servers []string      // host:port, tried in this order
	Shuffle bool          // try the servers in a random order, drawn once
	Timeout time.Duration // the session timeout to request; 0: DefaultTimeout
	Resume  *ResumeToken  // resume this session instead of opening a new one
	Login   *Login        // the user to log in by SASL, first on every connection; nil: none
	Auth    []Auth        // identities to send first on every connection, after the login

	// MaxInFlight limits the requests in flight; 0: DefaultMaxInFlight.
	MaxInFlight int

	// Dial opens a connection to one of Servers. It must return when ctx ends. nil: TCP with
	// TCP_NODELAY.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// OnEvent is called with every event of a node, in the order in which the connection delivers
	// them. zxid is the server's for that event, or -1 if the server does not know it. The path is
	// valid during the call.
	OnEvent func(e jute.WatcherEvent, zxid int64)

	// OnState is called with every change of the session's state. The error is the reason; it is nil
	// with Connected, and with Closed after Close and Abandon.
	OnState func(s State, why error)

	// OnPong is called with each ping's round-trip time.
	OnPong func(time.Duration)

	Logger *slog.Logger // nil: no log
}

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

// State is the state of a session.
type State int

// These are all states. Expired and Closed are final.
const (
	Connected    State = iota + 1 // requests pass
	Disconnected                  // without a connection; the Client looks for one
	Expired                       // the servers have expired the session
	Closed                        // by Close or Abandon, or because a server rejected an identity
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Connected:
		return "connected"
	case Disconnected:
		return "disconnected"
	case Expired:
		return "expired"
	case Closed:
		return "closed"
	}
	return "no state"
}

// Client holds one session. It is safe for concurrent use.
type Client struct {
	cfg         Config
	log         *slog.Logger
	clockOrigin time.Time // the start of all durations below
	ctx         context.Context
	stop        context.CancelFunc
	readerEnded chan struct{} // closed when the reader ends
	zxid        atomic.Int64  // the greatest zxid in a reply; set by the reader
	waiters     sync.Pool     // of *waiter

	mu          sync.Mutex
	session     ResumeToken      // without its zxid
	timeout     time.Duration    // the session's timeout: requested, later granted
	link        *link            // nil while requests do not pass
	timer       *time.Timer      // runs while connected; nil before that
	calls       fifo.Queue[call] // sent and without a reply, in order
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
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	go newReader(c).keepConnected()
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

func newClient(cfg Config) (*Client, error) {
	if len(cfg.Servers) == 0 {
		return nil, errors.New("client: no servers")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Timeout < time.Millisecond || cfg.Timeout > maxTimeout {
		return nil, fmt.Errorf("client: timeout %v is not between 1ms and %v", cfg.Timeout, maxTimeout)
	}
	if cfg.MaxInFlight == 0 {
		cfg.MaxInFlight = DefaultMaxInFlight
	}
	if cfg.MaxInFlight < 0 {
		return nil, fmt.Errorf("client: MaxInFlight %d is negative", cfg.MaxInFlight)
	}
	if cfg.Dial == nil {
		var d net.Dialer
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg: cfg, log: cfg.Logger, clockOrigin: time.Now(),
		readerEnded: make(chan struct{}), linkChanged: make(chan struct{}), timeout: cfg.Timeout,
	}
	if r := cfg.Resume; r != nil {
		c.session = ResumeToken{ID: r.ID, Password: slices.Clone(r.Password)}
		c.zxid.Store(r.LastZxid)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// maxTimeout is the longest session timeout that can be requested.
const maxTimeout = 1<<31*time.Millisecond - time.Millisecond // an int of milliseconds on the wire

// monotonicNow returns the time since the Client was made, by the monotonic clock.
func (c *Client) monotonicNow() time.Duration { return time.Since(c.clockOrigin) }

// Session returns the session's id and its timeout as the servers granted it.
func (c *Client) Session() (jute.SessionID, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.ID, c.timeout
}

// ResumeToken returns the session for another Client to resume.
func (c *Client) ResumeToken() ResumeToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ResumeToken{ID: c.session.ID, Password: slices.Clone(c.session.Password), LastZxid: c.zxid.Load()}
}

// Server returns the address of the server that the Client is connected to, or "" while there is
// none.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.addr
}

// AwaitReady waits until requests can be sent. It returns ctx's error if ctx ends first, or the reason
// if requests can never be sent again.
func (c *Client) AwaitReady(ctx context.Context) error {
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

// Close closes the session and waits for the reply. Without a connection it waits for one. Calls
// that begin after Close end with ErrClosed. Whatever Close returns, the Client has then ended as
// with Abandon. The error is ctx's, in which case the session ends when it expires, or ErrClosed if
// the Client had ended before. It is nil if the session had expired.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	if again {
		<-c.readerEnded
		return ErrClosed
	}
	err := ErrConnectionLost
	for errors.Is(err, ErrConnectionLost) {
		_, err = c.doRequest(ctx, jute.OpCloseSession, nil, nil, true)
	}
	c.Abandon()
	if errors.Is(err, jute.SessionExpired) {
		return nil
	}
	return err
}

// Abandon ends the Client without telling the server: the session lives until it expires. Requests
// in flight end with ErrClosed. When Abandon returns, no goroutine is left and no function of the
// caller will be called any more.
func (c *Client) Abandon() {
	c.stop()
	<-c.readerEnded
}
