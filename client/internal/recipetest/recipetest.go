// Package recipetest runs tests of recipes with a server and several clients in virtual time.
package recipetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/fakezk"
	"rollcall/zk/jute"
)

// patience is the virtual time after which a test that hangs fails. It is longer than anything that a recipe waits for.
const patience = time.Hour

// Bed is a server with its clients, for one test.
type Bed struct {
	*testing.T
	*fakezk.Server
	Clients []*client.Client
	Ctx     context.Context // ends when the test hangs
}

// Run runs a test in virtual time with a new server and some clients of it. At the end, all goroutines of the clients
// must have ended.
func Run(t *testing.T, clients int, test func(b *Bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		b := &Bed{T: t, Server: fakezk.New(t), Ctx: ctx}
		defer func() {
			cancel()
			for _, c := range b.Clients {
				c.Abandon()
			}
			b.AwaitConnectionsEnd()
		}()
		for range clients {
			b.Dial(client.Config{})
		}
		test(b)
	})
}

// Dial opens one more client.
func (b *Bed) Dial(cfg client.Config) *client.Client {
	b.Helper()
	cfg.DialConn = b.DialConn
	c, err := client.Dial(b.Ctx, "fake:1", cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Clients = append(b.Clients, c)
	return c
}

// Reconnect breaks all connections, and waits until the clients have others.
func (b *Bed) Reconnect() {
	b.Helper()
	b.Disconnect(false)
	synctest.Wait()
	for _, c := range b.Clients {
		if !c.State().State.IsFinal() {
			b.Must(c.AwaitConnected(b.Ctx))
		}
	}
}

// Must fails the test if err is not nil.
func (b *Bed) Must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Expire ends a client's session, and waits until the client knows.
func (b *Bed) Expire(c *client.Client) {
	b.Helper()
	b.Server.Expire(ID(c))
	for change := range c.States(b.Ctx) {
		if change.State.IsFinal() {
			return
		}
	}
	b.Fatal("the client does not know that its session has ended")
}

// Report fails the test if err is not nil, unless the test is over. A goroutine may call it after the end of the test.
func (b *Bed) Report(err error) {
	if err != nil && b.Ctx.Err() == nil {
		b.Error(err)
	}
}

// ID returns the id of a client's session.
func ID(c *client.Client) jute.SessionID {
	id, _ := c.Session()
	return jute.SessionID(id)
}

// Before arranges that do is called once: before the server carries out the count-th request of an operation of c from
// now on. It replaces an earlier arrangement.
func (b *Bed) Before(c *client.Client, op jute.Op, count int, do func(path string)) {
	seen, id := 0, ID(c)
	b.SetBeforeRequest(func(r fakezk.Request) {
		if r.Session != id || r.Op != op {
			return
		}
		if seen++; seen == count {
			do(r.Path)
		}
	})
}

// LoseReply arranges that the reply to the next request of an operation is lost with its connection.
func (b *Bed) LoseReply(op jute.Op) {
	lost := false
	b.SetOnRequest(func(o jute.Op, _ string, _ int) bool {
		if lost || o != op {
			return false
		}
		lost = true
		return true
	})
}
