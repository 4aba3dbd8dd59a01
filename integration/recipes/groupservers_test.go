package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/recipe"
	"rollcall/rollcalltest"
)

// groupTimeout is the timeout of the sessions of these tests.
const groupTimeout = 10 * time.Second

// groupPatience limits each test in virtual time: longer than every wait of a recipe that works.
const groupPatience = 10 * time.Minute

// groupServers are servers in a bubble, and the clients of one test.
type groupServers struct {
	*testing.T
	*rollcalltest.Ensemble
	ctx   context.Context
	start time.Time
}

// withServers runs f in a bubble with servers.
func withServers(t *testing.T, servers int, f func(g *groupServers)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		e := rollcalltest.StartEnsembleWith(t, servers, rollcalltest.Config{Pipes: true})
		ctx, cancel := context.WithTimeout(t.Context(), groupPatience)
		defer cancel()
		f(&groupServers{T: t, Ensemble: e, ctx: ctx, start: start})
	})
}

// config returns the Config of a client in the bubble.
func (g *groupServers) config() client.Config {
	return client.Config{
		Timeout:  groupTimeout,
		Clock:    func() time.Duration { return time.Since(g.start) + 1 },
		DialConn: g.Dial,
	}
}

// client returns a Client, which ends with the test.
func (g *groupServers) client() *client.Client {
	g.Helper()
	return g.clientWith(g.config())
}

func (g *groupServers) clientWith(cfg client.Config) *client.Client {
	g.Helper()
	c, err := client.Dial(g.ctx, g.ConnectString(), cfg)
	g.must(err)
	g.Cleanup(c.Abandon)
	return c
}

func (g *groupServers) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func (g *groupServers) wantError(err, want error) {
	g.Helper()
	if !errors.Is(err, want) {
		g.Fatalf("the error is %v, and must be %v", err, want)
	}
}

// expire ends the session of a client.
func (g *groupServers) expire(c *client.Client) {
	g.Helper()
	id, _ := c.Session()
	g.must(g.ExpireSession(int64(id)))
}

// await waits until condition holds. It checks it each time that all goroutines wait and time has passed.
func (g *groupServers) await(what string, condition func() bool) {
	g.Helper()
	for !condition() {
		if g.ctx.Err() != nil {
			g.Fatalf("waited in vain: %s", what)
		}
		time.Sleep(10 * time.Millisecond) // virtual
		synctest.Wait()
	}
}

// right makes an ephemeral node and the right that it stands for.
func (g *groupServers) right(c *client.Client, path string) *client.Right {
	g.Helper()
	path, stat, err := c.Create(g.ctx, path, nil, client.EphemeralSequential)
	g.must(err)
	return recipe.NewRight(c, path, stat)
}
