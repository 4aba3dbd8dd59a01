package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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

// loops runs n loops, each of which does the same again and again through warm-up and
// measured time: what succeeds is counted with how long it took. note, for more such
// times, counts only within the measured time.
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
					_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop looks at ctx
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

// plain is an error without what differs from one time to the next.
func plain(err error) string {
	for next := err; next != nil; next = errors.Unwrap(next) {
		err = next
	}
	return err.Error()
}

// holding is what befalls sessions that are kept alive.
type holding struct {
	mu       sync.Mutex
	pings    tally // of the measured time
	measured bool
	expired  atomic.Int64
	dropped  atomic.Int64 // connections
}

func (h *holding) pinged(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pings.seen++
	if h.measured {
		h.pings.ok.Add(d)
	}
}

func (h *holding) measure(yes bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.measured = yes
}

func (h *holding) state(s client.State, _ error) {
	switch s {
	case client.Expired:
		h.expired.Add(1)
	case client.Disconnected:
		h.dropped.Add(1)
	}
}

// hold keeps sessions alive that do nothing but ping, and closes them all at once.
func (r *run) hold() (Result, error) {
	h := &holding{}
	before, err := r.read(true)
	if err != nil {
		return Result{}, err
	}
	clients, err := r.openAll(r.p.Hold, func(i int) client.Config {
		return client.Config{Servers: r.rotated(i), Pinged: h.pinged, State: h.state}
	}, func(int, *client.Client) {})
	opened := time.Since(before.at)
	defer func() { abandonAll(clients) }()
	if err != nil {
		return Result{}, err
	}
	base := time.Now()
	stop := r.report(func() string {
		return fmt.Sprintf("%s, %d expired, %d connections dropped", r.phase(base), h.expired.Load(), h.dropped.Load())
	})
	switches := time.AfterFunc(r.p.Warmup, func() { h.measure(true) })
	begin, end, err := r.measure(base)
	switches.Stop()
	h.measure(false)
	stop()
	if err != nil {
		r.closeAll(clients)
		return Result{}, err
	}
	expired, dropped := h.expired.Load(), h.dropped.Load()
	closing := time.Now()
	r.closeAll(clients)
	closed := time.Since(closing)
	h.mu.Lock()
	defer h.mu.Unlock()
	result := r.result(&h.pings, begin, end)
	result.Extra = []Figure{
		faults("expired", expired), faults("connections dropped", dropped),
		perSecond("opened", r.p.Hold, opened), perSecond("closed", r.p.Hold, closed),
	}
	if grown := end.servers.rss - before.servers.rss; len(r.procs.pids) > 0 {
		result.Extra = append(result.Extra, Figure{Name: "RSS growth per session", Value: float64(grown / int64(r.p.Hold)), Unit: unitBytes, better: lessIsBetter})
	}
	return result, nil
}

// rotated is all servers, from that of connection i on: a client goes round them when it
// loses its connection.
func (r *run) rotated(i int) []string {
	n := i % len(r.target.Servers)
	return append(append([]string(nil), r.target.Servers[n:]...), r.target.Servers[:n]...)
}
