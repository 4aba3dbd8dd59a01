package session

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/zk/jute"
)

// rightUntil checks that the right ends at the given time of the fake's clock.
func rightUntil(t *testing.T, c *Session, want time.Duration) {
	t.Helper()
	if end, ok := c.Right().Ends(); !ok || end != want+1 {
		t.Errorf("the right ends at %v, %v, want %v", end-1, ok, want)
	}
}

// send sends a sync, and waits until the server has it.
func send(t *testing.T, c *Session, p *peer) (xid int32) {
	t.Helper()
	if err := c.Go(ctx, jute.OpGetData, jute.GetDataRequest{Path: []byte("/")}, func(Reply, error) {}); err != nil {
		t.Fatal(err)
	}
	return p.want(jute.OpGetData).Xid
}

// A right lasts for 0.9 of the timeout, counted from the sending of the last request with a reply. A reply with an error
// counts. While one request's reply is awaited, replies to later ones do not count.
func TestRightCountsFromSending(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			time.Sleep(2 * time.Second)
			p.accept()
		})
		rightUntil(t, c, 27*time.Second) // from the handshake
		time.Sleep(time.Second)
		first := send(t, c, p)
		time.Sleep(time.Second)
		second := send(t, c, p)
		time.Sleep(time.Second)
		synctest.Wait()
		rightUntil(t, c, 27*time.Second)
		p.reply(first, 1, jute.NoNode, nil)
		synctest.Wait()
		rightUntil(t, c, 30*time.Second)
		third := send(t, c, p) // at 5 s
		p.reply(second, 1, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 30*time.Second)
		time.Sleep(time.Second)
		p.reply(third, 1, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 32*time.Second)
		if left := c.Right().Remaining(); left != 26*time.Second || !c.Right().Held() {
			t.Errorf("%v are left, want 26s", left)
		}
		p.want(jute.OpPing) // at 15 s
		time.Sleep(time.Second)
		p.reply(jute.XidPing, 0, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 42*time.Second)
	})
}

// The reply to a ping counts only if no other ping was unanswered when it was sent: pings have no numbers.
func TestRightAndPingsUnderWay(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Margin: 5 * time.Second}, func() {
			p = <-f.peers
			p.accept()
		})
		p.want(jute.OpPing) // at 10 s; it begins a round trip
		time.Sleep(9 * time.Second)
		p.event(jute.EventNodeDeleted, "/", 1) // the server is not silent
		p.want(jute.OpPing)                    // at 20 s
		p.reply(jute.XidPing, 0, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 35*time.Second)
		time.Sleep(5 * time.Second)
		request := send(t, c, p) // at 25 s
		p.reply(jute.XidPing, 0, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 35*time.Second)
		p.reply(request, 1, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 50*time.Second)
		p.want(jute.OpPing) // at 35 s
		p.reply(jute.XidPing, 0, jute.OK, nil)
		synctest.Wait()
		rightUntil(t, c, 60*time.Second)
	})
}

// A ping that is sent while another one is unanswered begins no round trip: the next reply may be the other one's.
func TestRoundTripOfPings(t *testing.T) {
	var trip sample
	now := time.Duration(0)
	clock := func() time.Duration { now++; return now }
	ping := appendRequest(nil, jute.XidPing, jute.OpPing, nil)
	trip.addPing(1)
	trip.addPing(2)
	trip.begin(ping, clock, time.Second)
	if trip.xid != 0 {
		t.Errorf("the second ping begins a round trip")
	}
	for i, want := range []time.Duration{1, 0, 0} { // the reply to the second one and the one to nothing are not measured
		if sent := trip.endPing(); sent != want {
			t.Errorf("reply %d: sent at %d, want %d", i, sent, want)
		}
	}
	trip.addPing(3)
	trip.begin(ping, clock, time.Second)
	for _, frame := range [][]byte{
		appendRequest(nil, 7, jute.OpSync, nil), appendRequest(nil, jute.XidAuth, jute.OpAuth, nil),
	} {
		trip.begin(frame, clock, time.Second) // one is under way
	}
	if sent, ok := trip.finish(7); ok {
		t.Errorf("the request's reply ends the ping's round trip: %v", sent)
	}
	if sent, ok := trip.finish(jute.XidPing); !ok || sent != 1 {
		t.Errorf("sent at %v, %v, want 1", sent, ok)
	}
	trip.begin(appendRequest(nil, jute.XidAuth, jute.OpAuth, nil), clock, time.Second)
	if _, ok := trip.finish(jute.XidAuth); ok {
		t.Error("an identity begins a round trip, but servers do not count it as heard")
	}
}

// One request in each hundredth of the timeout begins a round trip, so that the clock is read rarely.
func TestRoundTripsOfManyRequests(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var trip sample
		request, reads := appendRequest(nil, 7, jute.OpSync, nil), 0
		for range 1000 {
			trip.begin(request, func() time.Duration { reads++; return 1 }, time.Second)
			trip.finish(7)
			time.Sleep(time.Millisecond)
		}
		if reads != 100 {
			t.Errorf("the clock was read %d times for 1000 requests in a timeout, want 100", reads)
		}
	})
}

// A right ends during a suspend, in which timers stand still. Functions are called at most a second after it.
func TestRightEndsInSuspend(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		called := make(chan struct{})
		c.Right().AfterEnd(func() { close(called) })
		time.Sleep(500 * time.Millisecond)
		f.suspend(26500*time.Millisecond - 1)
		if !c.Right().Held() || c.Right().Remaining() != 1 {
			t.Errorf("%v before the end: %v", 1, c.Right().Remaining())
		}
		f.suspend(1)
		if c.Right().Held() || c.Right().Remaining() != 0 {
			t.Error("the right is held after the suspend")
		}
		woke := time.Now()
		<-called
		if late := time.Since(woke); late > maxRightPause {
			t.Errorf("called %v after the suspend", late)
		}
		// The server resumes the session in time.
		_ = p.Close()
		(<-f.peers).accept()
		synctest.Wait()
		if left := c.Right().Remaining(); left != 27*time.Second {
			t.Errorf("%v after the session was resumed", left)
		}
	})
}

// Functions are called once and in order when the right has ended, and not before if it was renewed meanwhile.
func TestAfterEnd(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		var h heard
		c := f.open(Config{Servers: []string{"a"}, GiveUpAfter: NeverGiveUp}, func() {
			p = <-f.peers
			p.accept()
		})
		add := func(name string) func() bool {
			return c.Right().AfterEnd(func() { h.add("%s at %v, held %v", name, f.clock()-1, c.Right().Held()) })
		}
		add("first")
		stop := add("stopped")
		stopLater := add("second")
		if !stop() || stop() {
			t.Error("stop does not report that it has kept the function from being called")
		}
		p.reply(p.want(jute.OpSync).Xid, 1, jute.OK, jute.SyncResponse{Path: []byte("/")})
		f.mu.Lock()
		f.down["a"] = true
		f.mu.Unlock()
		time.Sleep(40 * time.Second)
		want := []string{"first at 37s, held false", "second at 37s, held false"}
		if got := h.take(); !slices.Equal(got, want) {
			t.Errorf("called %q, want %q", got, want)
		}
		if stopLater() {
			t.Error("stop reports that it has kept a function from being called that was called")
		}
		add("late")
		if got := h.take(); len(got) != 1 {
			t.Errorf("a function that is registered after the end: %q", got)
		}
	})
}

// While functions wait for the end of the right, a sync is sent each third of the timeout, however many other requests
// there are, and only its reply counts. Without them every reply counts, and no sync is sent.
func TestRightIsProven(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a"}}, func() {
			p = <-f.peers
			p.accept()
		})
		held := func(when string, want time.Duration) {
			t.Helper()
			synctest.Wait()
			if left := c.Right().Remaining(); left != want {
				t.Errorf("%s: %v left, want %v", when, left, want)
			}
		}
		read := func() { p.reply(send(t, c, p), 1, jute.OK, nil) }
		time.Sleep(9 * time.Second)
		read()
		held("a read counts while nothing waits", 27*time.Second)

		stop := c.Right().AfterEnd(func() {})
		held("the handshake is the last proof", 18*time.Second)
		read()
		held("a read is no proof", 18*time.Second)
		before := time.Now()
		sync := p.want(jute.OpSync)
		if waited := time.Since(before); waited != time.Second { // a third of the timeout after the last proof, though a ping is due later
			t.Errorf("a sync after another %v, want 1 s", waited)
		}
		p.reply(sync.Xid, 1, jute.OK, jute.SyncResponse{Path: []byte("/")})
		held("a sync is one", 27*time.Second)
		for range 9 {
			time.Sleep(time.Second)
			read() // so no ping is due
		}
		time.Sleep(time.Second)
		sync = p.want(jute.OpSync)
		p.reply(sync.Xid, 1, jute.SessionMoved, nil)
		held("a sync with an error is none", 17*time.Second)
		if !stop() {
			t.Error("the function was called")
		}
		held("every reply counts again", 26*time.Second)

		for range 3 {
			time.Sleep(10 * time.Second)
			p.want(jute.OpPing)
			p.reply(jute.XidPing, 0, jute.OK, nil)
		}
		synctest.Wait()
		if c.Right().IsProven() {
			t.Error("proven 40 s after the last proof")
		}
		left := c.Right().Remaining()
		c.Right().AfterEnd(func() {})
		held("without a recent proof the end stays until the next one", left)
		p.want(jute.OpSync) // at once
	})
}

// A right ends at once when a server replies that the session has expired, when a resume is rejected, when Close
// begins, and with Abandon.
func TestRightOfEndedSession(t *testing.T) {
	for name, end := range map[string]func(f *fake, c *Session, p *peer){
		"expired reply": func(f *fake, c *Session, p *peer) {
			p.reply(send(f.t, c, p), 1, jute.SessionExpired, nil)
			synctest.Wait()
		},
		"rejected": func(f *fake, _ *Session, p *peer) {
			_ = p.Close()
			(<-f.peers).rejectHandshake()
			synctest.Wait()
		},
		"close": func(f *fake, c *Session, p *peer) {
			limited, cancel := context.WithCancel(ctx)
			f.t.Cleanup(cancel)
			go func() { _ = c.Close(limited) }()
			synctest.Wait()
		},
		"close without a connection": func(f *fake, c *Session, p *peer) {
			_ = p.Close()
			<-f.peers
			limited, cancel := context.WithCancel(ctx)
			f.t.Cleanup(cancel)
			go func() { _ = c.Close(limited) }()
			synctest.Wait()
		},
		"reply after close": func(f *fake, c *Session, p *peer) {
			xid := send(f.t, c, p)
			limited, cancel := context.WithCancel(ctx)
			f.t.Cleanup(cancel)
			go func() { _ = c.Close(limited) }()
			synctest.Wait()
			p.reply(xid, 1, jute.OK, nil)
			synctest.Wait()
		},
		"close request": func(f *fake, c *Session, p *peer) {
			if err := c.Go(ctx, jute.OpCloseSession, nil, func(Reply, error) {}); err != nil {
				f.t.Error(err)
			}
		},
		"abandon": func(_ *fake, c *Session, _ *peer) { c.Abandon() },
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, f *fake) {
				var p *peer
				c := f.open(Config{}, func() {
					p = <-f.peers
					p.accept()
				})
				var calls atomic.Int32
				c.Right().AfterEnd(func() { calls.Add(1) })
				end(f, c, p)
				if _, ok := c.Right().Ends(); ok || c.Right().Held() || calls.Load() != 1 {
					t.Errorf("held: %v, functions called: %d", ok, calls.Load())
				}
			})
		})
	}
}

// A reply that the session has moved to another connection does not renew the right, and does not end it.
func TestRightOfMovedSession(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(time.Second)
		p.reply(send(t, c, p), 1, jute.SessionMoved, nil)
		synctest.Wait()
		rightUntil(t, c, 27*time.Second)
	})
}

// Without a server, a Session gives up when 4/3 of the timeout have passed since its last answered request was sent,
// or the time that is configured. Time of a suspend counts.
func TestGiveUp(t *testing.T) {
	for _, tt := range []struct{ after, suspend, want time.Duration }{
		{0, 0, 41 * time.Second},
		{7 * time.Second, 0, 8 * time.Second},
		{0, 30 * time.Second, 11 * time.Second},
		{NeverGiveUp, 0, 0},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			within(t, func(t *testing.T, f *fake) {
				var h heard
				var p *peer
				c := f.open(Config{
					GiveUpAfter: tt.after,
					OnState:     func(s Change) { h.add("%v %v", s.State, errors.Is(s.Err, ErrGaveUp)) },
				}, func() {
					p = <-f.peers
					p.accept()
				})
				time.Sleep(time.Second)
				p.reply(send(t, c, p), 1, jute.OK, nil)
				f.mu.Lock()
				f.down["a"], f.down["b"] = true, true
				f.mu.Unlock()
				time.Sleep(2 * time.Second)
				_ = p.Close()
				f.suspend(tt.suspend)
				synctest.Wait()
				limited, cancel := context.WithTimeout(ctx, time.Hour)
				defer cancel()
				err := c.AwaitReady(limited)
				if tt.want == 0 {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("after an hour: %v", err)
					}
					return
				}
				if d := time.Since(f.began); d != tt.want || !errors.Is(err, ErrGaveUp) || !errors.Is(err, ErrExpired) {
					t.Errorf("gave up after %v, want %v: %v", d, tt.want, err)
				}
				synctest.Wait()
				want := []string{"connecting false", "connected false", "suspended false", "expired true"}
				if got := h.take(); !slices.Equal(got, want) {
					t.Errorf("states %q, want %q", got, want)
				}
				if err := c.Close(ctx); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		})
	}
}

// A handshake that is not answered ends when the Session gives up.
func TestGiveUpInHandshake(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a"}}, func() {
			p = <-f.peers
			p.accept()
		})
		time.Sleep(9 * time.Second)
		_ = p.Close()
		silent := <-f.peers // an attempt may last for 30 s
		silent.connectRequest()
		time.Sleep(20 * time.Second)
		_ = silent.Close()
		(<-f.peers).connectRequest()
		if err := c.AwaitReady(ctx); !errors.Is(err, ErrGaveUp) || time.Since(f.began) != 40*time.Second {
			t.Errorf("gave up after %v: %v", time.Since(f.began), err)
		}
	})
}

// A Session that resumes a session does not give up before it was connected once: Open's context ends it.
func TestNoGivingUpBeforeOpen(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		limited, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		_, err := Open(limited, Config{
			Servers: []string{"a"}, Clock: f.clock, Resume: &ResumeToken{ID: 1},
			Dial: func(context.Context, string) (net.Conn, error) { return nil, errors.New("refused") },
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after %v: %v", time.Since(f.began), err)
		}
	})
}

// The clock of this machine advances, and never jumps back.
func TestBootTime(t *testing.T) {
	before, began := BootTime(), time.Now()
	for time.Since(began) < 100*time.Microsecond { // until the clock must have moved
	}
	if after := BootTime(); after <= before {
		t.Errorf("%v after %v", after, before)
	}
}

// Where the monotonic clock stands still during a suspend, the wall clock shows how long it was.
func TestTwoClocks(t *testing.T) {
	var c twoClocks
	const wall = 1e18
	for i, tt := range []struct{ monotonic, wall, want time.Duration }{
		{100, wall, 100},
		{200, wall + 100, 200},
		{300, wall + 150, 300},                         // the wall clock is slow
		{400, wall + 150 + time.Hour, 300 + time.Hour}, // a suspend: 1 h is 100 ns more by the monotonic clock
		{500, wall, 400 + time.Hour},                   // someone sets the wall clock back
		{450, wall - 50, 350 + time.Hour},              // a reading from before the last call
		{600, wall + 100, 500 + time.Hour},
		{700, wall + minClockJump, 600 + time.Hour}, // the wall clock is slewed
	} {
		if got := c.read(tt.monotonic, tt.wall); got != tt.want {
			t.Errorf("reading %d: %v, want %v", i, got, tt.want)
		}
	}
}

// While the functions are called, only proofs count: a member that is cut off from the leader continues to reply to
// pings for a while, and waiting callers do not know yet that the right has ended.
func TestRightIsNotHeldInItsFunctions(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a"}}, func() {
			p = <-f.peers
			p.accept()
		})
		var held []bool
		note := func() { held = append(held, c.Right().Held()) }
		c.Right().AfterEnd(note)
		c.Right().AfterEnd(func() { // a reply comes while the functions are called
			c.right.renew(f.clock(), 30*time.Second, sessionKnown)
			note()
		})
		time.Sleep(10 * time.Second)
		p.want(jute.OpSync) // it gets no reply
		p.reply(jute.XidPing, 0, jute.OK, nil)
		time.Sleep(10 * time.Second)
		p.want(jute.OpPing)
		p.reply(jute.XidPing, 0, jute.OK, nil)
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if len(held) != 2 || held[0] || held[1] {
			t.Errorf("held in the functions: %v, want false twice", held)
		}
		if !c.Right().Held() {
			t.Error("not held after the functions, although every reply counts again")
		}
	})
}

// A right that lasts on without a proof, because a function waits, is not proven for those who must know.
func TestRightWithoutProof(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a"}}, func() {
			p = <-f.peers
			p.accept()
		})
		for range 3 {
			time.Sleep(10 * time.Second)
			p.want(jute.OpPing)
			p.reply(jute.XidPing, 0, jute.OK, nil)
		}
		synctest.Wait()
		c.Right().AfterEnd(func() {})
		if c.Right().IsProven() || !c.Right().Held() {
			t.Errorf("proven %v, held %v; want false, true", c.Right().IsProven(), c.Right().Held())
		}
		called := false
		if stop := c.Right().AfterProvenEnd(func() { called = true }); stop() || !called {
			t.Error("AfterProvenEnd waits without a proof")
		}
		sync := p.want(jute.OpSync)
		p.reply(sync.Xid, 1, jute.OK, jute.SyncResponse{Path: []byte("/")})
		synctest.Wait()
		called = false
		if stop := c.Right().AfterProvenEnd(func() { called = true }); called || !stop() || !c.Right().IsProven() {
			t.Error("AfterProvenEnd does not wait with a proof")
		}
	})
}

// If a server resumes the session with a shorter timeout, that counts from then on, and not what was left before.
func TestRightOfShorterTimeout(t *testing.T) {
	within(t, func(t *testing.T, f *fake) {
		var p *peer
		c := f.open(Config{Servers: []string{"a"}}, func() {
			p = <-f.peers
			p.accept()
		})
		c.Right().AfterEnd(func() {})
		time.Sleep(time.Second)
		_ = p.Close()
		p = <-f.peers
		p.connectRequest()
		p.write(jute.ConnectResponse{TimeOut: 10_000, SessionID: fakeSession, Passwd: make([]byte, 16), HasReadOnly: true})
		synctest.Wait()
		if left := c.Right().Remaining(); left > 9*time.Second {
			t.Errorf("%v left, and the session lasts for 10 s", left)
		}
	})
}
