package rollcalltest_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rollcall "rollcall/client"
	"rollcall/rollcalltest"
)

// pipeline sends four creates, of /0 to /3, and returns the outcomes in their order. The server replies to none before all are sent.
func (c *client) pipeline(to *rollcalltest.Server) (outcomes []error) {
	c.t.Helper()
	must(c.t, to.Pause())
	ends := make(chan error, 4)
	for i := range 4 {
		path := fmt.Sprintf("/%d", i)
		must(c.t, c.Pipeline().Create(c.t.Context(), path, nil, rollcall.Ephemeral,
			func(_ string, _ rollcall.Stat, err error) { ends <- err }))
	}
	must(c.t, to.Resume())
	for range 4 {
		outcomes = append(outcomes, <-ends)
	}
	return outcomes
}

// A request whose reply is lost is carried out; the session continues, on another connection. The replies before it
// arrive, and the requests after it are not carried out.
func TestLoseReply(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		must(t, e.LoseReply(0, 2))
		for i, err := range c.pipeline(e.Servers[0]) {
			if i < 1 && err != nil || i >= 1 && !errors.Is(err, rollcall.ErrConnectionLost) {
				t.Errorf("create %d: %v", i, err)
			}
		}
		for i := range 4 {
			if path := fmt.Sprintf("/%d", i); c.exists(path) != (i < 2) {
				t.Errorf("%s exists: %t", path, i >= 2)
			}
		}
		synctest.Wait() // states are reported beside the replies
		if n := c.connects(); n != 2 {
			t.Errorf("the session was connected %d times, want 2", n)
		}
	})
}

// pass is a hook that lets everything pass.
func pass(rollcalltest.Request) rollcalltest.Verdict { return rollcalltest.Verdict{} }

// A lost request is not carried out, and those before it get their replies.
func TestLoseRequest(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		e.OnRequest(pass)
		must(t, e.LoseRequest(0, 3))
		for i, err := range c.pipeline(e.Servers[0]) {
			if i < 2 && err != nil || i >= 2 && !errors.Is(err, rollcall.ErrConnectionLost) {
				t.Errorf("create %d: %v", i, err)
			}
		}
		for i := range 4 {
			if path := fmt.Sprintf("/%d", i); c.exists(path) != (i < 2) {
				t.Errorf("%s exists: %t", path, i >= 2)
			}
		}
	})
}

// A delayed reply comes exactly so late.
func TestDelayReply(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		e.OnRequest(pass)
		const delay = 1500 * time.Millisecond
		must(t, e.DelayReply(0, 1, delay))
		began := time.Now()
		must(t, c.create("/slow"))
		if took := time.Since(began); took < delay || took > delay+100*time.Millisecond {
			t.Errorf("the reply came after %v, want %v", took, delay)
		}
		began = time.Now()
		must(t, c.create("/fast"))
		if took := time.Since(began); took >= delay {
			t.Errorf("the next reply came after %v", took)
		}
	})
}

// A reply that is delayed and lost is held back first, and then the connection breaks.
func TestDelayAndLoseReply(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		const delay = 1500 * time.Millisecond
		must(t, e.LoseReply(0, 1))
		must(t, e.DelayReply(0, 1, delay))
		began := time.Now()
		if err := c.create("/late"); !errors.Is(err, rollcall.ErrConnectionLost) {
			t.Errorf("create: %v, want a lost connection", err)
		}
		if took := time.Since(began); took < delay || took > delay+100*time.Millisecond {
			t.Errorf("the connection broke after %v, want %v", took, delay)
		}
		if !c.exists("/late") {
			t.Error("the create was not carried out")
		}
	})
}

// A fault of one session leaves the others alone.
func TestFaultOfOneSession(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		hit, other := connect(t, e), connect(t, e)
		must(t, e.LoseRequest(hit.id(), 1))
		must(t, other.create("/other"))
		if err := hit.create("/hit"); !errors.Is(err, rollcall.ErrConnectionLost) {
			t.Errorf("the create of the session: %v, want a lost connection", err)
		}
		await(t, "the session to reconnect", func() bool { return hit.connects() == 2 })
		if n := e.DropConnections(other.id()); n != 1 {
			t.Errorf("%d connections were dropped, want 1", n)
		}
		await(t, "the other session to reconnect", func() bool { return other.connects() == 2 })
		if n := hit.connects(); n != 2 {
			t.Errorf("the session was connected %d times, want 2", n)
		}
	})
}

// A fault of one server leaves the clients of the others alone.
func TestFaultOfOneServer(t *testing.T) {
	inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		first, second := connect(t, e.Servers[0]), connect(t, e.Servers[1])
		must(t, e.Servers[1].LoseRequest(0, 1))
		must(t, first.create("/first"))
		if err := second.create("/second"); !errors.Is(err, rollcall.ErrConnectionLost) {
			t.Errorf("the create at the server: %v, want a lost connection", err)
		}
		await(t, "the session to reconnect", func() bool { return second.connects() == 2 })
		if n := e.Servers[0].DropConnections(0); n != 1 {
			t.Errorf("%d connections were dropped, want 1", n)
		}
	})
}

// A session whose connection is dropped continues, and its ephemeral nodes stay.
func TestDropConnections(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		must(t, c.create("/mine"))
		if n := e.DropConnections(0); n != 1 {
			t.Errorf("%d connections were dropped, want 1", n)
		}
		await(t, "the session to reconnect", func() bool { return c.connects() == 2 })
		if !c.exists("/mine") {
			t.Error("the ephemeral node is gone")
		}
	})
}

// The client of an expired session learns that, and its ephemeral nodes are gone.
func TestExpireSession(t *testing.T) {
	inBubble(t, 3, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		c, other := connect(t, e), connect(t, e)
		must(t, c.create("/mine"))
		if ids, err := e.Sessions(); err != nil || !slices.Contains(ids, c.id()) || len(ids) != 2 {
			t.Errorf("sessions %x, %v; want two, with %x", ids, err, c.id())
		}
		must(t, e.ExpireSession(c.id()))
		await(t, "the session to expire", func() bool { return c.count(rollcall.Expired) == 1 })
		if other.exists("/mine") {
			t.Error("the ephemeral node is still there")
		}
		if err := e.ExpireSession(c.id()); err == nil || !strings.Contains(err.Error(), "no such session") {
			t.Errorf("a second expiry: %v", err)
		}
	})
}

// A silent session expires by itself, in virtual time.
func TestSilentSessionExpires(t *testing.T) {
	cfg := rollcalltest.Config{MaxSessionTimeout: time.Hour}
	inBubble(t, 1, cfg, func(t *testing.T, e *rollcalltest.Ensemble) {
		watcher, silent := connect(t, e), connect(t, e)
		must(t, silent.create("/mine"))
		silent.Abandon()
		time.Sleep(3 * time.Second)
		if !watcher.exists("/mine") {
			t.Error("the session of 4 s has expired after 3 s")
		}
		time.Sleep(time.Second + 2*rollcalltest.DefaultTick)
		if watcher.exists("/mine") {
			t.Error("the session of 4 s has not expired two ticks later")
		}
	})
}

// Planned faults are checked and limited.
func TestPlannedFaultsAreChecked(t *testing.T) {
	inBubble(t, 1, rollcalltest.Config{}, func(t *testing.T, e *rollcalltest.Ensemble) {
		for name, err := range map[string]error{
			"n":     e.LoseReply(0, 0),
			"delay": e.DelayReply(0, 1, -time.Second),
		} {
			if err == nil {
				t.Errorf("a bad %s was accepted", name)
			}
		}
		for range 1000 {
			must(t, e.LoseRequest(1, 1))
		}
		if err := e.LoseRequest(1, 1); err == nil {
			t.Error("1,001 faults were planned")
		}
	})
}

// hooked returns the calls of a hook during a small program in which every third request of a session is lost, or its
// reply.
func hooked(t *testing.T) (seen []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := rollcalltest.StartWith(t, rollcalltest.Config{Pipes: true})
		srv.OnRequest(func(r rollcalltest.Request) rollcalltest.Verdict {
			r.Session = min(r.Session, 1) // its time is in the id, and the server may be ready a millisecond later
			seen = append(seen, fmt.Sprint(r))
			return rollcalltest.Verdict{LoseRequest: r.InSession%6 == 3, LoseReply: r.InSession%6 == 0 && r.InSession > 0}
		})
		c := connect(t, srv)
		for i := range 5 {
			c.insist(fmt.Sprintf("/%d", i))
		}
		must(t, c.AwaitConnected(t.Context()))
		if _, err := c.Multi(t.Context(), rollcall.CheckOp("/checked", rollcall.AnyVersion)); !errors.Is(err, rollcall.ErrNoNode) {
			t.Error(err)
		}
		must(t, c.Close(t.Context()))
	})
	return seen
}

// A hook sees every request with its place in the session, and the same in every run.
func TestOnRequestIsDeterministic(t *testing.T) {
	want := hooked(t)
	for range 20 {
		if got := hooked(t); !slices.Equal(got, want) {
			t.Fatalf("the hook has seen\n%s\nand then\n%s", strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
	}
	all := strings.Join(want, "\n")
	for _, part := range []string{
		" 1 0 connect }", "1 create2 /0}", "2 create2 /1}", "3 create2 /2}", "multi /checked}", "9 closeSession }",
		"10 closeSession }",
	} {
		if !strings.Contains(all, part) {
			t.Errorf("the hook has not seen %q:\n%s", part, all)
		}
	}
	if n := strings.Count(all, "connect"); n != 4 {
		t.Errorf("the session connected %d times, want 4:\n%s", n, all)
	}
}

// The reply to a connect can be lost, too: the client opens another session.
func TestLoseConnect(t *testing.T) {
	lost := false
	cfg := rollcalltest.Config{OnRequest: func(r rollcalltest.Request) rollcalltest.Verdict {
		if r.Op != rollcalltest.OpConnect || lost {
			return rollcalltest.Verdict{}
		}
		lost = true
		return rollcalltest.Verdict{LoseReply: true}
	}}
	inBubble(t, 1, cfg, func(t *testing.T, e *rollcalltest.Ensemble) {
		c := connect(t, e)
		if ids, err := e.Sessions(); err != nil || len(ids) != 2 || !slices.Contains(ids, c.id()) {
			t.Errorf("sessions %x, %v; want two, with %x", ids, err, c.id())
		}
	})
}
