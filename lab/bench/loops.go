package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// loopBody is one call of a loop. It began, or was due, at a time, and can record further durations with note. round counts the calls
// of loop i.
type loopBody func(ctx context.Context, i int, round int64, began time.Time, note func(*tally, time.Duration)) error

// timedLoops are loops that call a body repeatedly during the warm-up and the measured time.
type timedLoops struct {
	body        loopBody
	rate        float64   // calls that are due in a second; 0: each loop calls as fast as it can
	base        time.Time // begin of the warm-up
	from, until time.Time // the measured time
	taken       atomic.Int64

	mu  sync.Mutex
	all tally
}

// runTimedLoops runs n loops, and records the duration of each success. If rate is not 0, all loops together carry out what is due, and
// the duration counts from when a call was due.
func (r *caseRun) runTimedLoops(n int, rate float64, body loopBody) (Result, error) {
	base := time.Now()
	l := &timedLoops{body: body, rate: rate, base: base, from: base.Add(r.params.Warmup), until: base.Add(r.params.Warmup + r.params.Duration)}
	ctx, stop := context.WithDeadline(r.ctx, l.until.Add(drainTimeout))
	defer stop()
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { l.run(ctx, i) })
	}
	defer r.reportProgress(func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Sprintf("%s, %.0f/s", r.phaseText(base), float64(l.all.succeeded)/time.Since(base).Seconds())
	})()
	begin, end, err := r.sleepAndMeasure(base, nil)
	wait.Wait()
	if rate > 0 && err == nil {
		calls := schedule{rate: rate}
		due := calls.dueCount(r.params.Warmup+r.params.Duration-1) - calls.dueCount(r.params.Warmup-1)
		l.all.addFailures("it was due, and did not begin in time", due-l.all.measured())
	}
	return r.commonResult(&l.all, begin, end), err
}

// begin returns when the next call began, or is due. It waits until then.
func (l *timedLoops) begin(ctx context.Context) time.Time {
	if l.rate == 0 {
		return time.Now()
	}
	due := l.base.Add(schedule{rate: l.rate}.dueTime(l.taken.Add(1) - 1))
	if due.Before(l.until) {
		_ = sleepUntil(ctx, due) // the loop checks ctx
	}
	return due
}

// run calls the body until the time is over.
func (l *timedLoops) run(ctx context.Context, i int) {
	for round := int64(0); ; round++ {
		began := l.begin(ctx)
		if !began.Before(l.until) || ctx.Err() != nil {
			return
		}
		measured := !began.Before(l.from)
		err := l.body(ctx, i, round, began, func(t *tally, d time.Duration) {
			l.mu.Lock()
			defer l.mu.Unlock()
			if measured {
				t.latencies.Add(d)
			}
		})
		l.record(time.Since(began), measured, err)
		if err != nil {
			_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks ctx
		}
	}
}

func (l *timedLoops) record(took time.Duration, measured bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil && measured:
		l.all.addFailures(innermostMessage(err), 1)
	case err == nil:
		l.all.succeeded++
		if measured {
			l.all.latencies.Add(took)
		}
	}
}

// innermostMessage returns the text of the innermost error, which has no parts that differ each time.
func innermostMessage(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}
