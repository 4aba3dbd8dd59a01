package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/member"
	"rollcall/zk/jute"
)

// Members on links of 25 and 50 ms each way keep their leader with the default timeouts: no round trip is taken for a silence.
func TestSlowLinksDeposeNobody(t *testing.T) {
	t.Parallel()
	minutes := needs.Amount(2, 10, 60)
	for _, delay := range []time.Duration{25 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(fmt.Sprint(delay), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const silence = 300 * time.Millisecond // of failover=normal
				e := cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second, Adjust: func(cfg *member.Config) { cfg.HeartbeatTimeout = silence }})
				leader := e.Ready()
				for _, a := range e.IDs() {
					for _, b := range e.IDs() {
						if a != b {
							e.Network.DelayBy(a, b, delay)
						}
					}
				}
				before := term(e, leader).Term
				c := e.Connect(20*time.Second, e.Followers()[0])
				for i := range minutes * 60 {
					if _, err := c.Create(fmt.Sprintf("/%d", i), nil, jute.Persistent); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
				}
				if now := term(e, leader).Term; e.Leader() != leader || now != before {
					t.Errorf("member %d leads in term %d after %d minutes, want member %d in term %d", e.Leader(), now, minutes, leader, before)
				}
			})
		})
	}
}
