package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// runHold keeps sessions alive that only ping, and then closes them all at once. If there is a hook, it runs in the measured time.
func runHold(r *caseRun) (Result, error) {
	before, err := r.readUsage(true)
	if err != nil {
		return Result{}, err
	}
	c, err := r.startHolders(r.params.HeldSessions, nil)
	if err != nil {
		return Result{}, err
	}
	defer c.abandonSessions()
	opening := time.Now()
	if err := c.openSessions(); err != nil {
		return Result{}, err
	}
	took := time.Since(opening)
	all, begin, end, err := c.measureSessions()
	if err != nil {
		_, _ = c.closeSessions() // the earlier error counts
		return Result{}, err
	}
	closing, err := r.readUsage(false)
	if err != nil {
		return Result{}, err
	}
	r.reportLine("closing all sessions")
	closed, err := c.closeSessions()
	if err != nil {
		return Result{}, err
	}
	over, err := r.readUsage(false)
	if err != nil {
		return Result{}, err
	}
	result := r.commonResult(&tally{latencies: *all.Pings}, begin, end)
	result.Extra = append(all.lossFigures(),
		faultFigure("not closed", int64(r.params.HeldSessions-closed)),
		rateFigure("opened", r.params.HeldSessions, took), rateFigure("closed", closed, over.at.Sub(closing.at)))
	if len(r.serverProcesses.pids) > 0 {
		result.Extra = append(result.Extra,
			Figure{
				Name: "server CPU per close", Value: costPerOp(closing, over, int64(closed)).ServerCPU, Unit: unitMicros,
				betterDirection: lessIsBetter,
			},
			Figure{Name: "tool CPU per close", Value: costPerOp(closing, over, int64(closed)).ToolCPU, Unit: unitMicros})
		if r.params.Hook == "" { // a hook ends members, and moves sessions to others
			result.Extra = append(result.Extra, growthFigures(before.serverUsage, end.serverUsage, r.params.HeldSessions)...)
			result.Extra = append(result.Extra, servingFigure(before.serverUsage, begin, end, result.Ops))
		}
		result.Extra = append(result.Extra, largestFigure(end.serverUsage))
	}
	return result, nil
}

// lossFigures returns what the sessions have lost. Times of sessions that came back are there only if some did.
func (h *sessionCounts) lossFigures() []Figure {
	figures := []Figure{faultFigure("expired", h.Expired), faultFigure("connections dropped", h.Dropped)}
	if h.Dropped == 0 {
		return figures
	}
	figures = append(figures, Figure{Name: "reconnected", Value: float64(h.Back.Count()), Unit: unitCount})
	if h.Back.Count() > 0 {
		figures = append(figures, millisFigure("reconnected after p50", h.Back.Quantile(0.5)),
			millisFigure("reconnected after p99", h.Back.Quantile(0.99)), millisFigure("reconnected after at most", h.Back.Max()))
	}
	return figures
}

// measureSessions counts during the warm-up and the measured time, in which the hook runs.
func (c *holderGroup) measureSessions() (all sessionCounts, begin, end usageReading, err error) {
	r, base := c.run, time.Now()
	defer r.reportProgress(func() string {
		now, _ := c.fetchCounts() // a failed holder is noticed below
		return fmt.Sprintf("%s, %d expired, %d connections dropped", r.phaseText(base), now.Expired, now.Dropped)
	})()
	hooked := make(chan error, 1)
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	go func() {
		_, err := r.runHookWhenDue(ctx, base.Add(r.params.Warmup))
		hooked <- err
	}()
	if begin, end, err = r.sleepAndMeasure(base, c.setMeasuring); err != nil {
		stop()
	}
	if err = errors.Join(err, <-hooked); err == nil {
		all, err = c.fetchCounts()
	}
	return all, begin, end, err
}
