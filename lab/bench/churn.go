package bench

import (
	"context"
	"strconv"
	"time"

	"rollcall/client"
)

// runChurn opens sessions that create one ephemeral node each and close. An op is such a session. At a fixed rate, its latency counts
// from when it was due.
func runChurn(r *caseRun) (Result, error) {
	p, err := r.tree.createParent(r.ctx, r.controlClient, "churn")
	if err != nil {
		return Result{}, err
	}
	opens, creates, closes := &tally{}, &tally{}, &tally{}
	result, err := r.runTimedLoops(r.params.Conns, r.params.Rate,
		func(ctx context.Context, i int, n int64, _ time.Time, note func(*tally, time.Duration)) error {
			began := time.Now()
			c, err := r.openSession(ctx, sessionConfig{servers: r.serverFor(i + int(n))})
			if err != nil {
				return err
			}
			opened := time.Now()
			path := p.path + "/" + strconv.Itoa(i) + "-" + strconv.FormatInt(n, 10)
			if _, _, err := c.Create(ctx, path, nil, client.Ephemeral); err != nil {
				c.Abandon()
				return err
			}
			created := time.Now()
			if err := c.Close(ctx); err != nil {
				return err
			}
			note(opens, opened.Sub(began))
			note(creates, created.Sub(opened))
			note(closes, time.Since(created))
			return nil
		})
	for _, part := range []struct {
		name string
		took *tally
	}{{"open", opens}, {"create", creates}, {"close", closes}} {
		result.Extra = append(result.Extra, millisFigure(part.name+" p50", part.took.latencies.Quantile(0.5)),
			millisFigure(part.name+" p99", part.took.latencies.Quantile(0.99)))
	}
	return result, err
}
