package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"rollcall/cli/nodes"
	"rollcall/client"
	"rollcall/zk/jute"
)

const (
	// DefaultTimeout is the session timeout of zkCli.sh.
	DefaultTimeout = 30 * time.Second
	// connectWait limits a command's wait for a connection. It is longer than an election. If no server can be
	// reached, a command fails as soon as all have been tried.
	connectWait = 10 * time.Second
	// closeWait limits the wait for the end of the session when the shell ends.
	closeWait = 5 * time.Second
)

// Session states as the prompt shows them.
const (
	connecting = "CONNECTING"
	connected  = "CONNECTED"
	closed     = "CLOSED"
	authFailed = "AUTH_FAILED"
)

// session is a session with an ensemble, and its watches. It is safe for concurrent use.
type session struct {
	*target
	dialServer  func(ctx context.Context, network, address string) (net.Conn, error) // nil: a net.Dialer
	watches     watchTable
	onEvent     func(jute.EventType, jute.KeeperState, string) // gets each event; must not block
	onHint      func(text string)                              // gets hints for a person; must not block
	stopOpening context.CancelFunc                             // cancels opening the session
	openingDone chan struct{}                                  // closed when that has ended

	mu          sync.Mutex
	client      *client.Client // nil until the session is open
	state       string         // commands go by it
	promptState string         // the same, but it changes before the event of the change is printed, with a prompt below
	failedDials int
	lastFailure error
	changed     chan struct{} // closed at each change of these fields
}

// startSession starts to open a session. It does not wait for a connection.
func startSession(cfg *Config, t *target, event func(jute.EventType, jute.KeeperState, string),
	hint func(string),
) *session {
	ctx, stop := context.WithCancel(context.Background())
	s := &session{
		target: t, dialServer: cfg.Session.DialConn, watches: newWatchTable(), onEvent: event, onHint: hint, stopOpening: stop,
		openingDone: make(chan struct{}),
		state:       connecting, promptState: connecting, changed: make(chan struct{}),
	}
	go func() {
		defer close(s.openingDone)
		c, err := client.Dial(ctx, strings.Join(t.servers, ","), s.clientConfig(cfg))
		s.updateState(func() {
			if s.client = c; err != nil {
				s.lastFailure = err
			}
		})
	}()
	return s
}

// clientConfig returns the configuration of the session. A call fails while there is no connection.
func (s *session) clientConfig(cfg *Config) client.Config {
	c := cfg.Session
	c.Timeout, c.Auth = cfg.Timeout, slices.Clone(c.Auth)
	c.InOrder, c.WhileSuspended = true, client.Fail
	c.GiveUpAfter = client.NeverGiveUp // sessions survive an outage of the ensemble
	c.DialConn, c.OnEvent, c.OnState = s.dial, s.handleEvent, s.handleState
	return c
}

// updateState changes the fields that mu guards, and wakes all waiters.
func (s *session) updateState(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// dial connects to a server, and counts failures.
func (s *session) dial(ctx context.Context, network, address string) (net.Conn, error) {
	connect := s.dialServer
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	conn, err := connect(ctx, network, address)
	if err != nil {
		s.updateState(func() { s.failedDials, s.lastFailure = s.failedDials+1, err })
	}
	return conn, err
}

func (s *session) handleEvent(e client.Event) {
	path := s.space.TrimRoot(e.Path)
	s.watches.removeFired(jute.EventType(e.Type), path)
	s.onEvent(jute.EventType(e.Type), jute.StateSyncConnected, path)
}

func (s *session) handleState(change client.StateChange) {
	shown, event, hint := connected, jute.StateSyncConnected, ""
	switch change.State {
	case client.Connecting:
		return // the session begins in this state
	case client.Suspended:
		shown, event = connecting, jute.StateDisconnected
		hint = fmt.Sprintf("The connection broke: %v. The shell tries to resume the session.", change.Err)
	case client.Expired:
		shown, event = closed, jute.StateExpired
		hint = "The servers have expired the session. Its ephemeral nodes and watches are gone. The verb connect opens another one."
	case client.AuthFailed:
		shown, event = authFailed, jute.StateAuthFailed
		hint = "A server rejected the login or an identity, and ended the session. The verb connect opens another one."
	case client.Closed:
		shown, event = closed, jute.StateClosed
	}
	s.mu.Lock()
	s.promptState = shown
	s.mu.Unlock()
	s.onEvent(jute.EventNone, event, "") // before a command can end because of the new state
	if hint != "" {
		s.onHint(hint)
	}
	s.updateState(func() {
		if s.state = shown; shown == connected {
			s.lastFailure = nil
		}
	})
}

// shownState returns the state for the prompt.
func (s *session) shownState() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.promptState
}

func (s *session) currentState() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// isAlive reports whether requests can be sent now or later.
func (s *session) isAlive() bool {
	state := s.currentState()
	return state == connected || state == connecting
}

// awaitConnection waits for a connection, at most connectWait. changed is closed when the state changes again.
func (s *session) awaitConnection(ctx context.Context) (c *client.Client, changed <-chan struct{}, err error) {
	s.mu.Lock()
	limit := s.failedDials + len(s.servers)
	s.mu.Unlock()
	late := time.NewTimer(connectWait)
	defer late.Stop()
	for {
		s.mu.Lock()
		c, state, fails, reason, changed := s.client, s.state, s.failedDials, s.lastFailure, s.changed
		s.mu.Unlock()
		switch {
		case c != nil && state == connected:
			return c, changed, nil
		case state == authFailed:
			return nil, nil, client.ErrAuthFailed
		case state == closed:
			return nil, nil, client.ErrExpired
		case fails >= limit:
			return nil, nil, &unreachableError{reason: reason}
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, nil, &unreachableError{timedOut: true, reason: reason}
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// unreachableError is the error of a command that finds no server.
type unreachableError struct {
	timedOut bool  // a server could be reached, but none served the session within connectWait
	reason   error // the last failure, or nil
}

func (u *unreachableError) Error() string {
	text := "no server can be reached"
	if u.timedOut {
		text = fmt.Sprintf("no server serves this session within %v", connectWait)
	}
	if u.reason == nil {
		return text
	}
	return fmt.Sprintf("%s: %v", text, u.reason)
}

// Unwrap returns the code that zkCli.sh prints for this error.
func (u *unreachableError) Unwrap() error { return jute.ConnectionLoss }

// sendWhenConnected runs request, within the time of one, with the nodes of the session once it has a connection. The error is one of
// failures.go.
func (s *session) sendWhenConnected(ctx context.Context, path string, request func(context.Context, nodes.Space) error) error {
	for {
		c, changed, err := s.awaitConnection(ctx)
		if err == nil {
			space := nodes.New(c, s.space.Root).WithoutRetry() // the next command waits for a connection, for connectWait
			err = space.SendOnce(ctx, func(ctx context.Context) error { return request(ctx, space) })
		}
		if changed == nil || !errors.Is(err, client.ErrSuspended) {
			return toRequestError(err, path)
		}
		select { // the connection broke before the request was sent, and the state follows
		case <-changed:
		case <-ctx.Done():
			return toRequestError(ctx.Err(), path)
		}
	}
}

// addAuth adds an identity to the session.
func (s *session) addAuth(ctx context.Context, a client.Auth) error {
	c, _, err := s.awaitConnection(ctx)
	if err == nil {
		err = c.AddAuth(ctx, a)
	}
	if errors.Is(err, client.ErrAuthFailed) {
		s.awaitEnd(ctx)
	}
	return toRequestError(err, "")
}

// awaitEnd waits for the end of the session.
func (s *session) awaitEnd(ctx context.Context) {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if !s.isAlive() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// close ends the session. It waits for the server's reply, at most closeWait.
func (s *session) close() {
	s.stopOpening()
	<-s.openingDone
	s.mu.Lock()
	c := s.client
	s.mu.Unlock()
	if c == nil {
		s.updateState(func() { s.state = closed }) // handleState hears of it later
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if c.State().State.IsConnected() {
		_ = c.Close(ctx) // if it fails, the session expires
	} else {
		c.Abandon() // without a connection, no close can be sent
	}
	s.awaitEnd(ctx) // of which handleState hears later than the client
}
