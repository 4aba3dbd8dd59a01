package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rollcall/client"
)

// fanOut is a set of sessions that watch one node. Each sets its watch again after an event.
type fanOut struct {
	ctx  context.Context
	node string

	mu                         sync.Mutex
	writeTime                  time.Time // zero between two rounds
	firstEvent, lastEvent      time.Duration
	eventsReceived, watchesSet int
	watchers                   int
	allWatching                chan struct{} // capacity 1; signals that all got the event and watch again
	firstError                 error
	events                     tally
}

// runWatches sends one write after another. Each of them notifies all sessions.
func (r *caseRun) runWatches() (Result, error) {
	f := &fanOut{ctx: r.ctx, watchers: r.params.Watchers, allWatching: make(chan struct{}, 1)}
	home, err := r.tree.createParent(r.ctx, r.controlClient, "watched")
	if err != nil {
		return Result{}, err
	}
	f.node = home.path
	sessions := make([]*client.Client, f.watchers)
	clients, err := r.openManySessions(r.ctx, f.watchers, func(i int) sessionConfig {
		return sessionConfig{
			servers: r.serverFor(i),
			Config:  client.Config{OnEvent: func(client.Event) { f.recordAndRewatch(sessions[i]) }},
		}
	}, func(i int, c *client.Client) { sessions[i] = c })
	defer func() { r.closeOrAbandon(clients) }()
	if err != nil {
		return Result{}, err
	}
	for _, c := range sessions {
		f.setWatch(c)
	}
	if err := f.awaitAllWatching(r); err != nil {
		return Result{}, err
	}
	return f.runRounds(r)
}

func (f *fanOut) setWatch(c *client.Client) {
	done := func(_ []byte, _ client.Stat, err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil && f.firstError == nil {
			f.firstError = err
		}
		f.watchesSet++
		f.signalIfAllWatching()
	}
	if err := c.Pipeline().GetAndWatch(f.ctx, f.node, done); err != nil {
		done(nil, client.Stat{}, err)
	}
}

// recordAndRewatch runs on the session's reader.
func (f *fanOut) recordAndRewatch(c *client.Client) {
	now := time.Now()
	f.mu.Lock()
	if at := now.Sub(f.writeTime); !f.writeTime.IsZero() {
		if f.eventsReceived == 0 {
			f.firstEvent = at
		}
		f.lastEvent = at
		f.eventsReceived++
		f.events.latencies.Add(at)
	}
	f.mu.Unlock()
	f.setWatch(c)
}

// signalIfAllWatching signals ready when the next write may be sent. The lock is held.
func (f *fanOut) signalIfAllWatching() {
	if f.watchesSet >= f.watchers || f.firstError != nil { // a session that watches again got the event
		select {
		case f.allWatching <- struct{}{}:
		default:
		}
	}
}

func (f *fanOut) awaitAllWatching(r *caseRun) error {
	timer := time.NewTimer(roundTimeout)
	defer timer.Stop()
	select {
	case <-f.allWatching:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.firstError
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-timer.C:
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("after %v %d of %d sessions have had the event, %d watch again", roundTimeout, f.eventsReceived,
			f.watchers, f.watchesSet)
	}
}

const roundTimeout = 30 * time.Second

// runRounds sends a write, waits until all sessions got the event, and repeats this until the end of the run.
// An op is an event. Its latency counts from the sending of the write.
func (f *fanOut) runRounds(r *caseRun) (Result, error) {
	base := time.Now()
	var all, first, last, write tally
	var begin usageReading
	var n int64
	var err error
	defer r.reportProgress(func() string { return r.phaseText(base) })()
	for measured := false; time.Since(base) < r.params.Warmup+r.params.Duration || !measured; {
		if !measured && time.Since(base) >= r.params.Warmup {
			measured = true
			if begin, err = r.readUsage(false); err != nil {
				return Result{}, err
			}
		}
		f.mu.Lock()
		f.writeTime, f.eventsReceived, f.watchesSet, f.events = time.Now(), 0, 0, tally{}
		f.mu.Unlock()
		began := time.Now()
		if _, err := r.controlClient.Set(r.ctx, f.node, nil, client.AnyVersion); err != nil {
			return Result{}, err
		}
		took := time.Since(began)
		if err := f.awaitAllWatching(r); err != nil {
			return Result{}, err
		}
		if measured {
			f.mu.Lock()
			n++
			write.latencies.Add(took)
			first.latencies.Add(f.firstEvent)
			last.latencies.Add(f.lastEvent)
			all.merge(&f.events)
			f.mu.Unlock()
		}
	}
	end, err := r.readUsage(true)
	if err != nil {
		return Result{}, err
	}
	result := r.commonResult(&all, begin, end)
	result.Seconds = roundToTenth(end.at.Sub(begin.at).Seconds())
	result.PerSecond = roundToTenth(float64(result.Ops) / end.at.Sub(begin.at).Seconds())
	result.Extra = []Figure{
		{Name: "writes", Value: float64(n), Unit: unitCount},
		millisFigure("write p50", write.latencies.Quantile(0.5)),
		millisFigure("first event p50", first.latencies.Quantile(0.5)),
		millisFigure("last event p50", last.latencies.Quantile(0.5)), millisFigure("last event max", last.latencies.Max()),
	}
	return result, nil
}
