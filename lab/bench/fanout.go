package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

const (
	// calmTime is how long bystanders write alone before something happens to the sessions of others.
	calmTime = 5 * time.Second
	// bystanderPause keeps a bystander's own load small: 50 writes per second.
	bystanderPause = 20 * time.Millisecond
	// leadTime is from the moment at which the writes are announced to the first of them.
	leadTime = 500 * time.Millisecond
	// fanOutPoll is how often the events that are under way at the end are counted.
	fanOutPoll = 100 * time.Millisecond
)

// fanOutRun is a run of the case fanout.
type fanOutRun struct {
	run     *caseRun
	nodes   *watchedNodes
	holders *holderGroup
	writer  *client.Client
	writes  writeSchedule
	count   int64 // writes
	mu      sync.Mutex
	writing Histogram // of the writes that were due in the measured time
	failed  int64     // writes, also those of the warm-up
	failure error     // of the first of them
}

// runFanOut writes to watched nodes at a fixed rate. An op is an event at a session. Its latency counts from when its write was due.
// The run fails if a write fails, also in the warm-up: every later event of the node would count from an earlier write.
func runFanOut(r *caseRun) (Result, error) {
	p, err := r.tree.createParent(r.ctx, r.controlClient, "watched")
	if err != nil {
		return Result{}, err
	}
	if err := p.createNodes(r.ctx, r.controlClient, int64(r.params.Nodes), encodeNumber(0)); err != nil {
		return Result{}, fmt.Errorf("create %d nodes: %w", r.params.Nodes, err)
	}
	f := &fanOutRun{run: r, nodes: &watchedNodes{
		Parent: p.path, Count: r.params.Nodes, PerSession: r.params.Watches, Persistent: r.params.Persistent,
	}}
	before, err := r.readUsage(true)
	if err != nil {
		return Result{}, err
	}
	if f.holders, err = r.startHolders(r.params.Watchers, f.nodes); err != nil {
		return Result{}, err
	}
	defer f.holders.abandonSessions()
	if err := f.holders.openSessions(); err != nil {
		return Result{}, err
	}
	result, err := f.measure(before.serverUsage)
	_, closing := f.holders.closeSessions()
	if err == nil {
		err = closing
	}
	return result, err
}

// measure writes beside the bystanders, after a calm.
func (f *fanOutRun) measure(before usage) (Result, error) {
	r := f.run
	bystanders, leave, err := openBystanders(r, bystanderPause)
	defer leave()
	if err != nil {
		return Result{}, err
	}
	if f.writer, err = r.openSession(r.ctx, sessionConfig{servers: r.chosenServers}); err != nil {
		return Result{}, err
	}
	defer func() { r.closeOrAbandon([]*client.Client{f.writer}) }()
	stop := startBystanders(r, bystanders)
	defer stop()
	r.reportLine("a calm before the writes")
	if err := sleepUntil(r.ctx, time.Now().Add(calmTime)); err != nil {
		return Result{}, err
	}
	late, begin, end, err := f.writeAll()
	if err != nil {
		return Result{}, err
	}
	stop()
	var calm, beside tally
	for _, b := range bystanders {
		b.divide([]interval{{f.writes.Start, end.at}}, &calm, &beside)
	}
	all, err := f.awaitEvents()
	if err != nil {
		return Result{}, err
	}
	result := r.commonResult(&tally{latencies: *all.Watches.Events}, begin, end)
	result.Extra = append([]Figure{
		{Name: "writes", Value: float64(f.count), Unit: unitCount},
		millisFigure("write p50", f.writing.Quantile(0.5)), millisFigure("write p99", f.writing.Quantile(0.99)),
		faultFigure("missing events", f.expectedEvents()-all.Watches.Delivered-all.Watches.Merged),
		faultFigure("writes seen with a later one", all.Watches.Merged), faultFigure("watches not set again", all.Watches.Failed),
	}, all.lossFigures()...)
	result.Extra = append(result.Extra, bystanderFigures(&calm, &beside)...)
	result.Extra = append(result.Extra, millisFigure("tool late p99", late.Quantile(0.99)).withoutDirection())
	if len(r.serverProcesses.pids) > 0 {
		result.Extra = append(result.Extra, growthFigures(before, end.serverUsage, r.params.Watchers)...)
		result.Extra = append(result.Extra, largestFigure(end.serverUsage))
	}
	return result, nil
}

// bystanderFigures returns the latencies of bystanders before something happened, and meanwhile.
func bystanderFigures(calm, beside *tally) []Figure {
	failed := beside.measured() - beside.latencies.Count()
	return []Figure{
		millisFigure("others before p50", calm.latencies.Quantile(0.5)), millisFigure("others before p99", calm.latencies.Quantile(0.99)),
		millisFigure("others p50", beside.latencies.Quantile(0.5)), millisFigure("others p99", beside.latencies.Quantile(0.99)),
		millisFigure("others max", beside.latencies.Max()), faultFigure("failed requests of others", failed),
	}
}

// writeAll writes during the warm-up and the measured time, and fails if a write does. late is the delay of the tool itself.
func (f *fanOutRun) writeAll() (late *Histogram, begin, end usageReading, err error) {
	r := f.run
	start := time.Now().Add(leadTime)
	f.writes = writeSchedule{Start: start, From: start.Add(r.params.Warmup), Rate: r.params.Rate, Nodes: f.nodes.Count}
	if err := f.holders.expectWrites(f.writes); err != nil {
		return nil, begin, end, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, r.params.Warmup+r.params.Duration+drainTimeout)
	defer cancel()
	var answered atomic.Int64
	over, paced := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(paced)
		late = schedule{rate: r.params.Rate, conns: 1}.offerWhenDue(r.params.Warmup+r.params.Duration, over,
			func() time.Duration { return time.Since(start) }, r.sleep, func(int64) { f.sendWrite(ctx, &answered) })
	}()
	defer r.reportProgress(func() string { return fmt.Sprintf("%s, %d writes", r.phaseText(start), answered.Load()) })()
	begin, end, err = r.sleepAndMeasure(start, nil)
	close(over)
	<-paced
	for err == nil && answered.Load() < f.count {
		err = sleepUntil(ctx, time.Now().Add(fanOutPoll))
	}
	if err == nil {
		err = f.writeFailure()
	}
	return late, begin, end, err
}

// writeFailure returns an error if a write has failed.
func (f *fanOutRun) writeFailure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d writes failed, so that events cannot be told apart; the first one: %w", f.failed, f.count, f.failure)
}

// sendWrite sends the next write. The pacer calls it.
func (f *fanOutRun) sendWrite(ctx context.Context, answered *atomic.Int64) {
	node, number := int(f.count%int64(f.nodes.Count)), f.count/int64(f.nodes.Count)+1
	due := f.writes.dueTime(node, number)
	f.count++
	done := func(_ client.Stat, err error) {
		defer answered.Add(1) // last: then all is recorded, and the lock is free
		f.mu.Lock()
		defer f.mu.Unlock()
		switch {
		case err != nil:
			if f.failed++; f.failure == nil {
				f.failure = err
			}
		case !due.Before(f.writes.From):
			f.writing.Add(time.Since(due))
		}
	}
	if err := f.writer.Pipeline().Set(ctx, f.nodes.path(node), encodeNumber(number), client.AnyVersion, done); err != nil {
		done(client.Stat{}, err)
	}
}

// expectedEvents returns the number of all writes, once for each watch on their nodes. None of them has failed.
func (f *fanOutRun) expectedEvents() int64 {
	nodes, watches := int64(f.nodes.Count), int64(f.run.params.Watchers)*int64(f.nodes.PerSession)
	share := func(all, node int64) int64 { // of a node, if all are dealt out in turn
		n := all / nodes
		if node < all%nodes {
			n++
		}
		return n
	}
	var sum int64
	for node := range nodes {
		sum += share(watches, node) * share(f.count, node)
	}
	return sum
}

// awaitEvents returns the counts when all events have come, or no more have come for drainTimeout.
func (f *fanOutRun) awaitEvents() (all sessionCounts, err error) {
	f.run.reportLine("waiting for the last events")
	expected, last, until := f.expectedEvents(), int64(-1), time.Now()
	for {
		if all, err = f.holders.fetchCounts(); err != nil {
			return all, err
		}
		now := all.Watches.Delivered + all.Watches.Merged
		if now > last {
			last, until = now, time.Now().Add(drainTimeout)
		}
		if now >= expected || time.Now().After(until) {
			return all, nil
		}
		if err := sleepUntil(f.run.ctx, time.Now().Add(fanOutPoll)); err != nil {
			return all, err
		}
	}
}
