package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rollcall/client"
)

// holder keeps a part of many sessions alive, in this process or in another one.
type holder interface {
	// open opens the sessions and returns when all are open.
	open(ctx context.Context, p part) error
	// measure says whether pings count from now on.
	measure(yes bool) error
	// count returns what has been counted so far.
	count() (held, error)
	// close closes all sessions at once and returns how many were closed in time.
	close(ctx context.Context) (int, error)
	// abandon abandons the sessions that are still open, which then expire.
	abandon()
}

// part is the share of one holder.
type part struct {
	Servers []string
	First   int // the number of its first session among all
	Count   int
	Timeout time.Duration
	Burst   int // how many sessions to open at a time, every openEvery
}

// held counts what happened to sessions.
type held struct {
	Pings   *Histogram // within the measured time
	Seen    int64      // pings seen
	Expired int64
	Dropped int64 // connections dropped
}

func (h *held) add(o held) {
	h.Pings.Merge(o.Pings)
	h.Seen += o.Seen
	h.Expired += o.Expired
	h.Dropped += o.Dropped
}

// holding is a holder in this process.
type holding struct {
	r       *run
	clients []*client.Client

	mu       sync.Mutex
	held     held
	measured bool
}

func newHolding(r *run) *holding { return &holding{r: r, held: held{Pings: &Histogram{}}} }

func (h *holding) open(ctx context.Context, p part) error {
	var err error
	began := time.Now()
	h.clients, err = h.r.openAll(ctx, p.Count, func(i int) client.Config {
		_ = sleepUntil(ctx, began.Add(time.Duration(i/p.Burst)*openEvery)) // openAll checks ctx
		return client.Config{Servers: rotated(p.Servers, p.First+i), Pinged: h.pinged, State: h.state}
	}, func(int, *client.Client) {})
	return err
}

func (h *holding) pinged(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held.Seen++
	if h.measured {
		h.held.Pings.Add(d)
	}
}

func (h *holding) state(s client.State, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch s {
	case client.Expired:
		h.held.Expired++
	case client.Disconnected:
		h.held.Dropped++
	}
}

func (h *holding) measure(yes bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.measured = yes
	return nil
}

func (h *holding) count() (held, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := held{Pings: &Histogram{}}
	sum.add(h.held)
	return sum, nil
}

func (h *holding) close(ctx context.Context) (int, error) { return closeAtOnce(ctx, h.clients), nil }

func (h *holding) abandon() { abandonAll(h.clients) }

const (
	maxKeepers = 16              // processes that hold sessions
	closeTime  = 2 * time.Minute // for all held sessions
	// openRate is how many of the sessions to hold are opened per second, some of them every
	// openEvery. If they were opened as fast as possible, all processors would be busy and the
	// pings of open sessions would be late. If they were opened one by one, each would take a log
	// entry of its own, and the processors would be as busy. Sessions that are opened together ping
	// together, and their pings wait for each other: with 120 of them every 200 ms the p99 of pings
	// was 2.2 ms, with 3 every 5 ms it was 0.7 ms.
	openRate  = 600
	openEvery = 20 * time.Millisecond
)

// crowd is all holders of a run.
type crowd struct {
	r       *run
	holders []holder
	parts   []part
}

// gather starts the holders: this process if it may open enough files, otherwise other processes.
func (r *run) gather() (*crowd, error) {
	c := &crowd{r: r}
	n := (r.p.Hold + r.room - 1) / r.room
	switch {
	case n == 1:
		c.holders = []holder{newHolding(r)}
	case n > maxKeepers:
		return nil, fmt.Errorf("%d sessions, but each of %d processes may have %d connections (ulimit -n)", r.p.Hold, maxKeepers, r.room)
	case len(r.target.Keeper) == 0:
		return nil, fmt.Errorf("%d sessions, but one process may have %d connections (ulimit -n)", r.p.Hold, r.room)
	}
	for len(c.holders) < n {
		w, err := startKeeper(r.ctx, r.target.Keeper)
		if err != nil {
			c.abandon()
			return nil, err
		}
		c.holders = append(c.holders, w)
		r.keepers.pids = append(r.keepers.pids, w.pid())
	}
	for i, first := 0, 0; i < n; i++ {
		count := (r.p.Hold - first) / (n - i)
		c.parts = append(c.parts, part{
			Servers: r.target.Servers, First: first, Count: count, Timeout: r.p.Timeout,
			Burst: max(1, int(openRate*openEvery/time.Second)/n),
		})
		first += count
	}
	return c, nil
}

// each calls do for all holders at the same time.
func (c *crowd) each(do func(i int, h holder) error) error {
	errs := make([]error, len(c.holders))
	var wait sync.WaitGroup
	for i, h := range c.holders {
		wait.Go(func() { errs[i] = do(i, h) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (c *crowd) open() error {
	return c.each(func(i int, h holder) error { return h.open(c.r.ctx, c.parts[i]) })
}

func (c *crowd) measure(yes bool) error {
	return c.each(func(_ int, h holder) error { return h.measure(yes) })
}

func (c *crowd) count() (held, error) {
	sums := make([]held, len(c.holders))
	err := c.each(func(i int, h holder) (err error) {
		sums[i], err = h.count()
		return err
	})
	all := held{Pings: &Histogram{}}
	for _, sum := range sums {
		if sum.Pings != nil {
			all.add(sum)
		}
	}
	return all, err
}

// close closes all sessions at once, even if the run was broken off.
func (c *crowd) close() (int, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c.r.ctx), closeTime)
	defer stop()
	closed := make([]int, len(c.holders))
	err := c.each(func(i int, h holder) (err error) {
		closed[i], err = h.close(ctx)
		return err
	})
	sum := 0
	for _, n := range closed {
		sum += n
	}
	return sum, err
}

func (c *crowd) abandon() {
	_ = c.each(func(_ int, h holder) error { h.abandon(); return nil }) // there are no errors
	c.r.keepers.pids = nil
}

// hold keeps sessions alive that only ping, and then closes them all at once.
func (r *run) hold() (Result, error) {
	before, err := r.read(true)
	if err != nil {
		return Result{}, err
	}
	c, err := r.gather()
	if err != nil {
		return Result{}, err
	}
	defer c.abandon()
	if n := len(c.holders); n > 1 {
		r.tell(fmt.Sprintf("%d processes open sessions", n))
	}
	opening := time.Now()
	if err := c.open(); err != nil {
		return Result{}, err
	}
	took := time.Since(opening)
	all, begin, end, err := c.watch()
	if err != nil {
		_, _ = c.close() // an earlier error is returned
		return Result{}, err
	}
	closing, err := r.read(false)
	if err != nil {
		return Result{}, err
	}
	r.tell("closing all sessions")
	closed, err := c.close()
	if err != nil {
		return Result{}, err
	}
	over, err := r.read(false)
	if err != nil {
		return Result{}, err
	}
	result := r.result(&tally{ok: *all.Pings}, begin, end)
	result.Extra = []Figure{
		faults("expired", all.Expired), faults("connections dropped", all.Dropped), faults("not closed", int64(r.p.Hold-closed)),
		perSecond("opened", r.p.Hold, took), perSecond("closed", closed, over.at.Sub(closing.at)),
	}
	if len(r.procs.pids) > 0 {
		result.Extra = append(result.Extra,
			Figure{Name: "server CPU per close", Value: cost(closing, over, int64(closed)).ServerCPU, Unit: unitMicros, better: lessIsBetter},
			Figure{Name: "tool CPU per close", Value: cost(closing, over, int64(closed)).ToolCPU, Unit: unitMicros},
			Figure{Name: "RSS growth per session", Value: float64((end.servers.rss - before.servers.rss) / int64(r.p.Hold)), Unit: unitBytes, better: lessIsBetter})
	}
	return result, nil
}

// watch observes the sessions during the warm-up and the measured time.
func (c *crowd) watch() (all held, begin, end reading, err error) {
	r, base := c.r, time.Now()
	defer r.report(func() string {
		now, _ := c.count() // a holder that does not answer is noticed below
		return fmt.Sprintf("%s, %d expired, %d connections dropped", r.phase(base), now.Expired, now.Dropped)
	})()
	if err = sleepUntil(r.ctx, base.Add(r.p.Warmup)); err != nil {
		return all, begin, end, err
	}
	if err = c.measure(true); err != nil {
		return all, begin, end, err
	}
	if begin, err = r.read(false); err != nil {
		return all, begin, end, err
	}
	if err = sleepUntil(r.ctx, base.Add(r.p.Warmup+r.p.Duration)); err != nil {
		return all, begin, end, err
	}
	if end, err = r.read(true); err != nil {
		return all, begin, end, err
	}
	if err = c.measure(false); err != nil {
		return all, begin, end, err
	}
	all, err = c.count()
	return all, begin, end, err
}

// rotated returns all servers, starting at that of connection i: a client that loses its connection
// tries them in this order.
func rotated(servers []string, i int) []string {
	n := i % len(servers)
	return slices.Concat(servers[n:], servers[:n])
}
