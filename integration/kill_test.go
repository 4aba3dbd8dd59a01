package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/stateview"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// killing ends a session through a member, within limit, in a goroutine of its own.
func killing(t *testing.T, e *cluster.Ensemble, id uint32, session jute.SessionID, limit time.Duration) <-chan error {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		done <- e.Member(id).KillSession(ctx, session, "alice")
	}()
	return done
}

// wantKilled checks that each member knows one end of the session, by a kill of alice's.
func wantKilled(t *testing.T, e *cluster.Ensemble, session jute.SessionID) {
	t.Helper()
	for _, id := range e.IDs() {
		n := 0
		for end := range e.Member(id).SessionEnds(stateview.EndFilter{Session: session}) {
			if n++; end.Reason != znode.ReasonKilled || end.RequestedBy != "alice" {
				t.Errorf("member %d has %+v", id, end)
			}
		}
		if n != 1 {
			t.Errorf("member %d has %d ends of session %v", id, n, session)
		}
	}
}

// An operator ends a session through any member. Within a tick its nodes are gone on every member, and
// its connection is closed. The client learns that its session has expired, and other clients notice
// nothing.
func TestKillSession(t *testing.T) {
	for _, through := range []string{"leader", "own member", "other follower"} {
		t.Run(through, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{})
				leader := e.Ready()
				e.Joined()
				own, other := e.Followers()[0], e.Followers()[1]
				asked := map[string]uint32{"leader": leader, "own member": own, "other follower": other}[through]
				victim, bystander := e.Connect(20*tick, own), e.Connect(20*tick, own)
				for _, c := range []*cluster.Client{victim, bystander} {
					if _, err := c.Create(fmt.Sprint("/of", c.Session()), nil, jute.Ephemeral); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(3 * tick)
				began := time.Now()
				if err := <-killing(t, e, asked, victim.Session(), tick); err != nil {
					t.Fatal(err)
				}
				wantKilled := func(id uint32) bool {
					s := e.Member(id).State()
					s.RLock()
					defer s.RUnlock()
					_, lives := s.Session(victim.Session())
					return !lives && s.TreeView().EphemeralCount() == 1
				}
				if !wantKilled(asked) {
					t.Error("the member that was asked has not applied the kill")
				}
				e.Wait("the session to be gone everywhere", tick-time.Since(began), func() bool { return wantKilled(1) && wantKilled(2) && wantKilled(3) })
				e.Wait("the client to be told", tick, func() bool { return victim.Err() != nil })
				if victim.Disconnects() != 1 || bystander.Disconnects() != 0 {
					t.Errorf("%d connections of its client were closed, %d of another", victim.Disconnects(), bystander.Disconnects())
				}
				e.Equal()
				end := endsOf(e, asked)[0]
				if end.EphemeralCount != 1 || end.Member != own || end.Leader != leader || end.SilentFor > 20*tick/3+tick {
					t.Errorf("%+v", end)
				}
			})
		})
	}
}

// A kill that cannot be carried out returns the reason, and changes nothing.
func TestKillSessionFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		a := e.Followers()[0]
		c := e.Connect(20*tick, a)
		if err := <-killing(t, e, a, c.Session()+1, tick); !errors.Is(err, member.ErrUnknownSession) {
			t.Errorf("a session that never was: %v", err)
		}
		if err := e.Member(a).KillSession(t.Context(), c.Session(), strings.Repeat("x", znode.MaxRequesterBytes+1)); err == nil {
			t.Error("a long name was taken")
		}
		e.Isolate(a)
		if err := <-killing(t, e, a, c.Session(), 2*tick); !errors.Is(err, member.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without a leader: %v", err)
		}
		e.Rejoin(a)
		e.Healed()
		if err := c.Sync(); err != nil {
			t.Errorf("its client: %v", err)
		}
		if ends := endsOf(e, leader); len(ends) != 0 {
			t.Errorf("ends %+v", ends)
		}
	})
}

// A client that resumes its session before the kill is in the log keeps it.
func TestKillOfASessionThatMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		_, session := e.Open(a, 20*tick)
		writer := e.Connect(20*tick, leader)
		e.Gate(leader).Hold()
		write := writer.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/held"), ACL: jute.OpenACL})
		e.Wait("the write to be held", tick, func() bool { return e.Gate(leader).Waiting() > 0 })
		again, err := e.Dial(b)
		if err != nil {
			t.Fatal(err)
		}
		resumed := make(chan error, 1)
		go func() {
			got, err := again.Resume(session, 0)
			if err == nil && got.SessionID != session.SessionID {
				err = fmt.Errorf("resumed as %v", got.SessionID)
			}
			resumed <- err
		}()
		synctest.Wait() // the resume waits at the leader
		killed := killing(t, e, b, session.SessionID, 5*tick)
		synctest.Wait() // so does the kill of the session as it was
		e.Gate(leader).Release()
		if err := <-killed; !errors.Is(err, member.ErrSessionMoved) {
			t.Errorf("the kill: %v", err)
		}
		if err := <-resumed; err != nil {
			t.Errorf("the resume: %v", err)
		}
		if _, err := write.Wait(); err != nil {
			t.Error(err)
		}
		e.Equal()
		if ends := endsOf(e, leader); len(ends) != 0 {
			t.Errorf("ends %+v", ends)
		}
	})
}

// The leader dies at any moment of a kill. The next one carries it out, or it was carried out before:
// the session ends once.
func TestKillAndAChangeOfLeader(t *testing.T) {
	const latency = 2 * time.Millisecond // of disks, so that a kill takes time
	for after := range 12 {
		t.Run(fmt.Sprint(time.Duration(after)*latency/2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{Write: latency})
				leader := e.Ready()
				e.Joined()
				a, b := e.Followers()[0], e.Followers()[1]
				c := e.Connect(20*tick, a)
				done := killing(t, e, b, c.Session(), 20*tick)
				time.Sleep(time.Duration(after) * latency / 2)
				e.Kill(leader)
				if err := <-done; err != nil {
					t.Errorf("the kill: %v", err)
				}
				e.Boot(leader)
				e.Healed()
				e.Equal()
				wantKilled(t, e, c.Session())
			})
		})
	}
}

// The entry with a kill is committed although the leader was told otherwise, and the kill is sent again. The operator's
// reply is that the session was killed.
func TestKillThatWasCalledLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		c := e.Connect(20*tick, a)
		e.Gate(leader).Keep(1)
		killed := killing(t, e, b, c.Session(), 5*tick)
		for e.Gate(leader).Refused() == 0 {
			time.Sleep(tick / 1000)
		}
		e.Gate(leader).Release() // a twentieth of a tick before the next term begins
		if err := <-killed; err != nil {
			t.Errorf("the kill: %v", err)
		}
		if n := e.Gate(leader).Landed(); n != 1 {
			t.Fatalf("%d entries came into the log late", n)
		}
		e.Equal()
		wantKilled(t, e, c.Session())
	})
}

// A member that is cut off while a kill is under way says that it is not confirmed. The kill is carried out.
func TestKillNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		c := e.Connect(20*tick, a)
		e.Gate(leader).Hold()
		killed := killing(t, e, b, c.Session(), 2*tick)
		e.Wait("the entry to be held", tick, func() bool { return e.Gate(leader).Waiting() > 0 })
		e.Isolate(b)
		if err := <-killed; !errors.Is(err, member.ErrNotConfirmed) {
			t.Errorf("the kill: %v", err)
		}
		e.Gate(leader).Release()
		if n := e.Gate(leader).Landed(); n != 1 {
			t.Errorf("%d entries came into the log, want that of the kill", n)
		}
		e.Rejoin(b)
		e.Healed()
		e.Equal()
		wantKilled(t, e, c.Session())
	})
}

// A kill that its member has not sent in time is withdrawn: nothing happens, then or later.
func TestKillIsWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(c *member.Config) { c.MaxInFlight = 1 }})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		c, writer := e.Connect(20*tick, a), e.Connect(20*tick, b)
		e.Gate(leader).Hold()
		write := writer.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/held"), ACL: jute.OpenACL})
		e.Wait("the write to be held", tick, func() bool { return e.Gate(leader).Waiting() > 0 })
		if err := <-killing(t, e, b, c.Session(), tick/10); !errors.Is(err, member.ErrNoLeader) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the kill: %v", err)
		}
		e.Gate(leader).Release()
		if _, err := write.Wait(); err != nil {
			t.Error(err)
		}
		if err := c.Sync(); err != nil {
			t.Errorf("its client: %v", err)
		}
		e.Equal()
		if ends := endsOf(e, leader); len(ends) != 0 {
			t.Errorf("ends %+v", ends)
		}
	})
}

// Two members kill one session at once: one of them has ended it, and the other one finds it gone.
func TestTwoKillsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		c := e.Connect(20*tick, a)
		e.Gate(leader).Hold()
		first, second := killing(t, e, a, c.Session(), 5*tick), killing(t, e, b, c.Session(), 5*tick)
		synctest.Wait()
		e.Gate(leader).Release()
		one, other := <-first, <-second
		if one != nil {
			one, other = other, one
		}
		if one != nil || !errors.Is(other, member.ErrUnknownSession) {
			t.Errorf("the kills: %v and %v", one, other)
		}
		e.Equal()
		wantKilled(t, e, c.Session())
	})
}

// A thousand sessions are killed at once through one member, by way of entries of a limited number. Other clients write
// meanwhile.
func TestThousandKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions = 1000
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(c *member.Config) { c.Limits.MaxClientConns = 2 * sessions }})
		leader := e.Ready()
		e.Joined()
		a, b := e.Followers()[0], e.Followers()[1]
		writer := e.Connect(20*tick, leader)
		var kills []<-chan error
		var ids []jute.SessionID
		for range sessions {
			_, session := e.Open(a, 20*tick)
			ids = append(ids, session.SessionID)
		}
		for _, id := range ids {
			kills = append(kills, killing(t, e, b, id, 20*tick))
		}
		if _, err := writer.Create("/meanwhile", nil, jute.Persistent); err != nil {
			t.Error(err)
		}
		for _, killed := range kills {
			if err := <-killed; err != nil {
				t.Fatal(err)
			}
		}
		e.Equal()
		if ends := endsOf(e, leader); len(ends) != sessions {
			t.Errorf("%d ends", len(ends))
		}
	})
}
