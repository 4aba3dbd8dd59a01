package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// waysOf are all ways in which a port can be shut.
var waysOf = map[string]cluster.Ways{
	"in": cluster.In, "out": cluster.Out, "both": cluster.In | cluster.Out,
	"in, silently": cluster.In | cluster.Silent, "out, silently": cluster.Out | cluster.Silent,
	"both, silently": cluster.In | cluster.Out | cluster.Silent,
}

// syncLimit is the default, in ticks.
const syncLimit = 5

// A leader's gRPC port fails, in one direction or both, while raft's port works. The leader
// transfers leadership once, after the sync limit. Clients can then write through all members that
// the next leader can serve.
func TestLeaderWithoutItsPort(t *testing.T) {
	t.Parallel()
	for name, ways := range waysOf {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tick = time.Second
				var seen terms
				e := cluster.Start(t, 3, cluster.Options{Tick: tick, Events: seen.hear})
				e.Ready()
				e.Joined()
				shut, others := e.Leader(), e.Followers()
				var clients []*cluster.Client
				for _, id := range others {
					clients = append(clients, e.Connect(20*tick, id, others[0], others[1]))
				}
				before := len(seen.all())
				e.Shut(shut, cluster.GRPCPort, ways)
				begun := time.Now()
				e.Wait("another leader", (syncLimit+3)*tick, func() bool {
					return len(leaders(e)) == 1 && leaders(e)[0] != shut
				})
				for i, c := range clients {
					if _, err := c.Create(fmt.Sprint("/after", i), nil, jute.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				if took := time.Since(begun); took > (syncLimit+4)*tick {
					t.Errorf("writes took until %v after the port was shut, want at most %d ticks of %v", took, syncLimit+4, tick)
				}
				time.Sleep(60 * tick)
				if n := len(seen.all()) - before; n != 1 {
					t.Errorf("%d changes of leader, want one", n)
				}
				e.Unshut(shut, cluster.GRPCPort, ways)
				e.Ready()
				e.Equal()
			})
		})
	}
}

// If a follower's gRPC port fails, the leader is not affected. The follower's clients find a member
// through which they can write.
func TestFollowerWithoutItsPort(t *testing.T) {
	t.Parallel()
	for name, ways := range waysOf {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tick = time.Second
				var seen terms
				e := cluster.Start(t, 3, cluster.Options{Tick: tick, Events: seen.hear})
				e.Ready()
				e.Joined()
				shut := e.Followers()[0]
				here := e.Connect(20*tick, shut, e.Leader(), e.Followers()[1])
				there := e.Connect(10*tick, e.Followers()[1])
				before := len(seen.all())
				e.Shut(shut, cluster.GRPCPort, ways)
				begun := time.Now()
				if _, err := here.Create("/here", nil, jute.Persistent); err != nil { // its old connection was closed
					if _, err := here.Create("/again", nil, jute.Persistent); err != nil {
						t.Fatalf("write of the shut member's client: %v", err)
					}
				}
				if took := time.Since(begun); took > (syncLimit+2)*tick {
					t.Errorf("it took %v for a client of the shut member to write, want at most %d ticks of %v", took, syncLimit+2, tick)
				}
				for i := range 60 {
					time.Sleep(tick)
					if _, err := there.Create(fmt.Sprint("/there", i), nil, jute.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				if there.Disconnects() != 0 {
					t.Errorf("a client of another member lost its connection %d times", there.Disconnects())
				}
				if n := len(seen.all()) - before; n != 0 {
					t.Errorf("%d changes of leader, want none", n)
				}
			})
		})
	}
}

// If no member would be a better leader, leadership does not move around for ever. With all gRPC
// ports shut, each member is tried, and then leaders stay for a while. When the ports open, one
// serves.
func TestNobodyCanDoBetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick, rounds = time.Second, 4
		var seen terms
		e := cluster.Start(t, 3, cluster.Options{Tick: tick, Events: seen.hear})
		e.Ready()
		e.Joined()
		c := e.Connect(20 * tick)
		before := len(seen.all())
		for _, id := range e.IDs() {
			e.Shut(id, cluster.GRPCPort, cluster.In)
		}
		const rest = 6 * syncLimit * tick // for which a member that has led is not tried again
		time.Sleep(rounds * rest)
		tried := map[uint32]bool{}
		for _, o := range seen.all()[before:] {
			tried[o.Member] = true
		}
		if n := len(seen.all()) - before; n > rounds*2+1 || len(tried) != 3 {
			t.Errorf("%d changes of leader in %v, of %d members; want each of 3 tried, and at most 2 changes in %v",
				n, rounds*rest, len(tried), rest)
		}
		for _, id := range e.IDs() {
			e.Unshut(id, cluster.GRPCPort, cluster.In)
		}
		e.Ready()
		c.Abandon()
		c = e.Connect(20 * tick)
		if _, err := c.Create("/after", nil, jute.Persistent); err != nil {
			t.Fatal(err)
		}
		e.Equal()
	})
}

// With one of three members down, or one link cut, no leader transfers leadership: no other member
// is better.
func TestNoHandOverWithoutNeed(t *testing.T) {
	for name, do := range map[string]func(e *cluster.Ensemble){
		"a follower down":  func(e *cluster.Ensemble) { e.Kill(e.Followers()[0]) },
		"a follower apart": func(e *cluster.Ensemble) { e.Isolate(e.Followers()[0]) },
		"a follower paused": func(e *cluster.Ensemble) {
			id := e.Followers()[0]
			e.Pause(id)
			time.AfterFunc(20*time.Second, func() { e.Resume(id) })
		},
		"a follower wiped, its log late": func(e *cluster.Ensemble) {
			id, leader := e.Followers()[0], e.Leader()
			e.Kill(id)
			e.Wipe(id)
			e.Boot(id)
			e.BlockLog(leader, id)
			time.AfterFunc(20*time.Second, func() { e.UnblockLog(leader, id) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const tick = time.Second
				var seen terms
				e := cluster.Start(t, 3, cluster.Options{Tick: tick, Events: seen.hear})
				leader := e.Ready()
				e.Joined()
				c := e.Connect(10*tick, leader)
				before := len(seen.all())
				do(e)
				for i := range 60 {
					time.Sleep(tick)
					if _, err := c.Create(fmt.Sprint("/n", i), nil, jute.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				if n := len(seen.all()) - before; n != 0 {
					t.Errorf("%d changes of leader, want none", n)
				}
			})
		})
	}
}
