package integration

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/zk/jute"
)

// The clients of a member that is cut off from the others keep their sessions. Each connection is
// closed when its lease ends, and the client then has a tenth of the timeout to find another
// member. That holds for every phase of their pings and of the leader's table. No client gets a
// session on that member meanwhile.
func TestClientsOfACutOffMemberMoveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, timeout, tick = 24, 6 * time.Second, 2 * time.Second
		e := cluster.Start(t, 3, cluster.Options{Tick: tick})
		e.Ready()
		alone := e.Followers()[0]
		others := []uint32{e.Leader(), e.Followers()[1]}
		var held []*cluster.Client
		for range clients {
			c := e.Connect(timeout, alone, others[0], others[1])
			if _, err := c.Create("/e-", nil, jute.EphemeralSequential); err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
			time.Sleep(timeout / 3 / clients)
		}
		for _, other := range others {
			e.Network.Cut(alone, other)
		}
		time.Sleep(4 * timeout)
		for i, c := range held {
			if c.Err() != nil || c.Member() == alone || c.Member() == 0 {
				t.Errorf("client %d: %v, on member %d; want its session, on another member than %d", i, c.Err(), c.Member(), alone)
			}
		}
		c, err := e.Dial(alone)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := c.Open(timeout); !errors.Is(err, io.EOF) {
			t.Errorf("a new session on the member that is cut off: %+v, %v; want the end of the connection", resp, err)
		}
	})
}
