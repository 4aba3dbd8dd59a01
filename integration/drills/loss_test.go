package drills

import (
	"context"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/lab/target"
)

// All packets between members are lost with a chance of 30 %, for a minute. No session of six ticks expires whose client is
// alive. ROLLCALL_LOSSES sets the number of runs, each of which takes 70 s and little of the processor.
func TestSessionsWhilePacketsAreLost(t *testing.T) {
	needs.Check(t, needs.Nightly)
	if mayNot(t) {
		return
	}
	for i := range process.Setting(t, "ROLLCALL_LOSSES", 1, 3) {
		t.Run(fmt.Sprint(i), loseForAMinute)
	}
}

func loseForAMinute(t *testing.T) {
	const sessions, timeout = 50, 6 * target.DefaultTick
	p := open(t, target.NewNamespaces, target.ProcessConfig{Beside: true})
	awaitHealthy(t, p)
	dial := func(ctx context.Context, id uint32) (*wire.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", p.Members()[id-1].Clients)
		if err != nil {
			return nil, err
		}
		return wire.New(c), nil
	}
	orders := [][]uint32{{1, 2, 3}, {2, 3, 1}, {3, 1, 2}, {1, 3, 2}, {2, 1, 3}, {3, 2, 1}}
	var clients []*cluster.Client
	for i := range sessions {
		c := cluster.NewClient(t.Context(), orders[i%len(orders)], timeout, dial)
		if err := c.WaitConnected(process.Patience); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	names := []string{"1", "2", "3"}
	for _, name := range names {
		others := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return other == name })
		if err := p.Break(t.Context(), target.Fault{Kind: target.Slow, Member: name, From: others, Loss: 0.3}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Minute)
	expired, disconnects := 0, 0
	for _, c := range clients {
		disconnects += c.Disconnects()
		if err := c.Err(); err != nil {
			expired++
			t.Errorf("session %v: %v", c.Session(), err)
		}
	}
	fmt.Printf("%d of %d sessions expired while 30 %% of the packets between members were lost; their clients connected again %d times\n",
		expired, sessions, disconnects)
	if err := p.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitHealthy(t, p)
}
