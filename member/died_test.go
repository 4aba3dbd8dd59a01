package member_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/member"
)

// dials counts what members dial.
type dials struct {
	mu sync.Mutex
	of map[uint32]map[string]int // by member and address
}

func (d *dials) count(cfg *member.Config) {
	dial := cfg.Network.Dial
	cfg.Network.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
		d.mu.Lock()
		if d.of[cfg.ID] == nil {
			d.of[cfg.ID] = map[string]int{}
		}
		d.of[cfg.ID][addr]++
		d.mu.Unlock()
		return dial(ctx, addr)
	}
}

func (d *dials) by(id uint32, addr string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[id][addr]
}

// A member that takes the leader's process for dead closes its connection for gRPC, too. The network may have lost the
// end of that.
func TestDeadLeaderIsRedialed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dials{of: map[uint32]map[string]int{}}
		e := cluster.Start(t, 3, cluster.Options{Adjust: d.count})
		old := e.Ready()
		e.Joined()
		addr := []string{"m1:2888", "m2:2888", "m3:2888"}[old-1]
		before := map[uint32]int{}
		for _, id := range e.Followers() {
			e.Wait("a connection to the leader", time.Second, func() bool { return e.Forwards(id, old) })
			before[id] = d.by(id, addr)
		}
		e.Shut(old, cluster.RaftPort, cluster.In|cluster.Out) // as if it had died; gRPC's port works
		e.Wait("another leader", time.Second, func() bool {
			for id := range before {
				if e.Member(id).Role() == "leader" {
					return true
				}
			}
			return false
		})
		e.Unshut(old, cluster.RaftPort, cluster.In|cluster.Out)
		lead := e.Ready()
		e.Wait("the new leader to open another connection to the former one", time.Second, func() bool { return d.by(lead, addr) > before[lead] })
	})
}
