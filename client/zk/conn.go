// Package zk has the programming interface of github.com/go-zookeeper/zk 1.0.4 over package client. A program that uses
// that library changes its import to try this client:
//
//	import "rollcall/client/zk"
//
// Everything that its documentation names is here, apart from the four-letter commands (FLWSrvr, FLWRuok, FLWCons) and
// the records and codes of the protocol. Its own tests of clients pass on this package.
//
// These things differ:
//
//   - Names of servers are resolved at each dial. NewDNSHostProvider returns the provider that does so.
//   - A connection counts as one, with StateHasSession, when the identities of AddAuth have been accepted on it.
//   - WithMaxConnBufferSize has no effect: requests have no limit but that of the servers.
//
// New programs use package client: its calls have contexts, its errors say whether a write may have been carried out,
// and its locks have fencing tokens.
package zk

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// Limits of a Conn.
const (
	eventChanSize  = 6           // events that wait for a reader of the channel; more are dropped
	connectTimeout = time.Second // of a dial
	closeTimeout   = time.Second // of Close
	retryPause     = time.Second // after all servers have been tried
)

// Dialer opens a connection to a server within timeout.
type Dialer func(network, address string, timeout time.Duration) (net.Conn, error)

// Logger gets the messages of a Conn.
type Logger interface {
	Printf(format string, args ...any)
}

// DefaultLogger is the standard logger of package log.
var DefaultLogger Logger = log.Default()

// Conn keeps a session, and opens another one when that has expired. It is safe for concurrent use.
type Conn struct {
	settings settings

	timeout        time.Duration
	sessionID      int64 // atomic
	state          atomic.Int32
	ctx            context.Context // ends with Close
	quit           context.CancelFunc
	ended          chan struct{} // closed when the Conn has ended
	watches        watchTable
	eventChan      chan Event
	eventMu        sync.Mutex // guards sends on eventChan against its close
	eventsAreEnded bool

	mu         sync.Mutex
	client     *client.Client // nil between two sessions
	hasSession bool           // requests pass
	conn       net.Conn       // the present connection; for that library's tests
	server     string         // of that, or of the last one
	failed     bool           // a server could not be reached, or has dropped a connection, since the last session
	rounds     int            // how often all servers have been tried in vain
	changed    chan struct{}  // closed at each change of the fields above
	auth       []client.Auth
}

// settings are what the options of Connect set.
type settings struct {
	dialer        Dialer
	hostProvider  HostProvider
	eventCallback EventCallback // nil: none
	maxBufferSize int           // 0 or less: no limit
	logger        Logger
	logInfo       bool
}

// connOption is an option of Connect.
type connOption func(c *Conn)

// EventCallback is a function that gets all events. It must not block.
type EventCallback func(Event)

// WithDialer returns an option with the function that opens connections.
func WithDialer(dialer Dialer) connOption { return func(c *Conn) { c.settings.dialer = dialer } }

// WithHostProvider returns an option with the servers.
func WithHostProvider(provider HostProvider) connOption {
	return func(c *Conn) { c.settings.hostProvider = provider }
}

// WithLogger returns an option with the logger.
func WithLogger(logger Logger) connOption { return func(c *Conn) { c.settings.logger = logger } }

// WithLogInfo returns an option that says whether messages that are no errors are logged.
func WithLogInfo(logInfo bool) connOption { return func(c *Conn) { c.settings.logInfo = logInfo } }

// WithEventCallback returns an option with a function that gets all events.
func WithEventCallback(callback EventCallback) connOption {
	return func(c *Conn) { c.settings.eventCallback = callback }
}

// WithMaxBufferSize returns an option with the limit of a reply in bytes; 0 or less: no limit but that of package
// client. A connection on which a longer one comes is closed.
func WithMaxBufferSize(size int) connOption { return func(c *Conn) { c.settings.maxBufferSize = size } }

// WithMaxConnBufferSize returns an option without an effect.
func WithMaxConnBufferSize(int) connOption { return func(*Conn) {} }

// ConnectWithDialer is Connect with WithDialer.
func ConnectWithDialer(servers []string, sessionTimeout time.Duration, dialer Dialer) (*Conn, <-chan Event, error) {
	return Connect(servers, sessionTimeout, WithDialer(dialer))
}

// Connect begins to connect to one of servers, and returns at once. Requests wait for a session, and fail with
// ErrNoServer when no server can be reached. The channel gets events of the session and of nodes, as long as it has
// room.
func Connect(servers []string, sessionTimeout time.Duration, options ...connOption) (*Conn, <-chan Event, error) {
	if len(servers) == 0 {
		return nil, nil, errors.New("zk: server list must not be empty")
	}
	c := &Conn{
		settings: settings{
			dialer: net.DialTimeout, hostProvider: NewDNSHostProvider(), logger: DefaultLogger, logInfo: true,
		},
		timeout: sessionTimeout, ended: make(chan struct{}), eventChan: make(chan Event, eventChanSize),
		changed: make(chan struct{}),
	}
	for _, option := range options {
		option(c)
	}
	if err := c.settings.hostProvider.Init(FormatServers(servers)); err != nil {
		return nil, nil, err
	}
	c.ctx, c.quit = context.WithCancel(context.Background())
	go c.keepSession()
	return c, c.eventChan, nil
}

// keepSession opens one session after another, until Close.
func (c *Conn) keepSession() {
	defer close(c.ended)
	for c.ctx.Err() == nil {
		why := c.runSession()
		if c.ctx.Err() != nil {
			break
		}
		if errors.Is(why, client.ErrExpired) {
			c.setState(StateExpired)
		}
		c.invalidateWatches(toError(why))
	}
	c.invalidateWatches(ErrClosing)
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	c.eventsAreEnded = true
	close(c.eventChan)
}

// runSession opens a session, waits for its end and returns the reason of that.
func (c *Conn) runSession() error {
	over := make(chan error, 1)
	var auth []client.Auth
	c.update(func() { auth = slices.Clone(c.auth) })
	cl, err := client.Dial(c.ctx, placesOfServers(c.settings.hostProvider.Len()), client.Config{
		MaxRequest: client.MaxRequest, // the servers decide, as for go-zookeeper
		Timeout:    c.timeout, WhileSuspended: client.Fail, GiveUpAfter: client.NeverGiveUp, Auth: auth,
		DialConn: c.dialNext, OnEvent: c.handleEvent, OnState: func(change client.StateChange) {
			c.handleState(change)
			if change.State.IsFinal() {
				over <- change.Err
			}
		},
	})
	if err != nil {
		if c.ctx.Err() == nil {
			c.settings.logger.Printf("no session: %v", err)
			sleep(c.ctx, retryPause)
		}
		return err
	}
	id, _ := cl.Session()
	atomic.StoreInt64(&c.sessionID, int64(id))
	c.update(func() { c.client, c.hasSession = cl, cl.State().State.IsConnected() })
	c.setState(StateHasSession)
	defer c.update(func() { c.client, c.hasSession = nil, false })
	select {
	case err = <-over:
		return err
	case <-c.ctx.Done():
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return cl.Close(ctx)
	}
}

// placesOfServers returns a list with n entries: dialNext decides which server is dialled.
func placesOfServers(n int) string {
	places := make([]string, max(n, 1))
	for i := range places {
		places[i] = fmt.Sprintf("server-%d:%d", i+1, DefaultPort)
	}
	return strings.Join(places, ",")
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// update changes the fields that mu guards, and wakes all who wait for that.
func (c *Conn) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// dialNext connects to the next server.
func (c *Conn) dialNext(ctx context.Context, network, _ string) (net.Conn, error) {
	server, again := c.settings.hostProvider.Next()
	c.update(func() {
		if c.server = server; again && c.failed {
			c.rounds++
		}
	})
	c.setState(StateConnecting)
	if again {
		sleep(ctx, retryPause)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn, err := c.settings.dialer(network, server, connectTimeout)
	if err != nil {
		c.settings.logger.Printf("failed to connect to %s: %v", server, err)
		c.noteFailure()
		return nil, err
	}
	link := &link{Conn: conn, c: c, server: server}
	c.update(func() { c.conn = link })
	c.setState(StateConnected)
	if c.settings.logInfo {
		c.settings.logger.Printf("connected to %s", server)
	}
	return link, nil
}

// noteFailure records that a server does not serve, unless there is a session.
func (c *Conn) noteFailure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = c.failed || !c.hasSession
}

func (c *Conn) handleState(change client.StateChange) {
	switch {
	case change.State.IsConnected():
		c.settings.hostProvider.Connected()
		c.update(func() { c.hasSession, c.failed, c.rounds = true, false, 0 })
		if change.State != client.Connected { // runSession reports that, when the id is known
			c.setState(StateHasSession)
		}
	case change.State == client.AuthFailed:
		c.setState(StateAuthFailed)
		fallthrough
	default:
		c.update(func() { c.hasSession = false })
	}
}

// awaitSession waits until requests pass, or until all servers have been tried in vain.
func (c *Conn) awaitSession() (*client.Client, error) {
	c.mu.Lock()
	begin := c.rounds
	for {
		cl, passes, rounds, changed := c.client, c.hasSession, c.rounds, c.changed
		c.mu.Unlock()
		switch {
		case c.ctx.Err() != nil:
			return nil, ErrConnectionClosed
		case cl != nil && passes:
			return cl, nil
		case rounds > begin:
			return nil, ErrNoServer
		}
		select {
		case <-changed:
		case <-c.ctx.Done():
		}
		c.mu.Lock()
	}
}

// Close ends the session. It waits for that at most a second.
func (c *Conn) Close() {
	c.quit()
	select {
	case <-c.ended:
	case <-time.After(closeTimeout):
	}
}

// State returns the state of the session.
func (c *Conn) State() State { return State(c.state.Load()) }

// SessionID returns the id of the session, or of the last one; 0: there was none.
func (c *Conn) SessionID() int64 { return atomic.LoadInt64(&c.sessionID) }

// SetLogger sets the logger. It is for options of Connect.
func (c *Conn) SetLogger(logger Logger) { c.settings.logger = logger }

// Server returns the address of the server that the Conn is connected to, or of the last one that it tried.
func (c *Conn) Server() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.server
}

func (c *Conn) setState(state State) { c.setStateOf(state, c.Server()) }

func (c *Conn) setStateOf(state State, server string) {
	c.state.Store(int32(state))
	c.sendEvent(Event{Type: EventSession, State: state, Server: server})
}

func (c *Conn) sendEvent(event Event) {
	if c.settings.eventCallback != nil {
		c.settings.eventCallback(event)
	}
	c.eventMu.Lock()
	defer c.eventMu.Unlock()
	if c.eventsAreEnded {
		return
	}
	select {
	case c.eventChan <- event:
	default: // no goroutine reads
	}
}
