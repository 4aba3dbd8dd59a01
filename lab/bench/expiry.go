package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// silentBursts is the number of bursts of silent sessions. Servers expire sessions in buckets one tick wide. If the
// edge of a bucket falls into a burst of last requests, some of its sessions expire a tick later. The median
// of three bursts is free of that unless it happens twice.
const silentBursts = 3

// runExpiry silences sessions in bursts. Each has an ephemeral node, and an observer sees its deletion. An op
// is an expiry. Its latency is the delay of the deletion after the session's last request plus its timeout.
func (r *caseRun) runExpiry() (Result, error) {
	o, err := r.startDeletionObserver("silent")
	if err != nil {
		return Result{}, err
	}
	defer o.client.Abandon()
	e := &expiryResults{}
	for n := range silentBursts {
		gone, due, err := r.silenceSessions(o, n)
		if err != nil {
			return Result{}, err
		}
		if err := r.awaitExpiry(e, gone, due); err != nil {
			return Result{}, err
		}
	}
	return e.caseResult(r), nil
}

// silenceSessions opens sessions, lets all of them send their last request at once, and abandons them. It returns
// channels that get the time of each deletion, and the earliest time at which each session may expire.
func (r *caseRun) silenceSessions(o *deletionObserver, n int) (gone []<-chan time.Time, due []time.Time, err error) {
	gone, due = make([]<-chan time.Time, r.params.SilentSessions), make([]time.Time, r.params.SilentSessions)
	name := func(i int) string { return strconv.Itoa(n) + "-" + strconv.Itoa(i) }
	clients, err := r.openManySessions(r.ctx, r.params.SilentSessions, func(i int) sessionConfig {
		return sessionConfig{servers: r.serverFor(i)}
	}, func(i int, _ *client.Client) { gone[i] = o.expectDeletions(name(i), 1) })
	defer func() { r.closeOrAbandon(clients) }() // unless abandoned below
	if err != nil {
		return nil, nil, err
	}
	err = inParallel(r.ctx, r.params.SilentSessions, parallelOpens, func(_ context.Context, i int) error {
		path := appendPadded([]byte(o.parent.path+"/"+name(i)+"-"), 0)
		_, _, err := clients[i].Create(r.ctx, string(path), nil, client.Ephemeral)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = r.sendLastRequests(clients, o.parent.path, func(i int) {
		_, timeout := clients[i].Session()
		due[i] = time.Now().Add(timeout)
	})
	if err != nil {
		return nil, nil, err
	}
	abandonAll(clients)
	return gone, due, nil
}

// sendLastRequests lets all clients send a request in one burst, after a random pause, and waits for the replies. It calls sending before
// it sends each.
func (r *caseRun) sendLastRequests(clients []*client.Client, path string, sending func(i int)) error {
	// The work before this takes about the same time in each storm. Without a random pause, every burst could
	// meet the edge of a tick. Servers grant at least two ticks, so the pause varies by at least one tick.
	_, timeout := clients[0].Session()
	if err := sleepUntil(r.ctx, time.Now().Add(rand.N(timeout/2))); err != nil {
		return err
	}
	answers := make(chan error, len(clients))
	done := func(_ client.Stat, _ bool, err error) { answers <- err }
	for i, c := range clients {
		sending(i)
		if err := c.Pipeline().Exists(r.ctx, path, done); err != nil {
			return err
		}
	}
	for range clients {
		var err error
		select {
		case err = <-answers:
		case <-r.ctx.Done():
			err = r.ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// expiryResults sums up all storms.
type expiryResults struct {
	lateness   tally
	earlyCount int64
	earliest   time.Duration
	burstSpans []time.Duration // for each storm, from its first expiry to its last
	intervals
}

// expiryGrace is added to three timeouts when waiting for an expiry.
const expiryGrace = 10 * time.Second

// awaitExpiry waits for the expiries of one storm.
func (r *caseRun) awaitExpiry(e *expiryResults, gone []<-chan time.Time, due []time.Time) error {
	begin, err := r.readUsage(false)
	if err != nil {
		return err
	}
	var heard atomic.Int64
	defer r.reportProgress(func() string { return fmt.Sprintf("%d of %d expired", heard.Load(), len(gone)) })()
	limit := time.NewTimer(3*r.params.Timeout + expiryGrace)
	defer limit.Stop()
	var missing int64
	var first, last time.Time
	over := false
	for i, g := range gone {
		var at time.Time
		select {
		case at = <-g:
		default:
			if !over {
				select {
				case at = <-g:
				case <-limit.C:
					over = true
				case <-r.ctx.Done():
					return r.ctx.Err()
				}
			}
		}
		if at.IsZero() {
			missing++
			continue
		}
		heard.Add(1)
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
		if d := at.Sub(due[i]); d < 0 {
			e.earlyCount++
			e.earliest = max(e.earliest, -d)
		}
		e.lateness.latencies.Add(at.Sub(due[i]))
	}
	e.lateness.addFailures("did not expire in time", missing)
	e.burstSpans = append(e.burstSpans, last.Sub(first))
	end, err := r.readUsage(true)
	if err != nil {
		return err
	}
	e.addInterval(begin, end)
	return nil
}

func (e *expiryResults) caseResult(r *caseRun) Result {
	result := e.intervals.intervalResult(r, &e.lateness)
	slices.Sort(e.burstSpans)
	result.Extra = []Figure{
		faultFigure("early", e.earlyCount), millisFigure("earliest by", e.earliest),
		millisFigure("first to last", e.burstSpans[len(e.burstSpans)/2]),
		millisFigure("first to last at most", e.burstSpans[len(e.burstSpans)-1]),
	}
	return result
}
