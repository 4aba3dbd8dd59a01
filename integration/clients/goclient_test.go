package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/wire"
	"rollcall/lab/process"
)

// goClient is a client of go-zookeeper that records everything that happens to its session.
type goClient struct {
	*zk.Conn
	at  seat
	sid int64 // of the first session

	mu     sync.Mutex
	closed bool
	states []zk.State    // every change before Close, in order
	more   chan struct{} // closed and replaced when there is another state
}

// dialGo opens a session at a seat.
func dialGo(ctx context.Context, at seat, timeout time.Duration) (*goClient, error) {
	return dialGoThrough(ctx, at, timeout, net.DialTimeout)
}

// dialGoThrough does the same over connections that dial makes.
func dialGoThrough(ctx context.Context, at seat, timeout time.Duration, dial zk.Dialer) (*goClient, error) {
	c := &goClient{at: at, more: make(chan struct{})}
	// The event channel drops events that are not read in time; the callback gets all of them.
	conn, _, err := zk.Connect(at.hosts, timeout, zk.WithEventCallback(c.note), zk.WithDialer(dial),
		zk.WithHostProvider(wire.NewInOrder(at.hosts)), zk.WithLogger(wire.Silence{}))
	if err != nil {
		return nil, fmt.Errorf("connect to %v: %w", at.hosts, err)
	}
	c.Conn = conn
	if err := c.hasSession(ctx, 0); err != nil {
		conn.Close()
		return nil, err
	}
	c.sid = conn.SessionID()
	return c, nil
}

// note is the client's event callback.
func (c *goClient) note(e zk.Event) {
	if e.Type != zk.EventSession {
		return // the event of a watch, which has a channel of its own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.states = append(c.states, e.State)
	close(c.more)
	c.more = make(chan struct{})
}

// Close closes the session. The end of its connection is not recorded.
func (c *goClient) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.Conn.Close()
}

// seen returns all states so far, and a channel that is closed when there is another one.
func (c *goClient) seen() ([]zk.State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.states), c.more
}

// hasSession waits for a StateHasSession after the first n states.
func (c *goClient) hasSession(ctx context.Context, n int) error {
	return c.reaches(ctx, zk.StateHasSession, n)
}

// reaches waits for a state after the first n.
func (c *goClient) reaches(ctx context.Context, state zk.State, n int) error {
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		states, more := c.seen()
		if slices.Contains(states[n:], state) {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("no %v, only %v: %w", state, states, ctx.Err())
		}
	}
}

// disturb waits for the others and the fault. It returns once this client can continue: at once, unless its own member
// was the victim.
func (c *goClient) disturb(ctx context.Context, s *stage) error {
	if c.at.moves && c.Server() != c.at.hosts[0] {
		return fmt.Errorf("on %s before the fault, want %s", c.Server(), c.at.hosts[0])
	}
	states, _ := c.seen()
	if err := s.disturb(ctx); err != nil || !c.at.moves {
		return err
	}
	if err := c.hasSession(ctx, len(states)); err != nil {
		return err
	}
	return c.undisturbed()
}

// connected is the list of states of a client that connects once and stays connected.
var connected = []zk.State{zk.StateConnecting, zk.StateConnected, zk.StateHasSession}

// undisturbed checks that nothing unexpected has happened to the session. On a member that lives,
// nothing may have happened. If the member was killed, there may be a new connection.
func (c *goClient) undisturbed() error {
	states, _ := c.seen()
	switch {
	case c.SessionID() != c.sid:
		return fmt.Errorf("session %#x, was %#x: %v", c.SessionID(), c.sid, states)
	case c.at.moves && slices.Contains(states, zk.StateExpired):
		return fmt.Errorf("session expired: %v", states)
	case !c.at.moves && !slices.Equal(states, connected):
		return fmt.Errorf("a client of a surviving member saw %v, want %v", states, connected)
	}
	return nil
}

// holdsEphemeral checks that the node exists and is this session's.
func (c *goClient) holdsEphemeral(path string) error {
	exists, stat, err := c.Exists(path)
	if err != nil || !exists || stat.EphemeralOwner != c.sid {
		return errors.Join(err, fmt.Errorf("ephemeral %s: exists %t, %+v; want it owned by %#x", path, exists, stat, c.sid))
	}
	return nil
}

// waitGone waits until a node does not exist, as this client's member sees it.
func (c *goClient) waitGone(ctx context.Context, path string) error {
	var failed error
	err := process.Until(ctx, "node "+path+" goes", func() bool {
		exists, _, err := c.Exists(path)
		failed = err
		return err != nil || !exists
	})
	return errors.Join(failed, err)
}

// event waits for the event of a watch and checks it.
func event(ctx context.Context, watch <-chan zk.Event, want zk.EventType, path string) error {
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	select {
	case e := <-watch:
		if e.Type != want || e.Path != path || e.Err != nil {
			return errors.Join(e.Err, fmt.Errorf("event %v(%s), want %v(%s)", e.Type, e.Path, want, path))
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no event %v(%s): %w", want, path, ctx.Err())
	}
}
