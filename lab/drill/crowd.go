package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/client"
)

// crowdParallel limits the sessions of a crowd that connect at the same time. More would be a storm before the drill.
const crowdParallel = 64

// crowd is many sessions that do nothing by themselves.
type crowd struct {
	clients   []*client.Client
	muted     atomic.Bool  // from now on, nothing that the sessions send arrives
	connected atomic.Int64 // how many sessions are
	expired   atomic.Int64
}

// errMuted is the error of connections that a muted crowd makes.
var errMuted = errors.New("the client is silent")

// openCrowd opens n sessions.
func openCrowd(ctx context.Context, servers string, timeout time.Duration, n int) (*crowd, error) {
	c := &crowd{clients: make([]*client.Client, n)}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(crowdParallel)
	for i := range n {
		g.Go(func() (err error) {
			if c.clients[i], err = client.Dial(ctx, servers, c.clientConfig(timeout)); err != nil {
				return fmt.Errorf("session %d of %d: %w", i+1, n, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		c.abandonAll()
		return nil, err
	}
	return c, nil
}

func (c *crowd) clientConfig(timeout time.Duration) client.Config {
	var is atomic.Bool // connected
	return client.Config{
		Timeout: timeout, GiveUpAfter: client.NeverGiveUp,
		DialConn: func(ctx context.Context, network, address string) (net.Conn, error) {
			if c.muted.Load() {
				return nil, errMuted
			}
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &mutedConn{conn, &c.muted}, err
		},
		OnState: func(change client.StateChange) {
			up := change.State.IsConnected()
			switch {
			case up && is.CompareAndSwap(false, true):
				c.connected.Add(1)
			case !up && is.CompareAndSwap(true, false):
				c.connected.Add(-1)
			}
			if change.State == client.Expired {
				c.expired.Add(1)
			}
		},
	}
}

// abandonAll leaves the sessions to expire.
func (c *crowd) abandonAll() { c.forEach((*client.Client).Abandon) }

// closeAll ends the sessions. Those that do not answer are abandoned.
func (c *crowd) closeAll(ctx context.Context) {
	c.forEach(func(one *client.Client) {
		if one.Close(ctx) != nil {
			one.Abandon()
		}
	})
}

func (c *crowd) forEach(do func(*client.Client)) {
	var all errgroup.Group
	all.SetLimit(crowdParallel)
	for _, one := range c.clients {
		if one != nil {
			all.Go(func() error {
				do(one)
				return nil
			})
		}
	}
	_ = all.Wait() // no error is returned above
}

// mutedConn is a connection that loses what is written once its crowd is muted.
type mutedConn struct {
	net.Conn
	muted *atomic.Bool
}

func (c *mutedConn) Write(b []byte) (int, error) {
	if c.muted.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// connectStranger sends what no client sends to a server, or nothing, until ctx ends or the server closes the connection.
func connectStranger(ctx context.Context, address string, rng *rand.Rand) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	var sent []byte
	switch rng.IntN(4) {
	case 0: // garbage
		sent = make([]byte, 512)
		for i := range sent {
			sent[i] = byte(rng.Uint32())
		}
	case 1: // a frame of 2 GiB that never comes
		sent = []byte{0x7f, 0xff, 0xff, 0xff, 0, 0}
	case 2: // a handshake that stops in the middle
		sent = []byte{0, 0, 0, 44, 0, 0, 0, 0}
	}
	if _, err := conn.Write(sent); err != nil {
		return
	}
	_, _ = conn.Read(make([]byte, 1)) // until it is closed
}
