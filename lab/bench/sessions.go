package bench

import (
	"context"
	"time"
)

func (r *caseRun) runSessions() (Result, error) {
	opens, closes := &tally{}, &tally{}
	result, err := r.runTimedLoops(r.params.Conns, 0,
		func(ctx context.Context, i int, n int64, began time.Time, note func(*tally, time.Duration)) error {
			c, err := r.openSession(ctx, sessionConfig{servers: r.serverFor(i + int(n))})
			if err != nil {
				return err
			}
			opened := time.Now()
			if err := c.Close(ctx); err != nil {
				return err
			}
			note(opens, opened.Sub(began))
			note(closes, time.Since(opened))
			return nil
		})
	result.Extra = []Figure{
		millisFigure("open p50", opens.latencies.Quantile(0.5)), millisFigure("open p99", opens.latencies.Quantile(0.99)),
		millisFigure("close p50", closes.latencies.Quantile(0.5)), millisFigure("close p99", closes.latencies.Quantile(0.99)),
	}
	return result, err
}
