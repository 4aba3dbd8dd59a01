package member_test

import (
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
	"rollcall/operator/admin"
	"rollcall/zk/jute"
)

// totalClients returns how many clients each member has, as member 1 shows it.
func totalClients(t *testing.T, e *cluster.Ensemble) map[uint32]int {
	t.Helper()
	a, err := e.Member(1).View().MemberStatuses(t.Context())
	if err != nil || len(a.Silent) > 0 {
		t.Fatalf("%v, silent: %v", err, a.Silent)
	}
	clients := map[uint32]int{}
	for _, row := range a.Items {
		clients[row.MemberID] = row.Sessions
	}
	return clients
}

// crowd connects clients to one member, and returns the sessions of those that know the others, too.
func crowd(e *cluster.Ensemble, home uint32, n int) map[*cluster.Client]jute.SessionID {
	var order []uint32
	for _, id := range e.IDs() {
		if id != home {
			order = append(order, id)
		}
	}
	sessions := map[*cluster.Client]jute.SessionID{}
	for i := range n {
		c := e.Connect(20*time.Second, home, order[i%2], order[1-i%2])
		sessions[c] = c.Session()
	}
	return sessions
}

// A rebalance moves the clients of a member that has too many, with their sessions, at the rate that was asked for, in rounds. One is
// under way at a time.
func TestRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		home, asked := e.Followers()[0], e.Followers()[1]
		sessions := crowd(e, home, 12)
		second := make(chan error, 1)
		go func() {
			time.Sleep(time.Second)
			_, err := e.Member(asked).Operations().Rebalance(t.Context(), 1, "another")
			second <- err
		}()
		begun := time.Now()
		done, err := e.Member(asked).Operations().Rebalance(t.Context(), 1, "a test")
		took := time.Since(begun)
		if err != nil || !done.Balanced || done.ClosedConnections != 8 || len(done.Members) != 3 || took < 9500*time.Millisecond || took > 15*time.Second {
			t.Errorf("%+v in %v: %v", done, took, err)
		}
		for _, m := range done.Members {
			before, closed := 0, 0
			if m.Member == home {
				before, closed = 12, 8
			}
			if m.ClientsBefore != before || m.ClientsAfter != 4 || m.ClosedConnections != closed || m.FailureReason != "" {
				t.Errorf("member %d: %+v", m.Member, m)
			}
		}
		if f, ok := errors.AsType[*admin.Failure](<-second); !ok || f.Status != http.StatusConflict {
			t.Errorf("a second one: %v", f)
		}
		for c, id := range sessions {
			if c.Session() != id {
				t.Errorf("session %v became %v", id, c.Session())
			}
		}
	})
}

// A member closes a share of its connections, rounded up, and their clients move with their sessions. While it closes some for a rebalance, it
// refuses.
func TestShedConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		home, asked := e.Followers()[0], e.Followers()[1]
		sessions := crowd(e, home, 12)
		for _, step := range []struct{ percentage, closed, left int }{{0, 0, 12}, {30, 4, 8}, {100, 8, 0}} {
			closed, err := e.Member(home).Operations().ShedConnections(t.Context(), step.percentage)
			time.Sleep(2 * time.Second)
			got := totalClients(t, e)
			if err != nil || closed != step.closed || got[home] != step.left || got[1]+got[2]+got[3] != 12 {
				t.Errorf("%d %%: %d closed, %v, clients %v; want %d and %d", step.percentage, closed, err, got, step.closed, step.left)
			}
		}
		for c, id := range sessions {
			if c.Session() != id || c.Disconnects() != 1 {
				t.Errorf("session %v became %v after %d disconnections", id, c.Session(), c.Disconnects())
			}
		}
		crowd(e, home, 12)
		go func() { _, _ = e.Member(asked).Operations().Rebalance(t.Context(), 1, "a test") }()
		time.Sleep(2 * time.Second)
		_, err := e.Member(home).Operations().ShedConnections(t.Context(), 30)
		if f, ok := errors.AsType[*admin.Failure](err); !ok || f.Status != http.StatusConflict {
			t.Errorf("during a rebalance: %v", err)
		}
	})
}

// Clients that know one member alone come back to it. Then a rebalance ends, and says that it was in vain.
func TestRebalanceInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		e.Ready()
		e.Joined()
		home := e.Followers()[0]
		for range 6 {
			e.Connect(20*time.Second, home)
		}
		begun := time.Now()
		done, err := e.Member(home).Operations().Rebalance(t.Context(), 1000, "a test")
		if took := time.Since(begun); err != nil || done.Balanced || done.ClosedConnections != 12 || totalClients(t, e)[home] != 6 || took > time.Minute {
			t.Errorf("%+v in %v: %v", done, took, err)
		}
	})
}

// With autoRebalance the leader has members with clearly too many clients close connections, slowly. It leaves them alone while a
// member is down.
func TestAutoRebalance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.AutoRebalance = 1 }})
		e.Ready()
		e.Joined()
		home, down := e.Followers()[0], e.Followers()[1]
		e.Kill(down)
		sessions := crowd(e, home, 21)
		moves := func() (n int) {
			for c := range sessions {
				n += c.Disconnects()
			}
			return n
		}
		time.Sleep(3 * time.Minute)
		if n := moves(); n != 0 {
			t.Errorf("%d clients are moved while a member is down", n)
		}
		e.Boot(down)
		e.Ready()
		e.Joined()
		e.Wait("the first client to be moved", 3*time.Minute, func() bool { return moves() > 0 })
		time.Sleep(5 * time.Second)
		if n := moves(); n > 7 {
			t.Errorf("%d clients are moved in about 5 s, want one in a second", n)
		}
		time.Sleep(2 * time.Minute)
		if got := totalClients(t, e); moves() != 14 || got[home] != 7 || got[1]+got[2]+got[3] != 21 {
			t.Errorf("%d moved: %v", moves(), got)
		}
	})
}

// A leader leaves clients alone in the first interval of its term, in which those that an election has moved come back, and
// a member that led does not go on with it.
func TestAutoRebalanceAfterAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.AutoRebalance = 1 }})
		e.Ready()
		e.Joined()
		until := func(intervals float64) {
			time.Sleep(time.Until(begun.Add(time.Duration(intervals * float64(time.Minute)))))
		}
		until(1.5)
		next := e.Followers()[0]
		if err := e.Member(e.Leader()).HandOverTo(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		e.Wait("another leader", time.Minute, func() bool { return e.Leader() == next })
		sessions := crowd(e, next, 21)
		moves := func() (n int) {
			for c := range sessions {
				n += c.Disconnects()
			}
			return n
		}
		until(2.5)
		if n := moves(); n != 0 {
			t.Errorf("%d clients are moved in the first interval of a term", n)
		}
		until(3.5)
		if moves() == 0 {
			t.Error("no client is moved in the second interval of a term")
		}
	})
}
