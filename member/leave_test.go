package member_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/jute"
	"rollcall/member"
)

// A leader that is told to stop hands over first. Its clients' connections are closed only when
// another member leads, and not all at once.
func TestLeaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, drain = 8, 4 * time.Second
		e := cluster.Start(t, 3, cluster.Options{Adjust: func(cfg *member.Config) { cfg.Drain = drain }})
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
		begin := time.Now()
		if n, leads := e.Member(old).Drain(t.Context(), over); n != clients || leads || time.Since(begin) < over*(clients-1)/clients {
			t.Errorf("closed %d connections in %v, leads: %t", n, time.Since(begin), leads)
		}
		for _, c := range conns {
			if err := c.Closed(time.Second); err != nil {
				t.Error(err)
			}
		}
		e.Wait("the drained member follows another one", time.Minute, func() bool { return e.Member(old).Role() == "follower" })
		if status, text := all.get(t, old, "/readyz"); status != 503 {
			t.Errorf("readyz: %d %s", status, text)
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
