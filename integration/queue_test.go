package integration

import (
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// A leader and a follower crash when the follower's disk has an entry and the leader's does not. The leader comes back
// first, and leads with the third member, without that entry. So no client may have seen the entry, neither the leader's
// nor the follower's.
func TestLeaderLosesItsQueue(t *testing.T) {
	for _, through := range []string{"leader", "follower"} {
		t.Run("through the "+through, func(t *testing.T) {
			ensemble(t, func(t *testing.T, e *cluster.Ensemble, leader, a, b uint32) {
				home := map[string]uint32{"leader": leader, "follower": a}[through]
				c := e.Connect(20*tick, home)
				write(t, c, "/before", 3, nil)
				e.Isolate(b)
				e.Disk(leader).SetLatency(tick)
				call := c.Go(jute.OpCreate, &jute.CreateRequest{Path: []byte("/queued"), ACL: jute.OpenACL})
				answered := make(chan error, 1)
				go func() {
					_, err := call.Wait()
					answered <- err
				}()
				e.Wait("the follower's disk to have more than the leader's", tick, func() bool {
					return len(e.Disk(a).Log()) > len(e.Disk(leader).Log())
				})
				time.Sleep(tick / 2) // nothing is on its way any more
				if len(e.Disk(a).Log()) == len(e.Disk(leader).Log()) {
					t.Fatal("the leader's disk has the entry: this test shows nothing")
				}
				select {
				case err := <-answered:
					t.Errorf("answered with %v before the leader's disk had it", err)
				default:
				}
				if has(e, leader, "/queued") || has(e, a, "/queued") {
					t.Error("applied before the leader's disk had it")
				}
				c.Abandon()
				e.Kill(leader)
				e.Kill(a)
				e.Disk(leader).SetLatency(0)
				e.Rejoin(b)
				e.Boot(leader)
				e.Ready()
				if has(e, leader, "/queued") || !has(e, leader, "/before2") {
					t.Error("the entry is not lost, or another one is: this test shows nothing")
				}
				e.Boot(a)
				e.Ready()
				e.Equal()
			})
		})
	}
}
