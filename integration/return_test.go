package integration

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// A member that starts again serves half a second after it has begun to listen, however long it was
// away. The leader finds it at once, and it finds the leader.
func TestReturningMemberServes(t *testing.T) {
	for _, away := range []time.Duration{6 * time.Second, 15 * time.Second, 45 * time.Second} {
		for _, who := range []string{"follower", "leader"} {
			t.Run(fmt.Sprintf("%s/%v", who, away), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second})
					id := e.Ready()
					if who == "follower" {
						id = e.Followers()[0]
					}
					e.Kill(id)
					writer, _ := e.Open(e.Leader(), 40*time.Second)
					for i := range int(away / time.Second) {
						if code := create(t, writer, int32(i+1), fmt.Sprint("/", i), jute.Persistent); code != jute.OK {
							t.Fatal(code)
						}
						time.Sleep(time.Second)
					}
					begin := time.Now()
					e.Boot(id)
					for e.Member(id).Role() == "" {
						time.Sleep(time.Millisecond)
					}
					serves := time.Since(begin)
					e.Open(id, 10*time.Second)
					opens := time.Since(begin)
					t.Logf("serves after %v, opens after %v", serves, opens)
					if opens > 500*time.Millisecond {
						t.Errorf("a session was opened %v after the member began to listen", opens)
					}
				})
			})
		}
	}
}

// Followers are killed or stopped, and started again, in turn, each half a second after the other
// one has come back. A write waits no longer than a member takes to be reached.
func TestFollowersRestartInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Tick: 2 * time.Second})
		e.Ready()
		rest := e.Followers()
		writer, _ := e.Open(e.Leader(), 40*time.Second)
		over, longest := make(chan struct{}), make(chan time.Duration)
		go func() {
			var most time.Duration
			for i := int32(1); ; i++ {
				select {
				case <-over:
					longest <- most
					return
				case <-time.After(20 * time.Millisecond):
				}
				begin := time.Now()
				if code := create(t, writer, i, fmt.Sprint("/", i), jute.Persistent); code != jute.OK {
					t.Errorf("create: %v", code)
				}
				most = max(most, time.Since(begin))
			}
		}()
		down := []func(uint32){e.Kill, e.Stop}
		e.Kill(rest[0])
		for i := range 8 {
			back, next := rest[i%2], rest[(i+1)%2]
			time.Sleep(time.Duration(1+3*i) * time.Second)
			e.Boot(back)
			time.Sleep(500 * time.Millisecond)
			down[i%2](next)
		}
		time.Sleep(time.Second)
		close(over)
		if most := <-longest; most > time.Second {
			t.Errorf("a write took %v", most)
		}
	})
}

// A follower on a narrow link receives large nodes as fast as the link allows, and the leader stays
// leader. The follower may have been away before. Meanwhile the clients of other members write
// undisturbed. The clients of the follower wait until it has caught up, and keep their sessions.
func TestFollowerOnANarrowLink(t *testing.T) {
	t.Parallel()
	const (
		rate    = 2_500_000 // bytes a second
		nodes   = 32
		size    = 1_000_000
		timeout = 10 * tick
		// least is the time that the link takes, and most is the time that the follower may take.
		least = time.Duration(nodes*size) * time.Second / rate
		most  = least * 3 / 2
	)
	for _, away := range []bool{true, false} {
		t.Run(fmt.Sprintf("away=%t", away), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := cluster.Start(t, 3, cluster.Options{})
				leader := e.Ready()
				late := e.Followers()[0]
				if away {
					e.Kill(late)
				}
				between(func(from, to uint32) { e.Network.LimitRate(from, to, rate) }, leader, late)
				clients := map[uint32]*cluster.Client{}
				for _, id := range append(e.Followers(), leader) {
					if id != late {
						clients[id] = withEphemeral(t, e, timeout, id)
					}
				}
				if !away {
					clients[late] = withEphemeral(t, e, timeout, late)
				}
				c, _ := e.Open(leader, 20*tick)
				for i := range int32(nodes) {
					r, _, err := c.Call(i+1, jute.OpCreate, &jute.CreateRequest{Path: fmt.Append(nil, "/", i), Data: make([]byte, size), ACL: jute.OpenACL})
					if err != nil || r.Err != jute.OK {
						t.Fatalf("create: %v, %v", r.Err, err)
					}
				}
				if away {
					e.Boot(late)
				}
				begin := time.Now()
				written := map[uint32]chan time.Duration{}
				for id, client := range clients {
					done := make(chan time.Duration, 1)
					written[id] = done
					go func() {
						if _, err := insist(client, fmt.Sprint("/by", id)); err != nil {
							t.Errorf("write of a client of member %d: %v", id, err)
						}
						done <- time.Since(begin)
					}()
				}
				e.Wait("the follower to have all nodes", 60*tick, func() bool { return has(e, late, fmt.Sprint("/", nodes-1)) })
				if took := time.Since(begin); took > most {
					t.Errorf("caught up in %v, which the link allows in %v", took, least)
				}
				for id, client := range clients {
					limit := tick
					if id == late {
						limit = most
					}
					took := <-written[id]
					t.Logf("client of member %d: %v, disconnects %d", id, took, client.Disconnects())
					if took > limit {
						t.Errorf("a client of member %d waits %v for a write, want at most %v", id, took, limit)
					}
					if id != late && client.Disconnects() > 0 {
						t.Errorf("a client of member %d lost its connection", id)
					}
					if _, err := client.Exists(fmt.Sprint("/of", id), false); err != nil || client.Err() != nil {
						t.Errorf("a client of member %d: its ephemeral node: %v; its session: %v", id, err, client.Err())
					}
				}
				alive(t, c, nodes+1, "/z")
				if now := e.Leader(); now != leader {
					t.Errorf("member %d leads, not %d", now, leader)
				}
				e.Ready()
				e.Equal()
			})
		})
	}
}

// withEphemeral connects a client to one member and lets it create a node that lives as long as its
// session.
func withEphemeral(t *testing.T, e *cluster.Ensemble, timeout time.Duration, id uint32) *cluster.Client {
	t.Helper()
	client := e.Connect(timeout, id)
	if _, err := client.Create(fmt.Sprint("/of", id), nil, jute.Ephemeral); err != nil {
		t.Fatal(err)
	}
	return client
}
