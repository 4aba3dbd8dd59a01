package server

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/server/tenant"
	"rollcall/zk/jute"
)

// limitedTo returns a change of a Config: it has these limits of tenants.
func limitedTo(tb testing.TB, rules ...string) func(*Config) {
	return func(c *Config) {
		c.Limits.MaxClientConns = -1
		c.Limits.Tenants = new(tenant.Limiter)
		replaceLimits(tb, c.Limits.Tenants, rules...)
	}
}

func replaceLimits(tb testing.TB, l *tenant.Limiter, texts ...string) {
	tb.Helper()
	var rules []tenant.Rule
	for i, text := range texts {
		r, err := tenant.ParseRule(fmt.Sprint("rule", i), text)
		if err != nil {
			tb.Fatal(err)
		}
		rules = append(rules, r)
	}
	if err := l.Replace(rules); err != nil {
		tb.Fatal(err)
	}
}

// sendAll writes several frames at once.
func (c *client) sendAll(frames ...[]byte) { c.write(slices.Concat(frames...)) }

func (c *client) frame(op jute.Op, records ...record) []byte {
	if op == jute.OpPing {
		return frameOf(jute.RequestHeader{Xid: jute.XidPing, Op: op})
	}
	c.xid++
	return frameOf(append([]record{jute.RequestHeader{Xid: c.xid, Op: op}}, records...)...)
}

// Requests beyond a rate wait, in their order, while pings are served, the session lives, and other tenants notice nothing.
func TestTenantIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "subtree /slow requests=2"))
		slow, other := w.connect(), w.connect()
		other.must(jute.OpCreate, create("/slow", "", 0))
		other.must(jute.OpCreate, create("/fast", "", 0))
		time.Sleep(3 * time.Second)
		begun := time.Now()
		var frames [][]byte
		for range 100 {
			frames = append(frames, slow.frame(jute.OpExists, exists("/slow", false)))
		}
		go slow.sendAll(append(frames, slow.frame(jute.OpPing))...)
		pingedAt, served := time.Duration(-1), 0
		for served < 100 {
			_ = slow.SetDeadline(time.Now().Add(patience))
			h, _ := slow.reply()
			at := time.Since(begun)
			if h.Xid == jute.XidPing {
				if pingedAt < 0 {
					pingedAt = at
				}
				continue
			}
			served++
			if h.Xid != int32(served) || h.Err != jute.OK {
				t.Fatalf("reply %d has xid %d: %v", served, h.Xid, h.Err)
			}
			if want := time.Duration(max(0, served-2)) * time.Second / 2; at != want {
				t.Errorf("reply %d came after %v, want %v", served, at, want)
			}
			if other.must(jute.OpExists, exists("/fast", false)); time.Since(begun) != at {
				t.Errorf("another tenant waited %v", time.Since(begun)-at)
			}
			ping := slow.frame(jute.OpPing)
			go func() { _, _ = slow.Write(ping) }() // the last ones fail, after the end
		}
		if pingedAt != 0 {
			t.Errorf("the ping behind 100 requests got its reply after %v", pingedAt)
		}
		if w.touched(slow.id) < 100 {
			t.Errorf("the session was touched %d times", w.touched(slow.id))
		}
		slow.must(jute.OpExists, exists("/fast", false))
	})
}

// The connections of a tenant take turns, however much one of them sends.
func TestConnectionsOfATenantTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=10"))
		greedy, modest := w.connect(), w.connect()
		var frames [][]byte
		for range 500 {
			frames = append(frames, greedy.frame(jute.OpExists, exists("/", false)))
		}
		go greedy.sendAll(frames...)
		go func() {
			for {
				if _, err := greedy.read(); err != nil {
					return
				}
			}
		}()
		time.Sleep(10 * time.Second)
		for range 10 {
			begun := time.Now()
			if modest.must(jute.OpExists, exists("/", false)); time.Since(begun) > 200*time.Millisecond {
				t.Errorf("a request waited %v behind those of another connection", time.Since(begun))
			}
		}
		_ = greedy.Close()
	})
}

// The bytes of requests, replies and events count. The debt of a long reply delays the requests after it.
func TestBytesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "subtree /big bytes=100K"))
		c := w.connect()
		c.must(jute.OpCreate, create("/big", string(make([]byte, 500<<10)), 0))
		for range 10 { // pays for the create
			time.Sleep(time.Second)
			c.must(jute.OpExists, exists("/", false))
		}
		for i, want := range []time.Duration{0, 4 * time.Second, 4 * time.Second} { // the first one leaves a debt of 5 s, of which 1 s is free
			begun := time.Now()
			c.must(jute.OpGetData, getData("/big", false))
			if took := time.Since(begun).Round(time.Second); took != want && took != want+time.Second {
				t.Errorf("read %d took %v, want %v", i, took, want)
			}
		}
		begun := time.Now()
		c.must(jute.OpExists, exists("/", false))
		if took := time.Since(begun); took != 0 {
			t.Errorf("a request for another path waited %v", took)
		}
	})
}

// A client with a new identity still pays for the reply before.
func TestIdentityPaysForReplyBefore(t *testing.T) {
	for _, limit := range []string{"subtree /big bytes=100K", "each address bytes=100K"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, nil)
			c := w.connect()
			c.must(jute.OpCreate, create("/big", string(make([]byte, 500<<10)), 0))
			replaceLimits(t, w.srv.limiter, limit)
			c.must(jute.OpGetData, getData("/big", false)) // leaves a debt of 5 s, of which 1 s is free
			c.must(jute.OpAuth, auth("digest", "bob:b"))
			begun := time.Now()
			c.must(jute.OpGetData, getData("/big", false)) // waits for the debt of the subtree
			c.must(jute.OpExists, exists("/", false))      // waits for that of the address
			if took := time.Since(begun).Round(time.Second); took < 3*time.Second {
				t.Errorf("%s: the next requests took %v, want 4s", limit, took)
			}
		})
	}
}

// The session of a client that sends far more than the server reads ahead lives: it gets a request served in each quarter of its timeout.
func TestSessionOfFloodLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=1"))
		all := make([]*client, 20) // together they get one request in a second
		for i := range all {
			all[i] = w.connect()
			c := all[i]
			_ = c.SetDeadline(time.Now().Add(time.Hour))
			go func() {
				for {
					if _, err := c.Write(frameOf(jute.RequestHeader{Xid: 1, Op: jute.OpExists}, exists("/", false))); err != nil {
						return
					}
				}
			}()
		}
		longest := make(chan time.Duration, len(all))
		end := time.Now().Add(2 * time.Minute)
		for _, c := range all {
			go func() {
				most, last := time.Duration(0), time.Now()
				for time.Now().Before(end) {
					if _, err := c.read(); err != nil {
						most = time.Hour
						break
					}
					most, last = max(most, time.Since(last)), time.Now()
				}
				longest <- most
			}()
		}
		for range all {
			if d := <-longest; d > 10*time.Second/heldShareDivisor {
				t.Fatalf("a client with a session of 10 s had no reply for %v", d)
			}
		}
		for _, c := range all {
			_ = c.Close()
		}
	})
}

// The requests of a client that has gone are dropped, unless the last one is a close: that is served at once.
func TestHeldRequestsEndWithTheirClient(t *testing.T) {
	for _, closes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, false, limitedTo(t, "address requests=1"))
			c, watcher := w.connect(), w.connect()
			c.sendAll(c.frame(jute.OpCreate, create("/e", "", jute.Ephemeral)), c.frame(jute.OpExists, exists("/", false)),
				c.frame(jute.OpSetData, setData("/e", "late")))
			c.expect(1, jute.OK)
			if closes {
				c.write(c.frame(jute.OpCloseSession))
			}
			synctest.Wait()
			_ = c.Close()
			synctest.Wait()
			state := w.state
			state.RLock()
			_, lives := state.Session(c.id)
			state.RUnlock()
			if lives == closes {
				t.Errorf("with a close %v, the session lives: %v", closes, lives)
			}
			if n := w.srv.Stats().Connections; n != 1 {
				t.Errorf("%d connections are left, want 1", n)
			}
			time.Sleep(5 * time.Second)
			if h, body := watcher.call(jute.OpGetData, getData("/e", false)); !closes &&
				(h.Err != jute.OK || len(body) == 0 || string(body[4:8]) == "late") {
				t.Errorf("a request of a client that has gone was served: %v %q", h.Err, body)
			}
		})
	}
}

// A client that says nothing while its request is held ends as every silent client does.
func TestSilentClientWithHeldRequestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=1"))
		c, other := w.connect(), w.connect()
		for range 100 {
			frame := other.frame(jute.OpExists, exists("/", false))
			go func() { _, _ = other.Write(frame) }() // the last ones fail, after the end
		}
		for range 60 { // the tenant owes for a minute
			w.srv.limiter.Table().OfClient("pipe", nil, 0)[0].Charge(w.srv.sinceStart(time.Now()), 1, 0)
		}
		c.write(c.frame(jute.OpExists, exists("/", false)))
		_ = c.SetDeadline(time.Now().Add(time.Hour))
		begun := time.Now()
		if _, err := c.read(); err == nil {
			t.Fatal("the request was served")
		}
		if took, want := time.Since(begun), 10*time.Second+3*testTick; took < want-testTick || took > want+testTick {
			t.Errorf("the connection ended after %v, want about %v", took, want)
		}
		_ = other.Close()
	})
}

// A slowed client is not silent while the server reads no more of what it sends.
func TestUnreadClientIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=1"))
		c := w.connect()
		var frames [][]byte
		for range 20 {
			frames = append(frames, c.frame(jute.OpExists, exists("/", false)))
		}
		frames = append(frames, c.frame(jute.OpSetData, setData("/", string(make([]byte, 100<<10)))), c.frame(jute.OpPing))
		go c.sendAll(frames...)
		_ = c.SetDeadline(time.Now().Add(time.Hour))
		for range len(frames) {
			if _, err := c.read(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Rejected watches are slowed like other requests.
func TestRefusedWatchesAreSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address watches=1 requests=1"))
		c := w.connect()
		begun := time.Now()
		for i := range 4 {
			c.call(jute.OpExists, exists(fmt.Sprint("/", i), true))
		}
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("four requests took %v, want 3s", took)
		}
	})
}

// New limits hold for the present connections at once. Requests that wait for the old ones are served.
func TestLimitsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=1"))
		c := w.connect()
		begun := time.Now()
		c.sendAll(c.frame(jute.OpExists, exists("/", true)), c.frame(jute.OpExists, exists("/", false)), c.frame(jute.OpExists, exists("/", false)))
		c.expect(1, jute.OK)
		synctest.Wait()
		if n := w.srv.held.count(); n != 1 {
			t.Fatalf("%d requests wait, want 1", n)
		}
		replaceLimits(t, w.srv.limiter, "address sessions=1 watches=1")
		c.expect(2, jute.OK)
		c.expect(3, jute.OK)
		if took := time.Since(begun); took != 0 {
			t.Errorf("requests waited %v for limits that were replaced", took)
		}
		if h, _ := c.call(jute.OpExists, exists("/other", true)); h.Err != jute.QuotaExceeded {
			t.Errorf("a second watch: %v", h.Err)
		}
		two := w.open()
		two.send(jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16)})
		two.expectSilence(time.Second)
		replaceLimits(t, w.srv.limiter)
		if two.welcome(); two.id == 0 {
			t.Error("a client waits for limits that were removed")
		}
		if h, _ := c.call(jute.OpExists, exists("/other", true)); h.Err != jute.NoNode {
			t.Errorf("a watch without limits: %v", h.Err)
		}
		replaceLimits(t, w.srv.limiter, "address watches=2")
		if h, _ := c.call(jute.OpExists, exists("/third", true)); h.Err != jute.QuotaExceeded {
			t.Errorf("a third watch: %v", h.Err)
		}
	})
}

// The super user is not limited.
func TestSuperUserIsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address requests=1 watches=1", "each identity requests=1", "subtree / requests=1"))
		c := w.connect()
		c.must(jute.OpAuth, auth("digest", "super:secret"))
		begun := time.Now()
		for i := range 10 {
			if h, _ := c.call(jute.OpExists, exists(fmt.Sprint("/", i), true)); h.Err != jute.NoNode {
				t.Errorf("watch %d: %v", i, h.Err)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("ten requests of the super user took %v", took)
		}
	})
}

// An identity counts from the login on, over all connections.
func TestIdentityIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "each identity digest requests=1"))
		one, two, other := w.connect(), w.connect(), w.connect()
		for _, c := range []*client{one, two} {
			c.must(jute.OpAuth, auth("digest", "bob:b"))
		}
		other.must(jute.OpAuth, auth("digest", "eve:e"))
		begun := time.Now()
		one.must(jute.OpExists, exists("/", false))
		other.must(jute.OpExists, exists("/", false))
		if took := time.Since(begun); took != 0 {
			t.Errorf("first requests waited %v", took)
		}
		if two.must(jute.OpExists, exists("/", false)); time.Since(begun) != time.Second {
			t.Errorf("the second request of bob waited %v, want 1s", time.Since(begun))
		}
	})
}

// A request for a watch beyond the number gets an error, and reads nothing. A path that is watched already costs nothing, watches that a
// client brings along are taken, and a watch that is gone makes room.
func TestWatchesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address watches=2"))
		c, other := w.connect(), w.connect()
		c.must(jute.OpCreate, create("/a", "", 0))
		refused := func(c *client, op jute.Op, r record) {
			t.Helper()
			if h, body := c.call(op, r); h.Err != jute.QuotaExceeded || len(body) != 0 {
				t.Errorf("%v beyond the number: %v % x", op, h.Err, body)
			}
		}
		c.must(jute.OpGetData, getData("/a", true))
		other.must(jute.OpGetData, getData("/a", true))
		refused(c, jute.OpExists, exists("/b", true))
		refused(other, jute.OpGetChildren, getData("/", true))
		refused(other, jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/")})
		c.must(jute.OpGetData, getData("/a", true))
		c.must(jute.OpGetData, getData("/a", false))
		other.must(jute.OpSetWatches, jute.SetWatches{Exist: [][]byte{[]byte("/c")}, Data: [][]byte{}, Child: [][]byte{}}) // 3 watches now
		c.request(jute.OpSetData, setData("/a", "x"))
		c.expectEvent(jute.EventNodeDataChanged, "/a")
		c.expect(c.xid, jute.OK)
		other.expectEvent(jute.EventNodeDataChanged, "/a")
		c.must(jute.OpExists, exists("/a", true))
		refused(c, jute.OpExists, raw(append(exists("/b", true).Append(nil), 0))) // the byte after it changes nothing
		_ = other.Close()
		synctest.Wait()
		if h, _ := c.call(jute.OpExists, exists("/b", true)); h.Err != jute.NoNode {
			t.Errorf("a watch after another connection's end: %v", h.Err)
		}
		if n := w.srv.limiter.Table().OfClient("pipe", nil, 0)[0]; n.HasRoomForWatch() {
			t.Error("two watches are not counted")
		}
	})
}

// A new session beyond the number waits until another one ends, and for its handshake's time at most. A session that is
// resumed does not wait.
func TestSessionsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, limitedTo(t, "address sessions=2"))
		one, two := w.connect(), w.connect()
		two = w.resume(two)
		synctest.Wait()
		late := w.open()
		begun := time.Now()
		late.send(jute.ConnectRequest{TimeOut: 9000, Passwd: make([]byte, 16)})
		late.expectClosed()
		if took := time.Since(begun); took != 3*time.Second {
			t.Errorf("a handshake without a place ended after %v, want a third of the session's timeout", took)
		}
		next := w.open()
		next.send(jute.ConnectRequest{TimeOut: 9000, Passwd: make([]byte, 16)})
		next.expectSilence(time.Second)
		one.must(jute.OpCloseSession)
		_ = one.Close()
		if next.welcome(); next.id == 0 {
			t.Error("a handshake gets no place when a session has ended")
		}
		if two.must(jute.OpExists, exists("/", false)); w.srv.stats.sessionsWaited.Load() != 2 {
			t.Errorf("%d handshakes waited, want 2", w.srv.stats.sessionsWaited.Load())
		}
	})
}

// Over TCP a connection that a loop serves leaves the loop when it has to wait, and pings overtake there, too.
func TestTenantIsSlowedOverTCP(t *testing.T) {
	w := newWorld(t, true, limitedTo(t, "address requests=20"))
	c := w.connect()
	var frames [][]byte
	for range 40 {
		frames = append(frames, c.frame(jute.OpExists, exists("/", false)))
	}
	c.sendAll(append(frames, c.frame(jute.OpPing))...)
	last, pinged := int32(0), false
	for last < 40 {
		switch h, _ := c.reply(); h.Xid {
		case jute.XidPing:
			pinged = true
		case last + 1:
			last++
		default:
			t.Fatalf("xid %d after %d", h.Xid, last)
		}
	}
	if !pinged {
		t.Error("the ping waited behind all requests")
	}
}
