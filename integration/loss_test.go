package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/lab/simulated"
	"rollcall/member"
)

const (
	// losses is the number of runs that lose packets. ROLLCALL_SCHEDULES sets another number.
	losses = 8
	// losing is the share of runs in which sessions may expire: three of eight. Elections and clients follow chance, too, and the
	// sessions of a member expire together: some did in about one of 40 runs, and with one connection to each member in six of ten.
	losing = 3. / 8
)

// The connections on which members ping and forward writes lose 30 % of their packets. The log's connections lose none,
// so one leader decides all the time which sessions live. Hardly any session of a live client expires. That needs two
// connections to each member, and attempts to connect that overlap: with one connection, which was replaced when it was
// silent for a tick, sessions expired in six of ten runs.
func TestSessionsWhilePacketsAreLost(t *testing.T) {
	t.Parallel()
	lost, seeds := 0, seedsToRun(t, losses)
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if loseForAMinute(t, simulated.Loss{Share: 0.3, Seed: seed, Steady: 6, Port: ":2888"}) > 0 {
					lost++
				}
			})
		})
	}
	if most := int(losing * float64(len(seeds))); lost > most {
		t.Errorf("sessions expired in %d of %d runs, want %d at most", lost, len(seeds), most)
	}
}

// loseForAMinute returns the number of sessions of 50 clients that expire while members lose packets of each other.
func loseForAMinute(t *testing.T, loss simulated.Loss) (expired int) {
	const sessions, tick, timeout = 50, 500 * time.Millisecond, 3 * time.Second
	e := cluster.Start(t, 3, cluster.Options{Tick: tick, Write: time.Millisecond, Adjust: func(cfg *member.Config) {
		cfg.HeartbeatTimeout = 300 * time.Millisecond
	}})
	e.Ready()
	e.Joined()
	var clients []*cluster.Client
	for i := range sessions {
		clients = append(clients, e.Connect(timeout, orders[i%len(orders)]...))
		time.Sleep(timeout / 3 / sessions) // between their pings
	}
	for _, from := range e.IDs() {
		for _, to := range e.IDs() {
			if from != to {
				e.Network.Lose(from, to, loss)
			}
		}
	}
	time.Sleep(time.Minute)
	for _, c := range clients {
		if err := c.Err(); err != nil {
			expired++
			t.Logf("session %v: %v", c.Session(), err)
		}
	}
	return expired
}

// orders are the orders in which clients try three members.
var orders = [][]uint32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 1, 3}, {3, 2, 1}}
