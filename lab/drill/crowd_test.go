package drill

import (
	"testing"
	"time"

	"rollcall/client"
)

// A session counts as connected once, however often its state changes, until it is not.
func TestCrowdCountsConnected(t *testing.T) {
	c := &crowd{}
	first, second := c.clientConfig(time.Second), c.clientConfig(time.Second)
	for i, step := range []struct {
		of                 client.Config
		state              client.State
		connected, expired int64
	}{
		{first, client.Connecting, 0, 0},
		{first, client.Connected, 1, 0},
		{first, client.ReadOnly, 1, 0},
		{second, client.Connected, 2, 0},
		{first, client.Suspended, 1, 0},
		{first, client.Suspended, 1, 0},
		{first, client.Connected, 2, 0},
		{first, client.Suspended, 1, 0},
		{first, client.Expired, 1, 1},
		{second, client.Suspended, 0, 1},
	} {
		step.of.OnState(client.StateChange{State: step.state})
		if n, expired := c.connected.Load(), c.expired.Load(); n != step.connected || expired != step.expired {
			t.Errorf("step %d, %v: %d connected, %d expired; want %d, %d", i, step.state, n, expired, step.connected, step.expired)
		}
	}
}
