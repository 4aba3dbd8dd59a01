package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

func (r *caseRun) runSessions() (Result, error) {
	if r.params.HeldSessions > 0 {
		return r.runHold()
	}
	opens, closes := &tally{}, &tally{}
	result, err := r.runTimedLoops(r.params.Conns,
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

// runTimedLoops runs n loops during the warm-up and the measured time. Each calls do repeatedly, and records the
// duration of each success. do can record further durations with note.
func (r *caseRun) runTimedLoops(n int,
	do func(ctx context.Context, i int, round int64, began time.Time, note func(*tally, time.Duration)) error) (Result,
	error,
) {
	var mu sync.Mutex
	var all tally
	base := time.Now()
	from, until := base.Add(r.params.Warmup), base.Add(r.params.Warmup+r.params.Duration)
	ctx, stop := context.WithDeadline(r.ctx, until.Add(drainTimeout))
	defer stop()
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			for round := int64(0); ; round++ {
				began := time.Now()
				if began.After(until) || ctx.Err() != nil {
					return
				}
				measured := !began.Before(from)
				err := do(ctx, i, round, began, func(t *tally, d time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					if measured {
						t.latencies.Add(d)
					}
				})
				took := time.Since(began)
				mu.Lock()
				switch {
				case err == nil && measured:
					all.latencies.Add(took)
					fallthrough
				case err == nil:
					all.succeeded++
				case measured:
					all.addFailures(innermostMessage(err), 1)
				}
				mu.Unlock()
				if err != nil {
					_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks ctx
				}
			}
		})
	}
	defer r.reportProgress(func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%s, %.0f/s", r.phaseText(base), float64(all.succeeded)/time.Since(base).Seconds())
	})()
	begin, end, err := r.sleepAndMeasure(base, nil)
	wait.Wait()
	return r.commonResult(&all, begin, end), err
}

// innermostMessage returns the text of the innermost error, which has no parts that differ each time.
func innermostMessage(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}
