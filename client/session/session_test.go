package session

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

var ctx = context.Background()

// within runs a test in a synctest bubble, with virtual time. The bubble also finds goroutines that
// the test leaves running.
func within(t *testing.T, f func(t *testing.T, f *fake)) {
	synctest.Test(t, func(t *testing.T) { f(t, newFake(t)) })
}

// A session opens, each request returns the server's reply, and Close closes the session.
func TestSession(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var p *peer
		var h heard
		c := f.open(Config{OnState: func(s Change) { h.add("%v %v", s.State, s.Err) }}, func() {
			p = <-f.peers
			req := p.accept()
			if req.SessionID != 0 || req.TimeOut != 30000 || len(req.Passwd) != 16 || req.ReadOnly || !req.HasReadOnly || req.LastZxidSeen != 0 {
				t.Errorf("handshake: %+v", req)
			}
		})
		if id, timeout := c.Identity(); id != fakeSession || timeout != 30*time.Second || c.Server() != "a" {
			t.Errorf("session %v, timeout %v, server %s", id, timeout, c.Server())
		}
		go func() {
			r := p.want(jute.OpSetData)
			p.reply(r.Xid, 7, jute.OK, jute.SetDataResponse{Stat: jute.Stat{Version: 3}})
			r = p.want(jute.OpGetData)
			p.reply(r.Xid, 7, jute.NoNode, nil)
			r = p.want(jute.OpCloseSession)
			p.reply(r.Xid, 8, jute.OK, nil)
			p.ended()
		}()
		if stat, err := c.set(ctx, "/a"); err != nil || stat.Version != 3 {
			t.Errorf("set: %+v, %v", stat, err)
		}
		if _, err := c.get(ctx, "/a"); !errors.Is(err, jute.NoNode) {
			t.Errorf("get: %v", err)
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := c.get(ctx, "/a"); !errors.Is(err, ErrClosed) || c.Server() != "" {
			t.Errorf("after close: %v, server %q", err, c.Server())
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("closed twice: %v", err)
		}
		if got, want := h.take(), []string{"connecting <nil>", "connected <nil>", "closed <nil>"}; !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}

// A client sends a ping when it has sent nothing for a third of the timeout. It reports how long
// the reply took.
func TestPing(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		pings := make(chan time.Duration, 8)
		c := f.open(Config{OnPong: func(d time.Duration) { pings <- d }}, func() {
			p = <-f.peers
			p.accept()
		})
		start := time.Now()
		ping := func(at time.Duration) {
			t.Helper()
			if r := p.want(jute.OpPing); r.Xid != jute.XidPing || time.Since(start) != at {
				t.Errorf("ping %d after %v, want it after %v", r.Xid, time.Since(start), at)
			}
			time.Sleep(time.Second)
			p.reply(jute.XidPing, 0, jute.OK, nil)
			if d := <-pings; d != time.Second {
				t.Errorf("Pinged was called with %v, want 1s", d)
			}
		}
		ping(10 * time.Second)
		ping(20 * time.Second)
		time.Sleep(4 * time.Second) // 25 s
		if err := c.Go(ctx, jute.OpSync, jute.SyncRequest{}, func(Reply, error) {}); err != nil {
			t.Fatal(err)
		}
		p.reply(p.want(jute.OpSync).Xid, 1, jute.OK, jute.SyncResponse{})
		ping(35 * time.Second)
	})
}

// The client of a long session sends a ping every ten seconds, and leaves a silent server after thirty.
func TestPingOfLongSession(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var a *peer
		f.open(Config{Timeout: 30 * time.Minute}, func() {
			a = <-f.peers
			a.accept()
		})
		start := time.Now()
		for range 3 {
			a.want(jute.OpPing)
			a.reply(jute.XidPing, 0, jute.OK, nil)
		}
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("three pings in %v, want them in 30s", d)
		}
		a.want(jute.OpPing)
		a.want(jute.OpPing)
		a.ended()
		if d := time.Since(start); d != time.Minute {
			t.Errorf("left after %v, want 1m0s: 30s after the last reply", d)
		}
	})
}

// A client leaves a server that has been silent for two thirds of the timeout. The requests in
// flight end in order with ErrConnectionLost and are not sent again. The session resumes at the
// next server.
func TestSilence(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var h heard
		var a, b *peer
		c := f.open(Config{OnState: func(s Change) {
			h.add("%v %v", s.State, errors.Is(s.Err, errSilent))
		}}, func() {
			a = <-f.peers
			a.accept()
		})
		start := time.Now()
		for i := range 4 {
			if i == 2 { // sent some time after the last reply, from which silence is counted
				a.reply(a.want(jute.OpSync).Xid, 0x77, jute.OK, nil)
				a.reply(a.want(jute.OpSync).Xid, -1, jute.Unimplemented, nil)
				time.Sleep(7 * time.Second)
			}
			if err := c.Go(ctx, jute.OpSync, jute.SyncRequest{}, func(_ Reply, err error) {
				h.add("%d %v", i, err)
				if i == 2 && !errors.Is(c.Go(ctx, jute.OpSync, nil, nil), ErrNotConnected) {
					t.Error("a request was accepted without a connection")
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		a.want(jute.OpSync)
		a.want(jute.OpSync)
		a.want(jute.OpPing)
		a.ended()
		if d := time.Since(start); d != 20*time.Second {
			t.Errorf("left after %v", d)
		}
		b = <-f.peers
		if d := time.Since(start); d != 20*time.Second || b.addr != "b" {
			t.Errorf("connected to %s after %v", b.addr, d)
		}
		if req := b.accept(); req.SessionID != fakeSession || string(req.Passwd) != "0123456789abcdef" || req.LastZxidSeen != 0x77 {
			t.Errorf("handshake: %+v", req)
		}
		synctest.Wait()
		if c.Server() != "b" {
			t.Errorf("server %q", c.Server())
		}
		b.want(jute.OpPing) // no request was sent again before it
		want := []string{"connecting false", "connected false", "0 <nil>", "1 <nil>", "2 " + ErrConnectionLost.Error(), "3 " + ErrConnectionLost.Error(), "suspended true", "reconnected false"}
		if got := h.take(); !slices.Equal(got, want) {
			t.Errorf("heard\n%q, want\n%q", got, want)
		}
	})
}

// A Do that finds no connection waits for one. A Do whose request was sent fails when the
// connection is lost.
func TestDoAcrossLoss(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var a *peer
		c := f.open(Config{}, func() {
			a = <-f.peers
			a.accept()
		})
		time.Sleep(time.Second)
		lost := make(chan error, 1)
		go func() {
			err := c.sync(ctx)
			lost <- err
		}()
		a.want(jute.OpSync)
		_ = a.Close()
		if err := <-lost; !errors.Is(err, ErrConnectionLost) || !errors.Is(err, jute.ConnectionLoss) {
			t.Errorf("lost: %v", err)
		}
		b := <-f.peers
		go func() {
			lost <- c.sync(ctx)
		}()
		synctest.Wait()
		b.accept()
		b.reply(b.want(jute.OpSync).Xid, 1, jute.OK, jute.SyncResponse{})
		if err := <-lost; err != nil {
			t.Errorf("waited: %v", err)
		}
	})
}

// If the servers no longer know the session, the client ends for good.
func TestExpired(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var h heard
		var a *peer
		c := f.open(Config{OnState: func(s Change) {
			h.add("%v %v", s.State, errors.Is(s.Err, ErrExpired))
		}}, func() {
			a = <-f.peers
			a.accept()
		})
		_ = a.Close()
		(<-f.peers).rejectHandshake()
		for _, err := range []error{c.sync(ctx), c.AwaitReady(ctx), c.Go(ctx, jute.OpSync, nil, nil)} {
			if !errors.Is(err, ErrExpired) || !errors.Is(err, jute.SessionExpired) {
				t.Errorf("after the expiry: %v", err)
			}
		}
		if err := c.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if got, want := h.take(), []string{"connecting false", "connected false", "suspended false", "expired true"}; !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
		// Open fails if the session to resume is gone.
		go func() { (<-f.peers).rejectHandshake() }()
		if _, err := Open(ctx, Config{Servers: []string{"a"}, Dial: f.dial, Resume: &ResumeToken{ID: 5}}); !errors.Is(err, ErrExpired) {
			t.Errorf("resume: %v", err)
		}
	})
}

// A server may reject a session by its timeout alone or by its id alone.
func TestRejectedByOneField(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply jute.ConnectResponse
		want  error
	}{
		{"no timeout", jute.ConnectResponse{SessionID: 5}, ErrExpired},
		{"a timeout below 0", jute.ConnectResponse{TimeOut: -1, SessionID: 5}, ErrExpired},
		{"no session", jute.ConnectResponse{TimeOut: 1000}, ErrExpired},
	} {
		within(t, func(t *testing.T, f *fake) {
			go func() {
				p := <-f.peers
				p.connectRequest()
				tt.reply.Passwd, tt.reply.HasReadOnly = make([]byte, 16), true
				p.write(tt.reply)
				_ = p.Close()
			}()
			limited, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := Open(limited, Config{Servers: []string{"a"}, Dial: f.dial, Resume: &ResumeToken{ID: 5}})
			if !errors.Is(err, tt.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
			}
		})
	}
}

// A frame of the greatest length is taken, and a longer one is not.
func TestLongestFrame(t *testing.T) {
	const limit = 64
	for n, right := range map[int]bool{0: true, limit - 1: true, limit: true, limit + 1: false, -1: false} {
		b := append(binary.BigEndian.AppendUint32(nil, uint32(int32(n))), make([]byte, limit+1)...)
		l := &link{c: &Session{}, buf: b, w: len(b)}
		frame, need, err := l.takeFrame(limit)
		if (err == nil) != right || right && (need != 0 || len(frame) != n) || !right && !errors.Is(err, ErrProtocol) {
			t.Errorf("length %d: %d bytes, need %d: %v", n, len(frame), need, err)
		}
	}
}

// On every connection a client sends its identities first and then its watches. Requests wait for
// the replies to both.
func TestAuthBeforeWatchesBeforeRequests(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		auth := func() {
			t.Helper()
			for _, want := range []string{"digest u:p", "ip x"} {
				r := p.want(jute.OpAuth)
				var a jute.AuthPacket
				d := jute.NewDecoder(r.body)
				a.Decode(&d)
				if got := string(a.Scheme) + " " + string(a.Auth); r.Xid != jute.XidAuth || got != want {
					t.Errorf("auth %d %q, want %q", r.Xid, got, want)
				}
			}
		}
		ok := func(xid int32) { p.reply(xid, 0, jute.OK, nil) }
		c := f.open(Config{Auth: []Auth{{"digest", []byte("u:p")}, {"ip", []byte("x")}}}, func() {
			p = <-f.peers
			p.accept()
			auth()
			ok(jute.XidAuth)
			ok(jute.XidAuth)
		})
		if err := c.Go(ctx, jute.OpExists, jute.ExistsRequest{Path: []byte("/w"), Watch: true}, func(Reply, error) {}); err != nil {
			t.Fatal(err)
		}
		p.reply(p.want(jute.OpExists).Xid, 5, jute.OK, jute.ExistsResponse{})
		synctest.Wait()
		_ = p.Close()
		p = <-f.peers
		p.accept()
		auth()
		if r := p.want(jute.OpSetWatches); r.Xid != jute.XidSetWatches {
			t.Errorf("setWatches: xid %d", r.Xid)
		}
		done := make(chan error, 1)
		go func() { done <- c.sync(ctx) }()
		ok(jute.XidAuth)
		ok(jute.XidSetWatches)
		synctest.Wait()
		if c.Server() != "" {
			t.Error("connected before every reply has arrived")
		}
		ok(jute.XidAuth)
		p.reply(p.want(jute.OpSync).Xid, 5, jute.OK, jute.SyncResponse{})
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAuthRefused(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var h heard
		go func() {
			p := <-f.peers
			p.accept()
			p.want(jute.OpAuth)
			p.reply(jute.XidAuth, 0, jute.AuthFailed, nil)
			_ = p.Close()
		}()
		_, err := Open(ctx, Config{
			Servers: []string{"a"}, Dial: f.dial, Auth: []Auth{{Scheme: "none"}},
			OnState: func(s Change) { h.add("%v %v", s.State, errors.Is(s.Err, jute.AuthFailed)) },
		})
		if !errors.Is(err, jute.AuthFailed) || len(f.dials) != 1 {
			t.Errorf("open: %v, after dialling %q", err, f.dials)
		}
		if got, want := h.take(), []string{"connecting false", "auth failed true"}; !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}

// If there is no connection, Close waits for one as long as its context allows.
func TestCloseWithoutConnection(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		for _, comes := range []bool{true, false} {
			var p *peer
			c := f.open(Config{}, func() {
				p = <-f.peers
				p.accept()
			})
			time.Sleep(time.Second)
			_ = p.Close()
			p = <-f.peers
			closed := make(chan error, 1)
			limited, cancel := context.WithTimeout(ctx, time.Second)
			go func() { closed <- c.Close(limited) }()
			if !comes {
				if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("close without a server: %v", err)
				}
				cancel()
				continue
			}
			synctest.Wait()
			if err := c.Go(ctx, jute.OpSync, nil, nil); !errors.Is(err, ErrClosed) {
				t.Errorf("request after a close: %v", err)
			}
			p.accept()
			p.reply(p.want(jute.OpCloseSession).Xid, 9, jute.OK, nil)
			if err := <-closed; err != nil {
				t.Errorf("close: %v", err)
			}
			cancel()
		}
	})
}

// If the connection is lost before a closeSession is answered, the client sends it again on the
// next connection.
func TestCloseLost(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		closed := make(chan error, 1)
		go func() { closed <- c.Close(ctx) }()
		for range 2 {
			p.want(jute.OpCloseSession)
			_ = p.Close()
			p = <-f.peers
			p.accept()
		}
		p.reply(p.want(jute.OpCloseSession).Xid, 3, jute.OK, nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

// Open returns ErrProtocol if the reply to the handshake makes no sense.
func TestHandshakeNonsense(t *testing.T) {
	for name, resp := range map[string]Record{
		"short":               jute.ErrorResponse{},
		"new session refused": jute.ConnectResponse{Passwd: make([]byte, 16)},
		"no timeout":          jute.ConnectResponse{SessionID: 1, Passwd: make([]byte, 16)},
		"a timeout below 0":   jute.ConnectResponse{TimeOut: -1, SessionID: 1, Passwd: make([]byte, 16)},
		"no session":          jute.ConnectResponse{TimeOut: 1000, Passwd: make([]byte, 16)},
		"another session":     jute.ConnectResponse{TimeOut: 1000, SessionID: 99, Passwd: make([]byte, 16)},
		"a long password":     jute.ConnectResponse{TimeOut: 1000, SessionID: 1, Passwd: make([]byte, 2000)},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, f *fake) {
				go func() {
					p := <-f.peers
					p.connectRequest()
					p.write(resp)
					p.ended()
				}()
				cfg := Config{Servers: []string{"a"}, Dial: f.dial}
				if name == "another session" {
					cfg.Resume = &ResumeToken{ID: 1}
				}
				limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond) // one attempt
				defer cancel()
				if _, err := Open(limited, cfg); !errors.Is(err, ErrProtocol) {
					t.Errorf("open: %v", err)
				}
			})
		})
	}
}

// The error of Open names a server that speaks HTTP, or TLS to a client that does not.
func TestOtherProtocol(t *testing.T) {
	for reply, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\n\r\n": "the server speaks HTTP: this port is not for clients",
		"\x15\x03\x01\x00\x02\x02\x0a":     "the server speaks TLS: set Config.TLS, or use a port without TLS",
		"\x16\x03\x03\x00\x02\x02\x0a":     "the server speaks TLS",
		"\x15\x04\x01\x00":                 "a frame of 352583936 bytes",
	} {
		within(t, func(t *testing.T, f *fake) {
			go func() {
				p := <-f.peers
				p.connectRequest()
				_, _ = p.Write([]byte(reply)) // the client hangs up early
				p.ended()
			}()
			limited, cancel := context.WithTimeout(ctx, 20*time.Millisecond) // one attempt
			defer cancel()
			if _, err := Open(limited, Config{Servers: []string{"a"}, Dial: f.dial}); !errors.Is(err, ErrProtocol) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", reply, err, want)
			}
		})
	}
}

// slow is a connection on which writes block. They fail one second after it is closed. If fails is
// set, they fail at once. The handshake is written normally.
type slow struct {
	net.Conn
	fails   bool // writes fail at once
	closed  chan struct{}
	once    sync.Once
	writing atomic.Int32
}

func (s *slow) Write(b []byte) (int, error) {
	if len(b) > 40 { // the handshake
		return s.Conn.Write(b)
	}
	if s.fails {
		return 0, errors.New("no route")
	}
	s.writing.Add(1)
	defer s.writing.Add(-1)
	<-s.closed
	time.Sleep(time.Second)
	return 0, errors.New("closed")
}

func (s *slow) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Conn.Close()
}

// A write that fails ends the connection at once. Abandon waits for a write that is still blocked.
func TestWriteEnds(t *testing.T) {
	for _, fails := range []bool{true, false} {
		within(t, func(t *testing.T, f *fake) {
			var conn *slow
			var h heard
			cfg := Config{
				Servers: []string{"a"}, OnState: func(s Change) { h.add("%v", s.State) },
				Dial: func(ctx context.Context, addr string) (net.Conn, error) {
					c, err := f.dial(ctx, addr)
					conn = &slow{Conn: c, fails: fails, closed: make(chan struct{})}
					return conn, err
				},
			}
			go func() { (<-f.peers).accept() }()
			c, err := Open(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abandon()
			if err := c.Go(ctx, jute.OpSync, nil, func(Reply, error) {}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !fails {
				c.Abandon()
				if n := conn.writing.Load(); n != 0 {
					t.Errorf("%d writes still run after Abandon", n)
				}
			} else if got := h.take(); !slices.Equal(got, []string{"connecting", "connected", "suspended"}) {
				t.Errorf("states %q", got)
			}
		})
	}
}

// Abandon sends nothing to the server, ends the requests in flight, and leaves no goroutine
// running.
func TestAbandon(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		var got error
		if err := c.Go(ctx, jute.OpSync, nil, func(_ Reply, err error) { got = err }); err != nil {
			t.Fatal(err)
		}
		p.want(jute.OpSync)
		c.Abandon()
		if !errors.Is(got, ErrClosed) {
			t.Errorf("the request in flight: %v", got)
		}
		p.ended()
		c.Abandon()
	})
}

// Another Session can resume the session with the result of Resume.
func TestResume(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Resume: &ResumeToken{ID: fakeSession, Password: []byte("secret"), LastZxid: 9}}, func() {
			p = <-f.peers
			if req := p.accept(); req.SessionID != fakeSession || string(req.Passwd) != "secret" || req.LastZxidSeen != 9 {
				t.Errorf("handshake: %+v", req)
			}
		})
		if r := c.ResumeToken(); r.ID != fakeSession || string(r.Password) != "0123456789abcdef" || r.LastZxid != 9 {
			t.Errorf("resume: %+v", r)
		}
	})
}

// Open spreads its attempts over the timeout, tries all servers in turn, and gives up when its
// context ends.
func TestBackoff(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		f.down = map[string]bool{"a": true, "b": true, "c": true}
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := Open(limited, Config{Servers: []string{"a", "b", "c"}, Timeout: 30 * time.Second, Dial: f.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("open: %v", err)
		}
		if n := len(f.dials); n < 8 || n > 24 || !slices.Equal(f.dials[:4], []string{"a", "b", "c", "a"}) {
			t.Errorf("%d attempts in a timeout: %q", n, f.dials)
		}
	})
}

// After many failed attempts in a row, the pause before the next one is still a 16th to an 8th of
// the timeout. It is neither zero nor so long that the session has expired. After the first few
// failures it is shorter.
func TestBackoffOfManyFailures(t *testing.T) {
	const timeout = 30 * time.Second
	within(t, func(t *testing.T, f *fake) {
		var began []time.Time
		limited, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := Open(limited, Config{Servers: []string{"a"}, Timeout: timeout, Dial: func(context.Context, string) (net.Conn, error) {
			if began = append(began, time.Now()); len(began) == 101 {
				cancel()
			}
			return nil, errors.New("refused")
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("open: %v", err)
		}
		for i := range 100 {
			most := timeout / 128 << min(i, 4)
			if pause := began[i+1].Sub(began[i]); pause < most/2 || pause > most {
				t.Errorf("a pause of %v after failure %d, want %v to %v", pause, i+1, most/2, most)
			}
		}
	})
}

// If a server accepts connections and drops them at once, the client pauses before it connects
// again.
func TestBackoffOfServersThatDrop(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		over := make(chan struct{})
		stop := make(chan struct{})
		f.open(Config{}, func() {
			(<-f.peers).accept()
			go func() {
				defer close(over)
				for {
					select {
					case p := <-f.peers:
						p.accept()
						_ = p.Close()
					case <-stop:
						return
					}
				}
			}()
		})
		time.Sleep(30*time.Second + 20*time.Second)
		close(stop)
		<-over
		f.mu.Lock()
		defer f.mu.Unlock()
		if n := len(f.dials); n < 5 || n > 40 {
			t.Errorf("%d attempts", n)
		}
	})
}

// A client gives up on a server when that server's share of the timeout is over, if the server has
// not answered the connect request, or the identities after it.
func TestHandshakeDeadline(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		start := time.Now()
		f.open(Config{Auth: []Auth{{Scheme: "digest"}}}, func() {
			p := <-f.peers
			p.connectRequest()
			p.ended()
			if d := time.Since(start); d != 15*time.Second {
				t.Errorf("left after %v", d)
			}
			p = <-f.peers
			start = time.Now()
			p.accept()
			p.want(jute.OpAuth)
			p.ended()
			if d := time.Since(start); d != 15*time.Second {
				t.Errorf("left after %v", d)
			}
			p = <-f.peers
			p.accept()
			p.want(jute.OpAuth)
			p.reply(jute.XidAuth, 0, jute.OK, nil)
		})
	})
}

// If the server does not reply, Open returns when its context ends and leaves no goroutine
// running.
func TestOpenEnds(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := Open(limited, Config{Servers: []string{"a"}, Dial: f.dial}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open: %v", err)
		}
	})
}

func TestConfigRefused(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{Servers: []string{"a"}, Timeout: -1},
		{Servers: []string{"a"}, Timeout: 1 << 60},
		{Servers: []string{"a"}, MaxInFlight: -1},
		{Servers: []string{"a"}, MaxRequest: -1},
		{Servers: []string{"a"}, MaxRequest: MaxRequest + 1},
		{Servers: []string{"a"}, Margin: -1},
		{Servers: []string{"a"}, Timeout: time.Second, Margin: time.Second},
	} {
		opening, cancel := context.WithTimeout(ctx, 10*time.Second) // without a server it would not dial
		cfg.Dial = func(context.Context, string) (net.Conn, error) {
			cancel()
			return nil, opening.Err()
		}
		if _, err := Open(opening, cfg); err == nil || opening.Err() != nil {
			t.Errorf("%+v was accepted", cfg)
		}
		cancel()
	}
}

// If the server ends the connection after its reply to a closeSession, the client is closed, not
// disconnected.
func TestEndBehindClose(t *testing.T) {
	both(t, func(t *testing.T, f *fake) {
		var h heard
		var p *peer
		c := f.open(Config{OnState: func(s Change) { h.add("%v %v", s.State, s.Err) }}, func() {
			p = <-f.peers
			p.accept()
		})
		if err := c.Go(ctx, jute.OpCloseSession, nil, func(Reply, error) {}); err != nil {
			t.Fatal(err)
		}
		p.reply(p.want(jute.OpCloseSession).Xid, 1, jute.OK, nil)
		_ = p.Close()
		select {
		case <-c.readerEnded:
		case <-f.peers:
			t.Error("the client connects again")
		}
		if got, want := h.take(), []string{"connecting <nil>", "connected <nil>", "closed <nil>"}; !slices.Equal(got, want) {
			t.Errorf("states %q, want %q", got, want)
		}
	})
}

// AddAuth sends an identity on the connection, and from then on first on every connection, once.
func TestAddAuth(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Auth: []Auth{{"digest", []byte("a:a")}}}, func() {
			p = <-f.peers
			p.accept()
			p.want(jute.OpAuth)
			p.reply(jute.XidAuth, 0, jute.OK, nil)
		})
		added := make(chan error, 1)
		add := func(secret string) {
			go func() { added <- c.AddAuth(ctx, Auth{"digest", []byte(secret)}) }()
			p.want(jute.OpAuth)
		}
		for _, secret := range []string{"b:b", "b:b", "a:a"} {
			add(secret)
			p.reply(jute.XidAuth, 0, jute.OK, nil)
			if err := <-added; err != nil {
				t.Fatal(err)
			}
		}
		add("c:c")
		time.Sleep(time.Second)
		_ = p.Close()
		if err := <-added; !errors.Is(err, ErrConnectionLost) {
			t.Errorf("the connection broke: %v", err)
		}
		p = <-f.peers
		p.accept()
		for _, want := range []string{"a:a", "b:b", "c:c"} {
			if r := p.want(jute.OpAuth); !bytes.Contains(r.body, []byte(want)) {
				t.Errorf("sent %q, want %s", r.body, want)
			}
			p.reply(jute.XidAuth, 0, jute.OK, nil)
		}
		if err := c.AwaitReady(ctx); err != nil {
			t.Fatal(err)
		}
		add("bad")
		p.reply(jute.XidAuth, 0, jute.AuthFailed, nil)
		if err := <-added; !errors.Is(err, jute.AuthFailed) {
			t.Errorf("refused: %v", err)
		}
		if err := c.AddAuth(ctx, Auth{}); !errors.Is(err, jute.AuthFailed) {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// A session has at most MaxIdentities. One more is rejected before anything is sent, and known ones are sent again.
func TestTooManyIdentities(t *testing.T) {
	identity := func(i int) Auth { return Auth{"digest", fmt.Append(nil, i)} }
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		cfg := Config{}
		for i := range MaxIdentities - 1 {
			cfg.Auth = append(cfg.Auth, identity(i))
		}
		c := f.open(cfg, func() {
			p = <-f.peers
			p.accept()
			for range cfg.Auth {
				p.want(jute.OpAuth)
				p.reply(jute.XidAuth, 0, jute.OK, nil)
			}
		})
		for _, i := range []int{MaxIdentities, 0} {
			added := make(chan error, 1)
			go func() { added <- c.AddAuth(ctx, identity(i)) }()
			if r := p.want(jute.OpAuth); !bytes.Contains(r.body, identity(i).Auth) {
				t.Errorf("sent %q, want identity %d", r.body, i)
			}
			p.reply(jute.XidAuth, 0, jute.OK, nil)
			if err := <-added; err != nil {
				t.Errorf("identity %d: %v", i, err)
			}
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := c.AddAuth(limited, identity(MaxIdentities+1)); !errors.Is(err, ErrTooManyIdentities) {
			t.Errorf("one more: %v", err)
		}
		if err := c.AwaitReady(limited); err != nil {
			t.Errorf("the session has ended: %v", err)
		}
		cfg.Servers = []string{"a:1"}
		cfg.Auth = append(slices.Clone(cfg.Auth), identity(MaxIdentities), identity(MaxIdentities+1))
		if _, err := Open(limited, cfg); !errors.Is(err, ErrTooManyIdentities) {
			t.Errorf("Open: %v", err)
		}
	})
}

// Without a connection, calls fail at once if they are to, but Close waits for one.
func TestFailWithoutConnection(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{FailWithoutConnection: true}, func() {
			p = <-f.peers
			p.accept()
		})
		_ = p.Close()
		p = <-f.peers
		if _, err := c.Do(ctx, jute.OpSync, jute.SyncRequest{}, nil); !errors.Is(err, ErrNotConnected) {
			t.Errorf("a call without a connection: %v", err)
		}
		closed := make(chan error)
		go func() { closed <- c.Close(ctx) }()
		synctest.Wait()
		p.accept()
		p.reply(p.want(jute.OpCloseSession).Xid, 1, jute.OK, nil)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
