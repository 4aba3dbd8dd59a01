package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// The network forgets a connection without notifying either end. The connection is given up after a tick without a
// reply, whether it carries pings and proofs, writes, or the log. No session suffers meanwhile.
//
// A write waits as long as its own connection takes; pings are not involved. The log's connection is given up a tick
// after the last reply. The connection on which writes are forwarded is probed twice a tick, and each probe may take a
// tick: a tick and a half together.
func TestForgottenFlows(t *testing.T) {
	const (
		tick = 2 * time.Second
		// again is the time for a new connection and the write itself. The longest of 320 took 160
		// ms.
		again = tick / 4
	)
	for name, tt := range map[string]struct {
		most   time.Duration // the longest time that a write takes
		forget func(e *cluster.Ensemble, leader, follower uint32)
	}{
		"pings":  {again, func(e *cluster.Ensemble, leader, follower uint32) { e.ForgetFlows(leader, follower, cluster.GRPCPort) }},
		"writes": {tick*3/2 + again, func(e *cluster.Ensemble, leader, follower uint32) { e.ForgetFlows(follower, leader, cluster.GRPCPort) }},
		"log":    {tick + again, func(e *cluster.Ensemble, leader, follower uint32) { e.ForgetFlows(leader, follower, cluster.RaftPort) }},
		"all": {tick*3/2 + again, func(e *cluster.Ensemble, leader, follower uint32) {
			e.ForgetFlows(leader, follower, cluster.GRPCPort|cluster.RaftPort)
			e.ForgetFlows(follower, leader, cluster.GRPCPort|cluster.RaftPort)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{Tick: tick})
				e.Ready()
				e.Joined()
				leader := e.Leader()
				c := e.Connect(3*tick, e.Followers()[0])
				var longest time.Duration
				for i := range 100 {
					if i == 20 {
						for _, follower := range e.Followers() {
							tt.forget(e, leader, follower)
						}
					}
					begun := time.Now()
					if _, err := c.Create(fmt.Sprint("/n", i), nil, jute.Persistent); err != nil {
						t.Fatal(err)
					}
					longest = max(longest, time.Since(begun))
					time.Sleep(tick / 10)
				}
				t.Logf("longest write: %v", longest)
				if longest > tt.most {
					t.Errorf("a write took %v, want at most %v, with a tick of %v", longest, tt.most, tick)
				}
				if c.Disconnects() != 0 {
					t.Errorf("the client lost its connection %d times", c.Disconnects())
				}
			})
		})
	}
}
