package rollcalltest_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rollcall "rollcall/client"
	"rollcall/rollcalltest"
)

// inBubble runs a test with virtual time, on pipes.
func inBubble(t *testing.T, servers int, cfg rollcalltest.Config, test func(t *testing.T, e *rollcalltest.Ensemble)) {
	t.Helper()
	cfg.Pipes = true
	synctest.Test(t, func(t *testing.T) { test(t, rollcalltest.StartEnsembleWith(t, servers, cfg)) })
}

// states are the states that a session has had.
type states struct {
	mu   sync.Mutex
	seen []rollcall.State
}

func (s *states) add(change rollcall.StateChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, change.State)
}

// connects returns the number of connections that the session got.
func (s *states) connects() int { return s.count(rollcall.Connected) + s.count(rollcall.Reconnected) }

// count returns the number of times that a state has begun.
func (s *states) count(of rollcall.State) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, state := range s.seen {
		if state == of {
			n++
		}
	}
	return n
}

// client is a session with its states.
type client struct {
	*rollcall.Client
	states
	t *testing.T
}

// dialer is a Server or an Ensemble.
type dialer interface {
	ConnectString() string
	Dial(ctx context.Context, network, addr string) (net.Conn, error)
}

// connect opens a session with a timeout of 4 s, and closes it when the test ends.
func connect(t *testing.T, to dialer) *client {
	t.Helper()
	c := &client{t: t}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var err error
	c.Client, err = rollcall.Dial(ctx, to.ConnectString(), rollcall.Config{
		DialConn: to.Dial,
		InOrder:  true, Timeout: 4 * time.Second, OnState: c.add, GiveUpAfter: rollcall.NeverGiveUp,
		WhileSuspended: rollcall.Fail,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abandon)
	return c
}

// create creates a node, and returns the error.
func (c *client) create(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, _, err := c.Create(ctx, path, nil, rollcall.Ephemeral)
	return err
}

// must fails the test if err is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// exists reports whether a node exists. It tries again after a lost connection, until a minute is over.
func (c *client) exists(path string) bool {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		must(c.t, c.AwaitConnected(ctx))
		switch _, exists, err := c.Exists(ctx, path); {
		case err == nil:
			return exists
		case !errors.Is(err, rollcall.ErrConnectionLost) && !errors.Is(err, rollcall.ErrSuspended):
			c.t.Fatal(err)
		}
	}
}

// insist creates a node. It tries again after a lost connection, until a minute is over.
func (c *client) insist(path string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		if err := c.AwaitConnected(ctx); err != nil {
			c.t.Fatal(err)
		}
		switch err := c.create(path); {
		case err == nil, errors.Is(err, rollcall.ErrNodeExists):
			return
		case !errors.Is(err, rollcall.ErrConnectionLost) && !errors.Is(err, rollcall.ErrSuspended):
			c.t.Fatal(err)
		}
	}
}

// id returns the session's id.
func (c *client) id() int64 {
	id, _ := c.Session()
	return int64(id)
}

// await waits until ok returns true, for at most a minute.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// awaitReady waits until the servers that run serve.
func awaitReady(t *testing.T, e *rollcalltest.Ensemble) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(t, e.AwaitReady(ctx))
}
