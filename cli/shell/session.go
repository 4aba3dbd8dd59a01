package shell

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

const (
	// DefaultTimeout is the session timeout that zkCli.sh asks for.
	DefaultTimeout = 30 * time.Second
	// connectWait is how long a command waits for a connection. It is longer than an election takes.
	// If no server can be reached, a command fails as soon as all have been tried.
	connectWait = 10 * time.Second
	// closeWait is how long a shell that ends waits for the end of its session.
	closeWait = 5 * time.Second
)

// These are the states of a session as the prompt shows them.
const (
	connecting = "CONNECTING"
	connected  = "CONNECTED"
	closed     = "CLOSED"
	authFailed = "AUTH_FAILED"
)

// session is a session with an ensemble, and the watches that it has. It is safe for concurrent use.
type session struct {
	*target
	dialServer  func(ctx context.Context, addr string) (net.Conn, error)
	watches     watchTable
	onEvent     func(jute.EventType, jute.KeeperState, string) // called with each event; it must not block
	onHint      func(text string)                              // called with what a person may want to know; it must not block
	stopOpening context.CancelFunc                             // ends the attempts to open the session
	openingDone chan struct{}                                  // closed when these have ended

	mu          sync.Mutex
	client      *client.Client // nil until the session is open
	state       string
	failedDials int
	lastFailure error
	changed     chan struct{} // closed when one of these changes
}

// openSession begins to open a session. It does not wait for a connection.
func openSession(cfg *Config, t *target, event func(jute.EventType, jute.KeeperState, string), hint func(string)) *session {
	ctx, stop := context.WithCancel(context.Background())
	s := &session{
		target: t, dialServer: cfg.Dial, watches: newWatchTable(), onEvent: event, onHint: hint, stopOpening: stop, openingDone: make(chan struct{}),
		state: connecting, changed: make(chan struct{}),
	}
	go func() {
		defer close(s.openingDone)
		c, err := client.Open(ctx, client.Config{
			Servers: slices.Clone(t.servers), Timeout: cfg.Timeout, Login: cfg.Login, Auth: slices.Clone(cfg.Auth),
			Dial: s.dial, Watch: s.eventReceived, State: s.stateChanged,
		})
		s.updateState(func() {
			if s.client = c; err != nil {
				s.lastFailure = err
			}
		})
	}()
	return s
}

// updateState changes the fields that mu guards, and wakes all that wait for a change.
func (s *session) updateState(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
	close(s.changed)
	s.changed = make(chan struct{})
}

// dial connects to a server, and counts the failures.
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

// eventReceived is called with the events of nodes.
func (s *session) eventReceived(e jute.WatcherEvent, _ int64) {
	path := s.space.ShortPath(string(e.Path))
	s.watches.eventReceived(e.Type, path)
	s.onEvent(e.Type, e.State, path)
}

// stateChanged is called when the state of the session changes.
func (s *session) stateChanged(state client.State, why error) {
	now, told := connected, jute.StateSyncConnected
	switch {
	case state == client.Disconnected:
		now, told = connecting, jute.StateDisconnected
	case state == client.Expired:
		now, told = closed, jute.StateExpired
	case errors.Is(why, jute.AuthFailed):
		now, told = authFailed, jute.StateAuthFailed
	case state == client.Closed:
		now, told = closed, jute.StateClosed
	}
	s.updateState(func() {
		if s.state = now; now == connected {
			s.lastFailure = nil
		}
	})
	s.onEvent(jute.EventNone, told, "")
	switch told {
	case jute.StateDisconnected:
		s.onHint(fmt.Sprintf("The connection broke: %v. The shell tries to resume the session.", why))
	case jute.StateExpired:
		s.onHint("The servers have expired the session. Its ephemeral nodes and watches are gone. The verb connect opens another one.")
	case jute.StateAuthFailed:
		s.onHint("A server refused the login or an identity, and ended the session. The verb connect opens another one.")
	}
}

// currentState returns the state of the session.
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

// awaitConnection waits for a connection, for connectWait at most.
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
	timedOut bool  // some server could be reached, and none has served the session within connectWait
	reason   error // of the last failure; nil: none is known
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

// Unwrap returns the code by which zkCli.sh names this error.
func (u *unreachableError) Unwrap() error { return jute.ConnectionLoss }

// sendRequest sends a request about a node, waits for the reply, and decodes it into into, unless that is nil.
// It waits for a connection first. The error is one of failures.go.
func (s *session) sendRequest(ctx context.Context, op jute.Op, path string, rec client.Record, into client.Readable) error {
	return s.sendWatchRequest(ctx, 0, op, path, rec, into)
}

// sendWatchRequest is do for a request that sets a watch of a kind if it succeeds. If kind is 0, it sets none.
func (s *session) sendWatchRequest(ctx context.Context, kind watchKind, op jute.Op, path string, rec client.Record, into client.Readable) error {
	answered := make(chan requestResult, 1)
	for {
		c, err := s.awaitConnection(ctx)
		if err == nil {
			err = c.Go(ctx, op, rec, func(r client.Reply, err error) {
				if err == nil {
					s.watches.requestAnswered(path, kind, r.Err)
				}
				r.Body = slices.Clone(r.Body)
				answered <- requestResult{r, err}
			})
		}
		if errors.Is(err, client.ErrNotConnected) {
			continue // the connection broke meanwhile
		}
		if err != nil {
			return toRequestError(err, path)
		}
		select {
		case a := <-answered:
			return toRequestError(a.decodeInto(into), path)
		case <-ctx.Done():
			return toRequestError(ctx.Err(), path)
		}
	}
}

// requestResult is what came of a request.
type requestResult struct {
	client.Reply
	err error
}

// decodeInto decodes the reply into into, unless that is nil.
func (a requestResult) decodeInto(into client.Readable) error {
	if a.err != nil {
		return a.err
	}
	if err := a.Err.Err(); err != nil || into == nil {
		return err
	}
	return a.Into(into)
}

// addAuth gives the session an identity.
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

// awaitEnd waits until the end of the session is known.
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

// close ends the session. It waits until the server has ended it, or closeWait is over.
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
		c.Abandon() // there is nobody to tell
		return
	}
	_ = c.Close(ctx) // if it fails, the session expires
}
