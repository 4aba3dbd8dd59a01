package bench

import (
	"context"
	"time"

	"rollcall/client"
)

// runSyncs lets each connection sync repeatedly. An op is a sync.
func (r *caseRun) runSyncs() (Result, error) {
	clients, err := r.openManySessions(r.ctx, r.params.Conns, func(i int) sessionConfig {
		return sessionConfig{servers: r.serverFor(i)}
	}, func(int, *client.Client) {})
	defer func() { r.closeOrAbandon(clients) }()
	if err != nil {
		return Result{}, err
	}
	return r.runTimedLoops(r.params.Conns, 0,
		func(ctx context.Context, i int, _ int64, _ time.Time, _ func(*tally, time.Duration)) error {
			return clients[i].Sync(ctx)
		})
}
