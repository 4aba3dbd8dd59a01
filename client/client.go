// Package client keeps a session with servers that speak ZooKeeper's protocol, and sends
// requests over it.
//
// A Client has one goroutine for its life, the reader: it connects, shakes hands, reads,
// and calls the functions that callers gave it. Output is gathered in a buffer, and a second
// goroutine exists while there is some to write: it takes all that has gathered in one write.
// A timer looks after pings and silence; it has no goroutine while it waits. So a session
// that only pings costs one goroutine, and no buffers but a few hundred bytes.
//
// With a Loop many Clients share one reader, which reads what the kernel says is readable,
// answers in place and writes at the end of each connection's batch. A Client of its has a
// goroutine only while it has no connection. What is sent from elsewhere is written by whoever
// sends it. Handling a frame is the same code in both.
//
// When a connection breaks, or says nothing for two thirds of the session's timeout, what was
// under way ends with ErrConnectionLost and is not sent again; the reader goes round the
// servers with the session, shows its identities, sets its watches again, and only then lets
// requests pass.
//
// Functions given by callers run on the reader: they must not block, and must not call Close,
// Abandon, Do or what waits like it. Go may be called from them.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/fifo"
	"rollcall/jute"
)

// Defaults of Config.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInFlight = 1024
)

// Config says how a Client connects and whom it tells what. Its slices are the Client's from
// Open on.
type Config struct {
	Servers []string      // host:port, tried in this order
	Shuffle bool          // in a random order instead, drawn once
	Timeout time.Duration // of the session, asked for; 0: DefaultTimeout
	Resume  *Resume       // take over this session instead of a new one
	Auth    []Auth        // identities shown on every connection, before anything else

	// MaxInFlight is how many requests may be sent and not answered; 0: DefaultMaxInFlight.
	MaxInFlight int

	// Loop serves the connections, if they are sockets and this is Linux; else, and if it is
	// nil, each has goroutines of its own.
	Loop *Loop

	// Dial opens a connection to one of Servers until ctx ends. nil: TCP, without delay.
	Dial func(ctx context.Context, addr string) (net.Conn, error)

	// Watch is told every event of a node, in the order of the connection. zxid is what the
	// server gave with it: -1 if it does not know. The path is good during the call.
	Watch func(e jute.WatcherEvent, zxid int64)

	// State is told every change of the session's state. The error says why: nil with
	// Connected, and with Closed after Close and Abandon.
	State func(s State, why error)

	// Pinged is told how long a ping took, from its sending to its answer.
	Pinged func(time.Duration)

	Logger *slog.Logger // nil: silent
}

// Resume is what it takes to go on with a session.
type Resume struct {
	ID       jute.SessionID
	Password []byte
	LastZxid int64 // servers that have not seen it refuse the connection
}

// Auth is an identity to show, such as scheme digest and user:password.
type Auth struct {
	Scheme string
	Auth   []byte
}

// State is how a session stands.
type State int

// All states. Expired and Closed are final.
const (
	Connected    State = iota + 1 // requests pass
	Disconnected                  // no connection; the Client looks for one
	Expired                       // the servers know the session no longer
	Closed                        // by Close or Abandon, or because an identity was refused
)

// String names the state.
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

// Client holds one session. Safe for concurrent use.
type Client struct {
	cfg     Config
	servers []string
	log     *slog.Logger
	base    time.Time // what durations below count from
	ctx     context.Context
	stop    context.CancelFunc
	ended   chan struct{} // closed when the reader has ended
	zxid    atomic.Int64  // the greatest seen in a reply; set by the reader
	waiters sync.Pool     // of *waiter

	// The reader's.
	watches watches
	turn    int           // attempts to connect
	failed  int           // of them, the last in a row
	begun   time.Duration // when the last began

	mu       sync.Mutex
	session  Resume           // without zxid
	timeout  time.Duration    // of the session: as granted, once it is
	link     *link            // nil while requests do not pass
	timer    *time.Timer      // runs look, while connected; nil: not yet, or a Loop looks
	calls    fifo.Queue[call] // sent and not answered, in order
	xid      int32
	waiting  []chan struct{} // for room, each with one place
	changed  chan struct{}   // closed when link or end changes
	closing  bool            // only Close may still send
	end      error           // why nothing will ever pass again; nil: it may
	lastFail error           // of an attempt to connect
}

// Open connects to one of the servers and returns when there is a session and its identities
// are accepted. It goes round the servers until ctx ends: give it a deadline. The error is
// ctx's, with what went wrong last; ErrExpired if the session to resume is gone; or
// jute.AuthFailed.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	go c.run()
	if err := c.Ready(ctx); err != nil {
		c.mu.Lock()
		last := c.lastFail
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
		cfg: cfg, servers: slices.Clone(cfg.Servers), log: cfg.Logger, base: time.Now(),
		ended: make(chan struct{}), changed: make(chan struct{}), timeout: cfg.Timeout,
	}
	if cfg.Shuffle {
		rand.Shuffle(len(c.servers), func(i, j int) { c.servers[i], c.servers[j] = c.servers[j], c.servers[i] })
	}
	if r := cfg.Resume; r != nil {
		c.session = Resume{ID: r.ID, Password: slices.Clone(r.Password)}
		c.zxid.Store(r.LastZxid)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// Bounds of what is asked for.
const maxTimeout = 1<<31*time.Millisecond - time.Millisecond // an int of milliseconds on the wire

// now is the time since base, monotonic.
func (c *Client) now() time.Duration { return time.Since(c.base) }

// Session returns the session's id and its timeout as the servers granted it.
func (c *Client) Session() (jute.SessionID, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.ID, c.timeout
}

// Resume returns what another Client needs to take the session over.
func (c *Client) Resume() Resume {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Resume{ID: c.session.ID, Password: slices.Clone(c.session.Password), LastZxid: c.zxid.Load()}
}

// Server returns the address the Client is connected to, "" while it is not.
func (c *Client) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == nil {
		return ""
	}
	return c.link.addr
}

// Ready waits until requests pass, or returns ctx's error, or why they never will.
func (c *Client) Ready(ctx context.Context) error {
	for {
		c.mu.Lock()
		link, end, changed := c.link, c.end, c.changed
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

// Close closes the session and waits for the answer; while there is no connection it waits
// for one. Calls that begin after it end with ErrClosed. When it returns, whatever it returns,
// the Client has ended as with Abandon. The error is ctx's, and then the session ends when it
// expires; or ErrClosed if the Client had ended before. That the session had expired is none.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	again := c.closing
	c.closing = true
	c.mu.Unlock()
	if again {
		<-c.ended
		return ErrClosed
	}
	err := ErrConnectionLost
	for errors.Is(err, ErrConnectionLost) {
		_, err = c.do(ctx, jute.OpCloseSession, nil, nil, true)
	}
	c.Abandon()
	if errors.Is(err, jute.SessionExpired) {
		return nil
	}
	return err
}

// Abandon ends the Client without a word to the server: the session lives until it expires.
// What is under way ends with ErrClosed. When Abandon returns, no goroutine is left and no
// function of the caller will be called any more.
func (c *Client) Abandon() {
	c.stop()
	<-c.ended
}
