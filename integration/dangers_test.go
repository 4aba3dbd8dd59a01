package integration

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
)

// In the schedules below, a design like this one loses a session or a write unless it takes care. Each is built step by
// step. integration/README.md names the promise that each of them tests.

const tick = time.Second // of cluster's ensembles, unless a test sets another

// ensemble runs a test on three members that serve. a and b are the followers.
func ensemble(t *testing.T, run func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32)) {
	t.Helper()
	ensembleWith(t, cluster.Options{}, run)
}

// ensembleWith does the same with options.
func ensembleWith(t *testing.T, opts cluster.Options, run func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, opts)
		leader := e.Ready()
		f := e.Followers()
		run(t, e, leader, f[0], f[1])
	})
}

// between calls do for both directions between two hosts.
func between(do func(from, to uint32), a, b uint32) {
	do(a, b)
	do(b, a)
}

// create writes a node on a raw connection.
func create(t *testing.T, c *wire.Conn, xid int32, path string, mode jute.CreateMode) jute.Code {
	t.Helper()
	r, _, err := c.Call(xid, jute.OpCreate, &jute.CreateRequest{Path: []byte(path), ACL: jute.OpenACL, Flags: mode})
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	return r.Err
}

// resume resumes a session on another member.
func resume(t *testing.T, e *cluster.Ensemble, member uint32, s jute.ConnectResponse) *wire.Conn {
	t.Helper()
	c, err := e.Dial(member)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Resume(s, 0)
	if err != nil || got.SessionID != s.SessionID {
		t.Fatalf("resume %v on member %d: got %v, %v", s.SessionID, member, got.SessionID, err)
	}
	return c
}

// has reports whether a member's state has a node.
func has(e *cluster.Ensemble, member uint32, path string) bool {
	s := e.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	_, code := s.Exists([]byte(path), nil, nil)
	return code == jute.OK
}

// owner returns the member that owns a session according to another member's state, or 0 if there
// is no such session.
func owner(e *cluster.Ensemble, member uint32, id jute.SessionID) uint32 {
	s := e.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	session, ok := s.Session(id)
	if !ok {
		return 0
	}
	return session.Owner.Member
}

// alive checks that the connection replies, for its own session.
func alive(t *testing.T, c *wire.Conn, xid int32, path string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(10 * tick)); err != nil {
		t.Fatal(err)
	}
	if code := create(t, c, xid, path, jute.Persistent); code != jute.OK {
		t.Errorf("create %s: %v", path, code)
	}
}

// A client moves while a write of it is stuck in the member that it leaves. The write must not be applied after the
// writes of its new connection.
func TestMovedSessionWithStuckWrite(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		old, session := e.Open(a, 10*tick)
		between(e.Network.Hang, a, leader)
		if err := old.Send(1, jute.OpCreate, &jute.CreateRequest{Path: []byte("/stuck"), ACL: jute.OpenACL}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tick / 20) // the write is on the hanging wire
		c := resume(t, e, b, session)
		alive(t, c, 1, "/new")
		between(e.Network.EndHang, a, leader)
		if err := old.Closed(5 * tick); err != nil {
			t.Errorf("the old connection: %v", err)
		}
		e.Ready()
		alive(t, c, 2, "/newer")
		e.Equal()
		if has(e, leader, "/stuck") {
			t.Error("the write that was stuck was applied after those of the new connection")
		}
	})
}

// An attach is stuck on a hanging wire, and its client gives up and attaches elsewhere. When the
// old attach arrives late, it must not take the session back.
func TestOldAttachAfterTheHeal(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		first, session := e.Open(leader, 10*tick)
		e.Equal()
		between(e.Network.Hang, a, leader)
		late, err := e.Dial(a)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = late.Resume(session, 0) }()
		time.Sleep(tick / 20)
		if err := late.Close(); err != nil {
			t.Fatal(err)
		}
		_ = first.Close()
		time.Sleep(tick / 20) // for the member to see the end of the connection
		c := resume(t, e, b, session)
		between(e.Network.EndHang, a, leader)
		time.Sleep(2 * tick) // for the old attach to arrive
		e.Ready()
		e.Equal()
		if got := owner(e, leader, session.SessionID); got != b {
			t.Errorf("the session is attached to member %d, want %d", got, b)
		}
		alive(t, c, 1, "/still-here")
	})
}

// The leader has decided that a silent session is due, while the attach of its client waits after
// an entry that waits for the disk. In the log the attach comes first, and the expiry in the same
// entry must do nothing.
func TestAttachAheadOfDueExpiry(t *testing.T) {
	tried := 0
	for _, early := range []time.Duration{100, 400, 700, 1000} {
		t.Run(fmt.Sprintf("%d ms before", early), func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				const timeout = 6 * tick // a third of it is longer than the disk stalls
				other, _ := e.Open(b, 20*tick)
				first, session := e.Open(a, timeout)
				opened := time.Now()
				_ = first.Close()
				// It is due between timeout and timeout + 1.5 ticks.
				time.Sleep(time.Until(opened.Add(timeout + tick - early*time.Millisecond)))
				if owner(e, leader, session.SessionID) == 0 {
					return // it was due before that
				}
				tried++
				e.Disk(leader).Stall()
				write := make(chan jute.Code, 1)
				go func() { write <- create(t, other, 1, "/on-its-way", jute.Persistent) }()
				synctest.Wait()
				c, err := e.Dial(b)
				if err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() {
					got, err := c.Resume(session, 0)
					if err == nil && got.SessionID != session.SessionID {
						err = errors.New("the session is gone")
					}
					done <- err
				}()
				time.Sleep(3 * tick / 2)
				e.Disk(leader).Release()
				if code := <-write; code != jute.OK {
					t.Errorf("the entry on its way: %v", code)
				}
				if err := <-done; err != nil {
					t.Fatalf("resume: %v", err)
				}
				time.Sleep(tick / 2)
				alive(t, c, 1, "/alive")
			})
		})
	}
	if tried == 0 {
		t.Error("the session was always due before that: this shows nothing")
	}
}

// A client has gone before its session was created, and its member sends the create again because
// the leader may not have received it. No session is made, and the other writes of the member do
// not wait.
func TestCreateOfAClientThatHasGone(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
		other, session := e.Open(a, 10*tick)
		between(e.Network.Hang, a, leader)
		c, err := e.Dial(a)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.Open(10 * tick) }()
		time.Sleep(tick / 20) // the create is on the hanging wire
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(tick / 20)
		e.ResetForwarding(a, leader) // and is lost
		between(e.Network.EndHang, a, leader)
		alive(t, other, 1, "/behind-it")
		e.Equal()
		s := e.Member(leader).State()
		s.RLock()
		defer s.RUnlock()
		if n := s.SessionCount(); n != 1 {
			t.Errorf("%d sessions, want only %v", n, session.SessionID)
		}
	})
}

// A member that has lost contact with the others, leader or not, replies to pings for a limited time. It stops before
// the others expire the session. It never vouches for a session that is gone.
func TestNobodyVouchesForTheExpired(t *testing.T) {
	for _, role := range []string{"follower", "leader"} {
		t.Run(role, func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				if role == "leader" {
					leader, a = a, leader
				}
				vouches(t, e, a, leader, b)
			})
		})
	}
}

// vouches lets a client talk to alone, which receives nothing from the others.
func vouches(t *testing.T, e *cluster.Ensemble, alone, other, witness uint32) {
	const timeout = 6 * tick
	c, session := e.Open(alone, timeout)
	e.Equal() // the witness knows the session
	heard := make(chan time.Time, 1)
	go func() {
		last := time.Now()
		for {
			if _, err := c.Recv(); err != nil {
				heard <- last
				return
			}
			last = time.Now()
		}
	}()
	between(e.Network.Hang, alone, other)
	between(e.Network.Hang, alone, witness)
	stop := time.Now().Add(3 * timeout)
	var gone time.Time
	for time.Now().Before(stop) {
		_ = c.Send(jute.XidPing, jute.OpPing, nil) // fails once the member has closed it
		time.Sleep(tick / 10)
		if gone.IsZero() && owner(e, witness, session.SessionID) == 0 {
			gone = time.Now()
		}
	}
	switch last := <-heard; {
	case gone.IsZero():
		t.Error("the session was never expired")
	case last.After(gone):
		t.Errorf("the member answered the session's client as late as %v after the others had expired it", last.Sub(gone))
	}
}

// longest is the longest timeout that these ensembles grant.
const longest = 20 * tick

// sleepers returns clients of every member, with the shortest timeout for which anything is
// promised, a middle one and the longest. Each has an ephemeral node.
func sleepers(t *testing.T, e *cluster.Ensemble, members ...uint32) (clients []*cluster.Client) {
	t.Helper()
	for i := range members {
		order := append(slices.Clone(members[i:]), members[:i]...)
		for _, timeout := range []time.Duration{4 * tick, 10 * tick, longest} {
			c := e.Connect(timeout, order...)
			if _, err := c.Create(fmt.Sprintf("/e%d", len(clients)), nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
	}
	return clients
}

// expiries counts the sessions that expire from now on, as the leader logs them.
type expiries struct{ n atomic.Int64 }

func (s *expiries) hear(e member.Event) {
	if e.Kind == member.EventExpired {
		s.n.Add(1)
	}
}

// The leader is paused for twice the longest timeout. Its clients move to other members, and the
// clients of those notice nothing. No session is expired during the pause, and the old leader
// expires none when it resumes.
func TestLeaderPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired expiries
		e := cluster.Start(t, 3, cluster.Options{Events: expired.hear})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		clients := sleepers(t, e, leader, a, b)
		e.Pause(leader)
		time.Sleep(2 * longest)
		for i, c := range clients {
			if home := c.Home(); home != leader && c.Disconnects() != 0 {
				t.Errorf("client %d, of member %d, saw %d disconnects", i, home, c.Disconnects())
			} else if home == leader && (c.Err() != nil || c.Member() == leader || c.Member() == 0) {
				t.Errorf("client %d, of the leader, is on member %d: %v; want its session on another", i, c.Member(), c.Err())
			}
		}
		if n := expired.n.Load(); n != 0 {
			t.Errorf("%d sessions expired while the leader was paused", n)
		}
		e.Resume(leader)
		time.Sleep(2 * longest)
		if n := expired.n.Load(); n != 0 {
			t.Errorf("%d sessions expired by the end", n)
		}
		sessionsLive(t, e, clients)
	})
}

// The leader is paused for longer than its clients' timeouts, and still leads when it wakes, late for every check. It has not
// heard the clients of the others meanwhile. No session is expired, and one whose client is silent ends after a full timeout.
func TestPausedLeaderStillLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 4 * tick
		var expired expiries
		patient := func(cfg *member.Config) { cfg.HeartbeatTimeout = time.Minute }
		e := cluster.Start(t, 3, cluster.Options{Events: expired.hear, Adjust: patient})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		clients := []*cluster.Client{e.Connect(timeout, leader, a), e.Connect(timeout, a), e.Connect(timeout, b)}
		for i, c := range clients {
			if _, err := c.Create(fmt.Sprintf("/e%d", i), nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
		}
		silent := e.Connect(timeout, a)
		start := term(e, leader)
		e.Pause(leader)
		silent.Abandon()
		time.Sleep(2 * timeout)
		e.Resume(leader)
		time.Sleep(timeout / 2)
		if n := expired.n.Load(); n != 0 {
			t.Errorf("%d sessions expired as the leader woke", n)
		}
		sessionsLive(t, e, clients)
		if now := term(e, leader); now != start {
			t.Fatalf("term %v, want %v: the leader was lost, so this shows nothing", now, start)
		}
		e.Wait("the silent session to expire", timeout+3*tick, func() bool { return owner(e, leader, silent.Session()) == 0 })
		if n := expired.n.Load(); n != 1 {
			t.Errorf("%d sessions expired, want only the silent one", n)
		}
	})
}

// All members are paused for twice the longest timeout, and wake together. No client could be
// heard, so no session is expired. A client that is silent after that loses its session.
func TestAllPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired expiries
		e := cluster.Start(t, 3, cluster.Options{Events: expired.hear})
		leader := e.Ready()
		e.Joined()
		clients := sleepers(t, e, leader, e.Followers()[0], e.Followers()[1])
		silent := e.Connect(4 * tick)
		_, late := e.Open(leader, longest) // comes back only late in the lease that the next term grants
		for _, id := range e.IDs() {
			e.Pause(id)
		}
		time.Sleep(2 * longest)
		silent.Abandon()
		for _, id := range e.IDs() {
			e.Resume(id)
		}
		woke := time.Now()
		e.Restart() // a member may have stopped by itself; a service manager restarts it
		time.Sleep(tick)
		e.Restart()
		e.Ready()
		if n := expired.n.Load(); n != 0 || owner(e, e.Leader(), silent.Session()) == 0 {
			t.Errorf("%d sessions expired as the members woke", n)
		}
		// Its lease is a full one, from the term that opens after the pause.
		e.Wait("the silent session to expire", time.Until(woke.Add(4*tick+3*tick/2+5*tick)), func() bool { return owner(e, e.Leader(), silent.Session()) == 0 })
		time.Sleep(time.Until(woke.Add(longest * 3 / 4)))
		_ = resume(t, e, leader, late).Close()
		time.Sleep(longest / 2)
		if n := expired.n.Load(); n != 1 {
			t.Errorf("%d sessions expired, want only the silent one", n)
		}
		sessionsLive(t, e, clients)
	})
}

// sessionsLive checks that every client still has its session, and the session its ephemeral.
func sessionsLive(t *testing.T, e *cluster.Ensemble, clients []*cluster.Client) {
	t.Helper()
	e.Ready()
	for i, c := range clients {
		if err := c.WaitConnected(10 * tick); err != nil {
			t.Errorf("client %d: %v", i, err)
			continue
		}
		if _, err := insistExists(c, fmt.Sprintf("/e%d", i)); err != nil {
			t.Errorf("ephemeral of client %d: %v", i, err)
		}
	}
	e.Equal()
}

// A member lags, and a client of it sends a sync. A read after the sync shows every write that was acknowledged to
// others before.
func TestSyncOnALaggingMember(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
		c, _ := e.Open(a, 10*tick)
		writer, _ := e.Open(leader, 10*tick)
		alive(t, writer, 1, "/before")
		e.Equal()
		e.BlockLog(leader, a)
		alive(t, writer, 2, "/after")
		time.AfterFunc(tick, func() { e.UnblockLog(leader, a) })
		if _, _, err := c.Call(1, jute.OpSync, &jute.SyncRequest{Path: []byte("/")}); err != nil {
			t.Fatal(err)
		}
		r, _, err := c.Call(2, jute.OpExists, &jute.ExistsRequest{Path: []byte("/after")})
		if err != nil || r.Err != jute.OK {
			t.Errorf("after a sync: %v, %v; want what was acknowledged before it", r, err)
		}
	})
}

// The leader receives a write twice. The first copy is on the connection that the member has given
// up, and is read late. The second is on the connection that the member opened instead.
func TestOldStreamReadLate(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, _ uint32) {
		c, _ := e.Open(a, 10*tick)
		e.Network.DelayBy(a, leader, tick/20)
		for i := range int32(20) {
			if err := c.Send(i+1, jute.OpCreate, &jute.CreateRequest{
				Path: []byte("/w-"), ACL: jute.OpenACL, Flags: jute.PersistentSequential,
			}); err != nil {
				t.Fatal(err)
			}
			if i == 10 {
				time.Sleep(tick / 100)
				e.OrphanForwarding(a, leader, tick/3)
			}
		}
		e.Network.DelayBy(a, leader, 0)
		for i := range int32(20) {
			r, err := c.Recv()
			var resp jute.CreateResponse
			if err != nil || r.Xid != i+1 || r.Into(&resp) != nil {
				t.Fatalf("reply %d: %v, %v", i+1, r, err)
			}
			if want := fmt.Sprintf("/w-%010d", i); string(resp.Path) != want {
				t.Errorf("write %d made %s, want %s: another was made twice, or out of order", i+1, resp.Path, want)
			}
		}
		time.Sleep(tick)
		e.Equal()
		if e.Stats().ResentTxns == 0 {
			t.Error("nothing was sent again")
		}
		if has(e, leader, "/w-0000000020") {
			t.Error("a write was made twice")
		}
	})
}

// Wall clocks jump by an hour and drift apart while sessions live, the leader's first of all. No
// session is expired because of that, and no silent one is kept.
func TestWallClocksJump(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		const timeout = 4 * tick
		clients := []*cluster.Client{e.Connect(timeout, leader), e.Connect(timeout, a), e.Connect(timeout, b)}
		for i, c := range clients {
			if _, err := c.Create(fmt.Sprintf("/e%d", i), nil, jute.Ephemeral); err != nil {
				t.Fatal(err)
			}
		}
		silent := e.Connect(timeout, a)
		for i, by := range []time.Duration{time.Hour, -2 * time.Hour, 24 * time.Hour} {
			e.Clock(leader).Step(by)
			e.Clock(a).Drift(time.Duration(i) * 300 * time.Millisecond)
			time.Sleep(timeout)
		}
		for i, c := range clients {
			if n := c.Disconnects(); n != 0 {
				t.Errorf("client %d saw %d disconnects", i, n)
			}
		}
		sessionsLive(t, e, clients)
		session := silent.Session()
		silent.Abandon()
		e.Clock(leader).Step(-time.Hour)
		time.Sleep(timeout + 2*tick)
		if owner(e, leader, session) != 0 {
			t.Errorf("silent for %v, its session lives", timeout+2*tick)
		}
	})
}

// A follower flushes a touch at the leader for a session that is no longer the follower's. The session is being closed,
// has been closed, or has moved to another member without this one's knowledge. The reply rejects the session at once:
// its connection is closed, and the touch renews nothing. The other session of the same batch is renewed.
func TestRefusedTouchInABatch(t *testing.T) {
	const timeout = 4 * tick
	for _, tt := range []struct {
		name   string
		silent bool // the client has sent nothing until then, so the member does not vouch for it
		lose   func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32, s jute.ConnectResponse) (undo func())
	}{
		{"closing", true, func(_ *testing.T, e *cluster.Ensemble, leader, _, _ uint32, _ jute.ConnectResponse) func() {
			time.Sleep(timeout - tick) // by then the log has the writes of the ensemble's start
			e.Gate(leader).Hold()
			e.Wait("the expiry to be sealed", 7*tick, func() bool { return e.Gate(leader).Waiting() == 1 })
			return e.Gate(leader).Release
		}},
		{"expired", true, func(_ *testing.T, e *cluster.Ensemble, leader, a, _ uint32, s jute.ConnectResponse) func() {
			time.Sleep(timeout) // it may expire from now on
			e.BlockLog(leader, a)
			e.Wait("the session to expire", 2*tick, func() bool { return owner(e, leader, s.SessionID) == 0 })
			return func() { e.UnblockLog(leader, a) }
		}},
		{"moved", false, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32, s jute.ConnectResponse) func() {
			e.BlockLog(leader, a)
			resume(t, e, b, s)
			return func() { e.UnblockLog(leader, a) }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				c, lost := e.Open(a, timeout)
				kept := e.Connect(timeout, a)
				undo := tt.lose(t, e, leader, a, b, lost)
				if owner(e, a, lost.SessionID) != a {
					t.Fatal("the member knows of it already: this shows nothing")
				}
				wait := tick // the next ping says so
				if tt.silent {
					wait = tick / 4 // the answer waits for the leader, which is asked at once
				}
				if err := c.Send(jute.XidPing, jute.OpPing, nil); err != nil {
					t.Fatal(err)
				}
				if !tt.silent {
					if _, err := c.Recv(); err != nil { // the member vouches for it, because of what it heard before the move
						t.Fatal(err)
					}
				}
				sent := time.Now()
				if err := c.Closed(wait); err != nil {
					t.Errorf("connection of the refused session, %v after its ping: %v", time.Since(sent), err)
				}
				undo()
				if !tt.silent {
					time.Sleep(timeout + 2*tick)
				}
				e.Wait("the refused session to be gone", 2*tick, func() bool { return owner(e, leader, lost.SessionID) == 0 })
				time.Sleep(2 * timeout)
				if n := kept.Disconnects(); n != 0 {
					t.Errorf("the other session saw %d disconnects", n)
				}
				if _, err := kept.Create("/kept", nil, jute.Ephemeral); err != nil {
					t.Errorf("the other session: %v", err)
				}
				e.Equal()
			})
		})
	}
}

// A session is resumed on another member with a shorter timeout, and the old member does not learn
// of it because its log lags. The session soon ends there. After that the old connection must have
// been sent nothing, although it was heard now and then and was granted a longer timeout.
func TestShorterTimeoutElsewhere(t *testing.T) {
	ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
		const short = 2 * tick
		c, session := e.Open(a, longest)
		e.Equal()
		heard := make(chan time.Time, 1)
		go func() {
			last := time.Now()
			for {
				if _, err := c.Recv(); err != nil {
					heard <- last
					return
				}
				last = time.Now()
			}
		}()
		e.BlockLog(leader, a)
		brief := session
		brief.TimeOut = int32(short.Milliseconds())
		_ = resume(t, e, b, brief).Close()
		var gone time.Time
		for end := time.Now().Add(longest); time.Now().Before(end); {
			_ = c.Send(jute.XidPing, jute.OpPing, nil) // fails once the member has closed it
			time.Sleep(short / 2)
			if gone.IsZero() && owner(e, leader, session.SessionID) == 0 {
				gone = time.Now()
			}
		}
		e.UnblockLog(leader, a)
		switch last := <-heard; {
		case gone.IsZero():
			t.Error("the session was never expired")
		case last.After(gone):
			t.Errorf("the old member answered the session's client until %v after the session had expired", last.Sub(gone))
		}
	})
}
