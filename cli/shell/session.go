package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/cli/subtree"
	client "rollcall/client/before"
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
	dialServer  func(ctx context.Context, addr string) (net.Conn, error)
	watches     watchTable
	onEvent     func(jute.EventType, jute.KeeperState, string) // gets each event; must not block
	onHint      func(text string)                              // gets hints for a person; must not block
	stopOpening context.CancelFunc                             // cancels opening the session
	openingDone chan struct{}                                  // closed when that has ended

	mu          sync.Mutex
	client      *client.Client // nil until the session is open
	state       string
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
		target: t, dialServer: cfg.Dial, watches: newWatchTable(), onEvent: event, onHint: hint, stopOpening: stop,
		openingDone: make(chan struct{}),
		state:       connecting, changed: make(chan struct{}),
	}
	go func() {
		defer close(s.openingDone)
		c, err := client.Open(ctx, client.Config{
			Servers: slices.Clone(t.servers), Timeout: cfg.Timeout, Login: cfg.Login, Auth: slices.Clone(cfg.Auth),
			Dial: s.dial, OnEvent: s.handleEvent, OnState: s.handleState,
		})
		s.updateState(func() {
			if s.client = c; err != nil {
				s.lastFailure = err
			}
		})
	}()
	return s
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
func (s *session) dial(ctx context.Context, addr string) (net.Conn, error) {
	connect := s.dialServer
	if connect == nil {
		connect = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	conn, err := connect(ctx, addr)
	if err != nil {
		s.updateState(func() { s.failedDials, s.lastFailure = s.failedDials+1, err })
	}
	return conn, err
}

func (s *session) handleEvent(e jute.WatcherEvent, _ int64) {
	path := s.space.TrimRoot(string(e.Path))
	s.watches.removeFired(e.Type, path)
	s.onEvent(e.Type, e.State, path)
}

func (s *session) handleState(state client.State, why error) {
	shown, event := connected, jute.StateSyncConnected
	switch {
	case state == client.Disconnected:
		shown, event = connecting, jute.StateDisconnected
	case state == client.Expired:
		shown, event = closed, jute.StateExpired
	case errors.Is(why, jute.AuthFailed):
		shown, event = authFailed, jute.StateAuthFailed
	case state == client.Closed:
		shown, event = closed, jute.StateClosed
	}
	s.updateState(func() {
		if s.state = shown; shown == connected {
			s.lastFailure = nil
		}
	})
	s.onEvent(jute.EventNone, event, "")
	switch event {
	case jute.StateDisconnected:
		s.onHint(fmt.Sprintf("The connection broke: %v. The shell tries to resume the session.", why))
	case jute.StateExpired:
		s.onHint("The servers have expired the session. Its ephemeral nodes and watches are gone. The verb connect opens " +
			"another one.")
	case jute.StateAuthFailed:
		s.onHint("A server rejected the login or an identity, and ended the session. The verb connect opens another one.")
	}
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

// awaitConnection waits for a connection, at most connectWait.
func (s *session) awaitConnection(ctx context.Context) (*client.Client, error) {
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
			return c, nil
		case state == authFailed:
			return nil, jute.AuthFailed
		case state == closed:
			return nil, client.ErrExpired
		case fails >= limit:
			return nil, &unreachableError{reason: reason}
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, &unreachableError{timedOut: true, reason: reason}
		case <-ctx.Done():
			return nil, ctx.Err()
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

// sendWhenConnected runs request with the nodes of the session once it has a connection. The error is one of
// failures.go.
func (s *session) sendWhenConnected(ctx context.Context, path string, request func(subtree.Space) error) error {
	c, err := s.awaitConnection(ctx)
	if err == nil {
		space := s.space
		space.Client, space.NoRetry = c, true // the next command waits for a connection, for connectWait
		err = request(space)
	}
	return toRequestError(err, path)
}

// addAuth adds an identity to the session.
func (s *session) addAuth(ctx context.Context, a client.Auth) error {
	c, err := s.awaitConnection(ctx)
	if err == nil {
		err = c.AddAuth(ctx, a)
	}
	if errors.Is(err, jute.AuthFailed) {
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
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if s.currentState() != connected {
		c.Abandon() // without a connection, no close can be sent
		return
	}
	_ = c.Close(ctx) // if it fails, the session expires
}
