package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rollcall/client"
)

// sessions opens and closes sessions, or holds them.
func (r *run) sessions() (Result, error) {
	if r.p.Hold > 0 {
		return r.hold()
	}
	opens, closes := &tally{}, &tally{}
	result, err := r.loops(r.p.Conns, func(ctx context.Context, i int, n int64, began time.Time, note func(*tally, time.Duration)) error {
		c, err := r.open(ctx, client.Config{Servers: r.home(i + int(n))})
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
		millis("open p50", opens.ok.Quantile(0.5)), millis("open p99", opens.ok.Quantile(0.99)),
		millis("close p50", closes.ok.Quantile(0.5)), millis("close p99", closes.ok.Quantile(0.99)),
	}
	return result, err
}

// loops runs n loops during the warm-up and the measured time. Each calls do again and again and
// counts how long each successful call took. With note, do can count further durations, within the
// measured time only.
func (r *run) loops(n int, do func(ctx context.Context, i int, round int64, began time.Time, note func(*tally, time.Duration)) error) (Result, error) {
	var mu sync.Mutex
	var all tally
	base := time.Now()
	from, until := base.Add(r.p.Warmup), base.Add(r.p.Warmup+r.p.Duration)
	ctx, stop := context.WithDeadline(r.ctx, until.Add(drainTime))
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
						t.ok.Add(d)
					}
				})
				took := time.Since(began)
				mu.Lock()
				switch {
				case err == nil && measured:
					all.ok.Add(took)
					fallthrough
				case err == nil:
					all.seen++
				case measured:
					all.fail(plain(err), 1)
				}
				mu.Unlock()
				if err != nil {
					_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks ctx
				}
			}
		})
	}
	defer r.report(func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprintf("%s, %.0f/s", r.phase(base), float64(all.seen)/time.Since(base).Seconds())
	})()
	begin, end, err := r.measure(base)
	wait.Wait()
	return r.result(&all, begin, end), err
}

// plain returns an error's text without the parts that differ each time.
func plain(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}
