package member_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
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
