package integration

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// With linearizable reads, a member that does not get the log answers a read only when it has
// caught up with the writes that other members have acknowledged. A member that has lost its leader
// answers no read.
func TestLinearizableReadOnALaggingMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := cluster.Start(t, 3, cluster.Options{Linear: true})
		leader := e.Ready()
		a := e.Followers()[0]
		c, _ := e.Open(a, 10*tick)
		writer, _ := e.Open(leader, 10*tick)
		alive(t, writer, 1, "/before")
		e.Equal()
		e.BlockLog(leader, a)
		alive(t, writer, 2, "/after")
		time.AfterFunc(tick, func() { e.UnblockLog(leader, a) })
		r, _, err := c.Call(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/after")})
		if err != nil || r.Err != jute.OK {
			t.Errorf("read on a member that lags: %v, %v; want what was acknowledged before it", r, err)
		}

		old, _ := e.Open(leader, 10*tick)
		for _, id := range e.Followers() {
			e.Network.Cut(leader, id)
		}
		if err := old.Send(1, jute.OpExists, &jute.ExistsRequest{Path: []byte("/before")}); err != nil {
			t.Fatal(err)
		}
		if err := old.Closed(20 * tick); err != nil {
			t.Errorf("read on a leader that is cut off: %v; want no answer", err)
		}
	})
}
