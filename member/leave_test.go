package member_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/operator/logs/logtest"
	"rollcall/zk/jute"
)

// A leader that is told to stop hands over first. Its clients' connections are closed only when
// another member leads, and not all at once.
func TestLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, drain = 8, 4 * time.Second
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.DrainTime = drain }})
		old := e.Ready()
		e.Joined()
		rest := []*member.Member{e.Member(e.Followers()[0]), e.Member(e.Followers()[1])}
		var conns []*wire.Conn
		for range clients {
			c, _ := e.Open(old, 20*time.Second)
			conns = append(conns, c)
		}
		begin := time.Now()
		closed := make(chan time.Duration)
		for _, c := range conns {
			go func() {
				if err := c.Closed(2 * drain); err != nil {
					t.Error(err)
				}
				closed <- time.Since(begin)
			}()
		}
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			e.Stop(old)
		}()
		for i := range clients {
			at := <-closed
			synctest.Wait() // the new leader may begin its term in the very instant in which the client is closed
			if i == 0 && !slices.ContainsFunc(rest, func(m *member.Member) bool { return m.Role() == "leader" }) {
				t.Errorf("a client is closed after %v, and nobody else leads", at)
			}
			if least := drain * time.Duration(i) / clients; at < least {
				t.Errorf("client %d is closed after %v, want %v at least", i+1, at, least)
			}
		}
		<-stopped
		e.Boot(old)
		e.Ready()
	})
}

// shownDrained returns which members call themselves drained, as every member shows them.
func shownDrained(t *testing.T, e *cluster.Ensemble) []uint32 {
	t.Helper()
	var first []uint32
	for _, at := range e.IDs() {
		var got []uint32
		a, err := e.Member(at).View().MemberStatuses(t.Context())
		if err != nil || len(a.Silent) > 0 {
			t.Fatalf("member %d: %v, silent: %v", at, err, a.Silent)
		}
		for _, row := range a.Items {
			if row.IsDrained {
				got = append(got, row.MemberID)
			}
		}
		if at != e.IDs()[0] && !slices.Equal(got, first) {
			t.Errorf("member %d shows members %v as drained, and another %v", at, got, first)
		}
		first = got
	}
	return first
}

// A member that is drained hands over, takes no client any more, and closes the connections of those that
// it has. It goes on as a follower, whose state is that of the others.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, over = 4, 2 * time.Second
		all := operators{}
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { all.listen(cfg) }})
		old := e.Ready()
		e.Joined()
		var conns []*wire.Conn
		for range clients {
			c, _ := e.Open(old, 20*time.Second)
			conns = append(conns, c)
		}
		if got := shownDrained(t, e); len(got) != 0 {
			t.Errorf("drained before: members %v", got)
		}
		begin := time.Now()
		if n, leads := e.Member(old).Drain(t.Context(), over); n != clients || leads || time.Since(begin) < over*(clients-1)/clients {
			t.Errorf("closed %d connections in %v, leads: %t", n, time.Since(begin), leads)
		}
		for _, c := range conns {
			if err := c.Closed(time.Second); err != nil {
				t.Error(err)
			}
		}
		if got := shownDrained(t, e); !slices.Equal(got, []uint32{old}) {
			t.Errorf("drained: members %v, want %d", got, old)
		}
		e.Wait("the drained member follows another one", time.Minute, func() bool { return e.Member(old).Role() == "follower" })
		if status, text := all.get(t, old, "/readyz"); status != 503 {
			t.Errorf("readyz: %d %s", status, text)
		}
		if text, serves := e.Member(old).Health().StatusText(); serves || !strings.Contains(text, "drained") {
			t.Errorf("its health: %s, serves: %t", text, serves)
		}
		if status, text := all.get(t, old, "/livez"); status != 200 {
			t.Errorf("livez: %d %s", status, text)
		}
		if n, leads := e.Member(old).Drain(t.Context(), over); n != 0 || leads {
			t.Errorf("closed %d connections more, leads: %t", n, leads)
		}
		c := e.Connect(20*time.Second, e.Leader())
		if _, err := c.Create("/x", nil, jute.Persistent); err != nil {
			t.Error(err)
		}
		e.Equal()
	})
}

// A drain tries to hand over until a follower can take over, at least for some seconds.
func TestDrainWaitsForAnHeir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, old, heir := drained(t, slog.DiscardHandler)
		done := make(chan bool)
		begin := time.Now()
		go func() {
			_, leads := e.Member(old).Drain(t.Context(), time.Millisecond)
			done <- leads
		}()
		time.Sleep(3 * time.Second)
		if e.Member(old).Role() != "leader" {
			t.Fatal("leadership is gone already")
		}
		e.Resume(heir)
		if leads := <-done; leads || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: leads: %t", time.Since(begin), leads)
		}
		e.Wait("the heir leads", time.Minute, func() bool { return e.Leader() == heir })
	})
}

// A drain whose attempts to hand over have ended without an heir ends later, with the last of its clients. If an heir has come
// by then, it reports that the member does not lead any more.
func TestDrainFindsAnHeirMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, old, heir := drained(t, slog.DiscardHandler)
		const over = 30 * time.Second
		for range 2 {
			e.Connect(20*time.Second, old)
		}
		time.AfterFunc(over+time.Second, func() { e.Resume(heir) }) // when the first attempts have ended
		if n, leads := e.Member(old).Drain(t.Context(), over); n != 2 || leads || e.Leader() != heir {
			t.Errorf("closed %d connections, leads: %t; member %d leads", n, leads, e.Leader())
		}
	})
}

// A member takes no client and is shown as drained from the first moment of a drain or a stop, while it still
// tries to hand over. The clients that it has keep their connections until then.
func TestDrainTakesNoClientWhileItHandsOver(t *testing.T) {
	for name, leave := range map[string]func(ctx context.Context, e *cluster.Ensemble, id uint32){
		"drain": func(ctx context.Context, e *cluster.Ensemble, id uint32) { e.Member(id).Drain(ctx, 0) },
		"stop":  func(_ context.Context, e *cluster.Ensemble, id uint32) { e.Stop(id) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, old, heir := drained(t, slog.DiscardHandler)
				before, _ := e.Open(old, 20*time.Second)
				over := make(chan struct{})
				go func() {
					defer close(over)
					leave(t.Context(), e, old)
				}()
				synctest.Wait() // it waits for the heir, which is stopped
				if text, _ := e.Member(old).Health().StatusText(); e.Member(old).Role() != "leader" || !strings.Contains(text, "drained") {
					t.Errorf("%s, and its health: %q; want a leader that is drained", e.Member(old).Role(), text)
				}
				if c, err := e.Dial(old); err == nil {
					if resp, err := c.Open(20 * time.Second); err == nil {
						t.Errorf("a new client got session %v", resp.SessionID)
					}
				}
				if _, _, err := before.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/x")}); err != nil {
					t.Errorf("the client that it had: %v", err)
				}
				e.Resume(heir)
				<-over
			})
		})
	}
}

// A leader that is drained just when a follower has stopped hands over to the other one, whose turn comes at the latest
// after the stopped one has been tried.
func TestDrainPassesAStoppedMember(t *testing.T) {
	for i := range 2 {
		synctest.Test(t, func(t *testing.T) {
			e := cluster.Start(t, 3, cluster.Options{})
			old := e.Ready()
			e.Joined()
			stopped := e.Followers()[i]
			e.Pause(stopped)
			if _, leads := e.Member(old).Drain(t.Context(), 0); leads {
				t.Errorf("member %d still leads, with %d stopped", old, stopped)
			}
			e.Resume(stopped)
		})
	}
}

// A drained member that leads, because no other one could, hands over when another one can. It logs one line
// when it fails, and one when it succeeds.
func TestDrainedLeaderHandsOverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		e, old, heir := drained(t, slog.NewTextHandler(&log, nil))
		if _, leads := e.Member(old).Drain(t.Context(), time.Millisecond); !leads {
			t.Fatal("the drained member does not lead")
		}
		time.Sleep(time.Minute)
		if e.Member(old).Role() != "leader" {
			t.Fatal("leadership is gone already")
		}
		e.Resume(heir)
		e.Wait("the heir leads", 2*time.Minute, func() bool { return e.Leader() == heir })
		time.Sleep(time.Second) // the drained member looks every few milliseconds whether it still leads
		for want, n := range map[string]int{"this member is drained and leads": 1, "this member is drained and was the leader": 1} {
			if got := strings.Count(log.String(), want); got != n {
				t.Errorf("logged %q %d times, want %d:\n%s", want, got, n, log.String())
			}
		}
	})
}

// drained starts three members of which only the leader can lead: one of the others is drained, and the heir is
// stopped.
func drained(t *testing.T, log slog.Handler) (e *cluster.Ensemble, leader, heir uint32) {
	e = cluster.Start(t, 3, cluster.Options{Logger: func(uint32) *slog.Logger { return slog.New(log) }})
	leader = e.Ready()
	e.Joined()
	heir = e.Followers()[0]
	if n, leads := e.Member(e.Followers()[1]).Drain(t.Context(), 0); n != 0 || leads {
		t.Fatalf("a follower closed %d connections, leads: %t", n, leads)
	}
	e.Pause(heir)
	time.Sleep(10 * time.Second) // the leader knows that it does not answer: nothing that it would send waits for Resume
	return e, leader, heir
}

// Any member is asked for the drain of another one. It hands leadership over, and its clients go on elsewhere.
func TestDrainByAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{})
		old := e.Ready()
		asked := e.Followers()[0]
		c := e.Connect(20*time.Second, old, asked)
		if _, err := c.Create("/held", nil, jute.Ephemeral); err != nil {
			t.Fatal(err)
		}
		session := c.Session()
		ops := e.Member(asked).Operations()
		closed, leads, err := ops.DrainMember(t.Context(), old, time.Second, "alice")
		if err != nil || closed != 1 || leads {
			t.Errorf("%d connections closed, leads %t, %v", closed, leads, err)
		}
		if got := shownDrained(t, e); !slices.Equal(got, []uint32{old}) || e.Leader() == old {
			t.Errorf("drained: %v, want %d; member %d leads", got, old, e.Leader())
		}
		e.Wait("the client to go on elsewhere", 20*time.Second, func() bool {
			_, err := c.Exists("/held", false) // the first one may be under way when the connection ends
			return err == nil
		})
		if c.Session() != session {
			t.Error("the client has lost its session")
		}
		if closed, leads, err := ops.DrainMember(t.Context(), asked, 0, "alice"); err != nil || leads {
			t.Errorf("its own drain: %d connections closed, leads %t, %v", closed, leads, err)
		}
		_, _, err = ops.DrainMember(t.Context(), 9, 0, "alice")
		failed(t, err, http.StatusNotFound, "the ensemble has no member 9")
		e.Kill(old)
		_, _, err = ops.DrainMember(t.Context(), old, 0, "alice")
		failed(t, err, http.StatusServiceUnavailable, fmt.Sprintf("member %d does not reply", old))
	})
}
