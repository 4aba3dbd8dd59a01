package member

import (
	"context"
	"time"
)

// Drain prepares this member for its end, so that its clients notice as little as possible. From now on
// /readyz fails and no client is taken. Drain hands leadership over, and then closes the clients'
// connections, so that the clients find a leader elsewhere. It spreads the closes evenly over a time. It
// returns how many there were, and whether this member still leads, because no other one took over.
//
// The member goes on storing and voting, and may be elected again if no other member can lead. If ctx ends,
// Drain returns early, and the connections that are left stay open; another call closes them. Only a new
// start ends the state.
func (m *Member) Drain(ctx context.Context, over time.Duration) (closed int, leads bool) {
	m.http.Stop()
	within, cancel := context.WithTimeout(ctx, m.cfg.Tick)
	defer cancel()
	err := m.node.HandOver(within)
	if err != nil {
		m.log.Warn("leadership not handed over", "err", err)
	}
	return m.server.Drain(ctx, over), err != nil
}
