package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/integration/wire"
)

// sessionTimeout is the timeout of the clients' sessions. A client that gets no answer for two
// thirds of it moves to another member; a new leader grants a full one. If the leader has stayed the same, the client has
// the last third for it.
const sessionTimeout = 24 * time.Second

// client is a client of go-zookeeper that records everything that happens to its session, and holds
// one ephemeral node.
type client struct {
	*zk.Conn
	node string
	sid  int64 // of the first session

	mu     sync.Mutex
	states []zk.State    // every change, in order
	more   chan struct{} // closed and replaced when there is another state
}

// connect opens a session on the first of hosts and creates its ephemeral node. The
// session is closed with the test.
func connect(t *testing.T, hosts []string, node string) *client {
	t.Helper()
	c := &client{node: node, more: make(chan struct{})}
	conn, _, err := zk.Connect(hosts, sessionTimeout, zk.WithEventCallback(c.note),
		zk.WithHostProvider(wire.NewInOrder(hosts)), zk.WithLogger(wire.Silence{}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c.Conn = conn
	if err := c.hasSession(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if c.Server() != hosts[0] {
		t.Fatalf("connected to %s, want %s", c.Server(), hosts[0])
	}
	c.sid = conn.SessionID()
	if _, err := c.Create(node, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatalf("create %s: %v", node, err)
	}
	return c
}

// note is the client's event callback.
func (c *client) note(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.states = append(c.states, e.State)
	close(c.more)
	c.more = make(chan struct{})
}

// seen returns all states so far, and a channel that is closed when there is another one.
func (c *client) seen() ([]zk.State, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.states), c.more
}

// hasSession waits for a session after the first n states.
func (c *client) hasSession(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		states, more := c.seen()
		if slices.Contains(states[n:], zk.StateHasSession) {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return fmt.Errorf("no session, only %v: %w", states, ctx.Err())
		}
	}
}

// goOn waits until the client goes on, after the first n states and a fault. The fault moves the
// client elsewhere or, if its member was not hit, must not affect it. The client writes once, a
// node next to its own.
func (c *client) goOn(ctx context.Context, fault string, n int, moves bool) error {
	if moves {
		if err := c.hasSession(ctx, n); err != nil {
			return err
		}
	}
	path := c.node + "-after-" + fault
	if _, err := c.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		states, _ := c.seen()
		return fmt.Errorf("create %s: %w, after %v", path, err, states[n:])
	}
	return c.same(n, moves)
}

// same checks the session that existed before the first n states. It must be the same and its node
// must exist. Only a client that moves may have seen anything since.
func (c *client) same(n int, moves bool) error {
	exists, stat, err := c.Exists(c.node)
	states, _ := c.seen()
	switch since := states[n:]; {
	case c.SessionID() != c.sid || slices.Contains(since, zk.StateExpired):
		return fmt.Errorf("%s: session %#x, was %#x: %v", c.node, c.SessionID(), c.sid, since)
	case !moves && len(since) > 0:
		return fmt.Errorf("%s: a client of an untouched member saw %v", c.node, since)
	case err != nil || !exists || stat.EphemeralOwner != c.sid:
		return errors.Join(err, fmt.Errorf("%s: exists %t, %+v; want it owned by %#x", c.node, exists, stat, c.sid))
	}
	return nil
}
