package server

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/admission"
	"rollcall/zk/jute"
)

// asksReadOnly is the handshake of a client that takes a read-only server, too.
var asksReadOnly = jute.ConnectRequest{TimeOut: 10000, Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true}

// connectReadOnly opens a connection with a session of the read-only mode.
func (w *world) connectReadOnly() *client {
	w.tb.Helper()
	c := w.open()
	if res := c.hello(asksReadOnly); !res.ReadOnly || res.SessionID == 0 {
		w.tb.Fatalf("session %v, read-only %t", res.SessionID, res.ReadOnly)
	}
	return c
}

// untouched returns a function that fails the test if the member has heard of anything since.
func (w *world) untouched() func() {
	look := func() (n [5]int) {
		n[0] = int(w.countForwarded())
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, touches := range w.touches {
			n[1] += touches
		}
		n[2], n[3], n[4] = w.vouches, len(w.detached), len(w.syncs)
		return n
	}
	before := look()
	return func() {
		w.tb.Helper()
		if after := look(); after != before {
			w.tb.Errorf("transactions, touches, vouches, detaches, syncs: %v before, %v after", before, after)
		}
	}
}

// A session of the read-only mode reads and watches. Requests that need a leader are rejected, and the member does not
// know the session: no lease is requested for it, and it has no entry in the log.
func TestReadOnlySession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		writer := w.connect()
		writer.must(jute.OpCreate, create("/n", "x", jute.Persistent))
		w.srv.BeginReadOnly()
		w.silence(true, func(context.Context) error { return errors.New("there is no leader") })
		check := w.untouched()
		c := w.connectReadOnly()
		if c.timeout != 10000 || len(c.password) != 16 || c.id>>56 != 0 {
			t.Errorf("session %v, timeout %d, password of %d bytes", c.id, c.timeout, len(c.password))
		}
		if another := w.connectReadOnly(); another.id == c.id {
			t.Error("two sessions have one id")
		}
		c.must(jute.OpPing)
		c.must(jute.OpGetData, getData("/n", true))
		c.request(jute.OpExists, exists("/later", true))
		c.expect(c.xid, jute.NoNode)
		c.must(jute.OpGetEphemerals, jute.GetEphemeralsRequest{Path: []byte("/")})
		c.must(jute.OpSetWatches, jute.SetWatches{RelativeZxid: 1 << 60, Data: [][]byte{[]byte("/n")}, Exist: [][]byte{}, Child: [][]byte{}}) // of a state that is not here yet
		c.must(jute.OpAuth, auth("digest", "a:b"))
		for op := range jute.AllOps() {
			switch op.Class() {
			case jute.ClassCreate, jute.ClassWrite, jute.ClassSync:
				c.request(op) // a record that cannot be read is refused, too
				c.expect(c.xid, jute.NotReadOnly)
			}
		}
		for range 2 * DefaultMaxInFlight {
			c.request(jute.OpSetData, setData("/n", "y"))
			c.expect(c.xid, jute.NotReadOnly)
		}
		lone := w.connectReadOnly()
		lone.request(jute.OpCheck, jute.CheckVersionRequest{Path: []byte("/n"), Version: -1})
		lone.expect(lone.xid, jute.Unimplemented)
		lone.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().ReadOnlySessions; n != 2 {
			t.Errorf("%d read-only sessions counted, want 2", n)
		}
		c.must(jute.OpCloseSession)
		c.expectClosed()
		synctest.Wait()
		if n := w.srv.Stats().ReadOnlySessions; n != 1 {
			t.Errorf("%d read-only sessions counted after a close, want 1", n)
		}
		check()
	})
}

// A change that is applied before the read-only mode ends reaches the watches of its sessions, as any other's.
func TestReadOnlyWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		writer := w.connect()
		w.srv.BeginReadOnly()
		c := w.connectReadOnly()
		c.must(jute.OpGetData, getData("/", true))
		writer.must(jute.OpSetData, setData("/", "x"))
		c.expectEvent(jute.EventNodeDataChanged, "/")
	})
}

// In read-only mode only a new client that accepts a read-only server gets a reply. A client that comes back for a
// session gets none: no member can find out whether the session lives.
func TestReadOnlyRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		kept := w.connect()
		w.srv.BeginReadOnly()
		tests := []struct {
			name string
			req  jute.ConnectRequest
			why  string
		}{
			{"does not ask", jute.ConnectRequest{TimeOut: 10000, HasReadOnly: true}, "read_only"},
			{"old client", jute.ConnectRequest{TimeOut: 10000}, "read_only"},
			{"comes back", jute.ConnectRequest{TimeOut: 10000, SessionID: kept.id, Passwd: kept.password, ReadOnly: true, HasReadOnly: true}, "read_only"},
			{"comes back with another password", jute.ConnectRequest{TimeOut: 10000, SessionID: kept.id, Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true}, "read_only"},
			{"unknown session", jute.ConnectRequest{TimeOut: 10000, SessionID: 99, Passwd: make([]byte, 16), ReadOnly: true, HasReadOnly: true}, "read_only"},
			{"ahead", jute.ConnectRequest{TimeOut: 10000, LastZxidSeen: 1 << 60, ReadOnly: true, HasReadOnly: true}, "client_ahead"},
		}
		for _, tt := range tests {
			check, before := w.untouched(), w.srv.Stats().EndedByReason[tt.why]
			c := w.open()
			c.send(tt.req)
			c.expectClosed()
			synctest.Wait()
			if n := w.srv.Stats().EndedByReason[tt.why] - before; n != 1 {
				t.Errorf("%s: %d connections ended for %s", tt.name, n, tt.why)
			}
			check()
		}
		kept.must(jute.OpPing) // the mode concerns new clients
		if w.touched(kept.id) != 1 {
			t.Errorf("session %v: %d touches, want 1", kept.id, w.touched(kept.id))
		}
	})
}

// When there is a leader again, read-only clients are closed and open sessions of the ensemble. Their read-only
// sessions are unknown to the log.
func TestReadOnlyEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		kept := w.connect()
		w.srv.BeginReadOnly()
		c := w.connectReadOnly()
		w.srv.EndReadOnly()
		c.expectClosed()
		synctest.Wait()
		if st := w.srv.Stats(); st.ReadOnlySessions != 0 || st.EndedByReason["leader_back"] != 1 {
			t.Errorf("%d read-only sessions, %d closed", st.ReadOnlySessions, st.EndedByReason["leader_back"])
		}
		kept.must(jute.OpPing)
		if res := w.resume(c); res.id != 0 {
			t.Errorf("the read-only session was resumed as %v", res.id)
		}
		again := w.open()
		if res := again.hello(asksReadOnly); res.ReadOnly || res.SessionID>>56 != self {
			t.Errorf("session %v, read-only %t", res.SessionID, res.ReadOnly)
		}
		again.must(jute.OpCreate, create("/n", "", jute.Ephemeral))
	})
}

// A silent client loses its read-only session when it would lose any connection.
func TestReadOnlyTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		w.srv.BeginReadOnly()
		c, begin := w.connectReadOnly(), time.Now()
		if _, err := c.read(); err == nil {
			t.Fatal("a byte for a silent client")
		}
		if took := time.Since(begin); took != 13*time.Second {
			t.Errorf("closed after %v, want 10 s and 3 ticks", took)
		}
	})
}

// A storm of clients without a leader meets the limits that hold with one.
func TestReadOnlyLimits(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		why    string
	}{
		"throttle":    {Limits{Throttle: admission.Throttle{Tokens: 5, FillTime: time.Hour}}, "throttled"},
		"connections": {Limits{MaxConns: 5}, "max_cnxns"},
		"one address": {Limits{MaxClientConns: 5}, "max_client_cnxns"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, false, func(c *Config) { c.Limits = tt.limits })
				w.srv.BeginReadOnly()
				for range 5 {
					w.connectReadOnly()
				}
				for range 20 {
					c := w.open()
					_, _ = c.Write(frameOf(asksReadOnly)) // fails if the connection is refused
					c.expectClosed()
				}
				synctest.Wait()
				if st := w.srv.Stats(); st.ReadOnlySessions != 5 || st.EndedByReason[tt.why] != 20 {
					t.Errorf("%d read-only sessions, %d refused", st.ReadOnlySessions, st.EndedByReason[tt.why])
				}
			})
		})
	}
}

// However often the leader comes and goes while clients connect, none of them keeps a read-only session.
func TestReadOnlyFlaps(t *testing.T) {
	const clients, rounds = 4, 100
	w := newWorld(t, true, func(c *Config) { c.Limits.MaxClientConns = -1 })
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range rounds {
				c := &client{Conn: w.dial(), tb: t}
				_ = c.SetDeadline(time.Now().Add(soon))
				_, _ = c.Write(frameOf(asksReadOnly)) // it may be closed at any moment
				var answer [41]byte
				_, _ = io.ReadFull(c, answer[:])
				if answer[40] == 0 { // a session of the ensemble, or none: it need not end
					_ = c.Close()
					continue
				}
				_, err := c.Read(answer[:1]) // waits until the leader is back
				_ = c.Close()
				if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a read-only connection when the leader is back: %v", err)
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	var flips sync.WaitGroup
	flips.Go(func() {
		for {
			w.srv.BeginReadOnly()
			time.Sleep(time.Millisecond)
			w.srv.EndReadOnly()
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	all.Wait()
	close(stop)
	flips.Wait()
	waitFor(t, func() bool { return w.srv.Stats().ReadOnlySessions == 0 })
	if n := w.srv.Stats().EndedByReason["leader_back"]; n == 0 {
		t.Error("no client was closed when the leader came back: this test has shown nothing")
	}
}

// If the leader comes back while a handshake is being served, its client gets no read-only session.
func TestReadOnlyEndsBeforeTheAnswer(t *testing.T) {
	w := newWorld(t, true, func(c *Config) {
		c.Limits.Throttle = admission.Throttle{Tokens: 1000, FillTime: time.Hour, Freeze: time.Hour}
	})
	admit := make(chan struct{})
	w.srv.throttle.SetRandomForTest(func() float64 { <-admit; return 1 }) // the handshake waits for its token
	for n := range uint64(20) {
		w.srv.BeginReadOnly()
		c := w.open()
		c.send(asksReadOnly)
		waitFor(t, func() bool { return w.srv.stats.handshakes.Load() == n+1 })
		w.srv.EndReadOnly()
		admit <- struct{}{}
		if frame, err := c.read(); err == nil && frame[len(frame)-1] == 1 {
			t.Fatal("a read-only session after the mode has ended")
		}
		_ = c.Close()
	}
}
