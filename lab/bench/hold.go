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

// holder keeps a share of the sessions alive, in this process or in another one.
type holder interface {
	// openSessions returns when all sessions are open.
	openSessions(ctx context.Context, p sessionShare) error
	// setMeasuring switches the recording of pings.
	setMeasuring(yes bool) error
	fetchCounts() (sessionCounts, error)
	// closeSessions closes all sessions at once, and returns the number of sessions that closed in time.
	closeSessions(ctx context.Context) (int, error)
	// abandonSessions abandons the sessions that are still open, which then expire.
	abandonSessions()
}

// sessionShare is the share of one holder.
type sessionShare struct {
	Servers []string
	First   int // number of its first session
	Count   int
	Timeout time.Duration
	Burst   int // sessions to open at a time, every openEvery
}

// sessionCounts counts events of sessions.
type sessionCounts struct {
	Pings   *Histogram // within the measured time
	Seen    int64      // pings seen
	Expired int64
	Dropped int64 // connections dropped
}

func (h *sessionCounts) add(o sessionCounts) {
	h.Pings.Merge(o.Pings)
	h.Seen += o.Seen
	h.Expired += o.Expired
	h.Dropped += o.Dropped
}

// localHolder is a holder in this process.
type localHolder struct {
	run     *caseRun
	clients []*client.Client

	mu        sync.Mutex
	counts    sessionCounts
	measuring bool
}

func newLocalHolder(r *caseRun) *localHolder {
	return &localHolder{run: r, counts: sessionCounts{Pings: &Histogram{}}}
}

func (h *localHolder) openSessions(ctx context.Context, p sessionShare) error {
	var err error
	began := time.Now()
	h.clients, err = h.run.openManySessions(ctx, p.Count, func(i int) sessionConfig {
		_ = sleepUntil(ctx, began.Add(time.Duration(i/p.Burst)*openEvery)) // openManySessions checks ctx
		return sessionConfig{
			servers: rotateServers(p.Servers, p.First+i),
			Config:  client.Config{OnPong: h.recordPing, OnState: h.recordState},
		}
	}, func(int, *client.Client) {})
	return err
}

func (h *localHolder) recordPing(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Seen++
	if h.measuring {
		h.counts.Pings.Add(d)
	}
}

func (h *localHolder) recordState(change client.StateChange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch change.State {
	case client.Expired:
		h.counts.Expired++
	case client.Suspended:
		h.counts.Dropped++
	}
}

func (h *localHolder) setMeasuring(yes bool) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.measuring = yes
	return nil
}

func (h *localHolder) fetchCounts() (sessionCounts, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := sessionCounts{Pings: &Histogram{}}
	sum.add(h.counts)
	return sum, nil
}

func (h *localHolder) closeSessions(ctx context.Context) (int, error) {
	return closeAtOnce(ctx, h.clients), nil
}

func (h *localHolder) abandonSessions() { abandonAll(h.clients) }

const (
	maxKeepers   = 16              // of keeper processes
	closeTimeout = 2 * time.Minute // of all held sessions
	// Sessions are opened at openRate per second, in bursts every openEvery. Opened as fast as possible, they
	// would keep all processors busy, and pings of open sessions would be late. Opened one by one, each would
	// take a log entry of its own, and keep the processors as busy. Sessions that are opened together ping
	// together, and their pings wait for each other: with 120 of them every 200 ms the p99 of pings was 2.2
	// ms, with 3 every 5 ms it was 0.7 ms.
	openRate  = 600
	openEvery = 20 * time.Millisecond
)

// holderGroup is the set of holders of a run.
type holderGroup struct {
	run     *caseRun
	holders []holder
	shares  []sessionShare
}

// startHolders starts the holders: this process if it may open enough files, otherwise other processes.
func (r *caseRun) startHolders() (*holderGroup, error) {
	c := &holderGroup{run: r}
	n := (r.params.HeldSessions + r.maxConnections - 1) / r.maxConnections
	switch {
	case n == 1:
		c.holders = []holder{newLocalHolder(r)}
	case n > maxKeepers:
		return nil, fmt.Errorf("%d sessions, but each of %d processes may have %d connections (ulimit -n)",
			r.params.HeldSessions,
			maxKeepers, r.maxConnections)
	case len(r.target.KeeperCommand) == 0:
		return nil, fmt.Errorf("%d sessions, but one process may have %d connections (ulimit -n)", r.params.HeldSessions,
			r.maxConnections)
	}
	for len(c.holders) < n {
		w, err := startKeeperProcess(r.ctx, r.target.KeeperCommand)
		if err != nil {
			c.abandonSessions()
			return nil, err
		}
		c.holders = append(c.holders, w)
		r.keeperProcesses.pids = append(r.keeperProcesses.pids, w.pid())
	}
	for i, first := 0, 0; i < n; i++ {
		count := (r.params.HeldSessions - first) / (n - i)
		c.shares = append(c.shares, sessionShare{
			Servers: r.target.Servers, First: first, Count: count, Timeout: r.params.Timeout,
			Burst: max(1, int(openRate*openEvery/time.Second)/n),
		})
		first += count
	}
	return c, nil
}

// forEachHolder calls do for all holders concurrently.
func (c *holderGroup) forEachHolder(do func(i int, h holder) error) error {
	errs := make([]error, len(c.holders))
	var wait sync.WaitGroup
	for i, h := range c.holders {
		wait.Go(func() { errs[i] = do(i, h) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

func (c *holderGroup) openSessions() error {
	return c.forEachHolder(func(i int, h holder) error { return h.openSessions(c.run.ctx, c.shares[i]) })
}

func (c *holderGroup) setMeasuring(yes bool) error {
	return c.forEachHolder(func(_ int, h holder) error { return h.setMeasuring(yes) })
}

func (c *holderGroup) fetchCounts() (sessionCounts, error) {
	sums := make([]sessionCounts, len(c.holders))
	err := c.forEachHolder(func(i int, h holder) (err error) {
		sums[i], err = h.fetchCounts()
		return err
	})
	all := sessionCounts{Pings: &Histogram{}}
	for _, sum := range sums {
		if sum.Pings != nil {
			all.add(sum)
		}
	}
	return all, err
}

// closeSessions closes all sessions at once, even if the run was broken off.
func (c *holderGroup) closeSessions() (int, error) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(c.run.ctx), closeTimeout)
	defer stop()
	closed := make([]int, len(c.holders))
	err := c.forEachHolder(func(i int, h holder) (err error) {
		closed[i], err = h.closeSessions(ctx)
		return err
	})
	sum := 0
	for _, n := range closed {
		sum += n
	}
	return sum, err
}

func (c *holderGroup) abandonSessions() {
	_ = c.forEachHolder(func(_ int, h holder) error { h.abandonSessions(); return nil }) // there are no errors
	c.run.keeperProcesses.pids = nil
}

// runHold keeps sessions alive that only ping, and then closes them all at once.
func (r *caseRun) runHold() (Result, error) {
	before, err := r.readUsage(true)
	if err != nil {
		return Result{}, err
	}
	c, err := r.startHolders()
	if err != nil {
		return Result{}, err
	}
	defer c.abandonSessions()
	if n := len(c.holders); n > 1 {
		r.reportLine(fmt.Sprintf("%d processes open sessions", n))
	}
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
	result.Extra = []Figure{
		faultFigure("expired", all.Expired), faultFigure("connections dropped", all.Dropped),
		faultFigure("not closed", int64(r.params.HeldSessions-closed)),
		rateFigure("opened", r.params.HeldSessions, took), rateFigure("closed", closed, over.at.Sub(closing.at)),
	}
	if len(r.serverProcesses.pids) > 0 {
		result.Extra = append(result.Extra,
			Figure{
				Name: "server CPU per close", Value: costPerOp(closing, over, int64(closed)).ServerCPU, Unit: unitMicros,
				betterDirection: lessIsBetter,
			},
			Figure{Name: "tool CPU per close", Value: costPerOp(closing, over, int64(closed)).ToolCPU, Unit: unitMicros},
			Figure{
				Name:  "RSS growth per session",
				Value: float64((end.serverUsage.rss - before.serverUsage.rss) / int64(r.params.HeldSessions)), Unit: unitBytes,
				betterDirection: lessIsBetter,
			})
	}
	return result, nil
}

// measureSessions counts during the warm-up and the measured time.
func (c *holderGroup) measureSessions() (all sessionCounts, begin, end usageReading, err error) {
	r, base := c.run, time.Now()
	defer r.reportProgress(func() string {
		now, _ := c.fetchCounts() // a failed holder is noticed below
		return fmt.Sprintf("%s, %d expired, %d connections dropped", r.phaseText(base), now.Expired, now.Dropped)
	})()
	if begin, end, err = r.sleepAndMeasure(base, c.setMeasuring); err == nil {
		all, err = c.fetchCounts()
	}
	return all, begin, end, err
}

// rotateServers returns all servers, starting with connection i's. A client that loses its connection tries
// them in this order.
func rotateServers(servers []string, i int) []string {
	n := i % len(servers)
	return slices.Concat(servers[n:], servers[:n])
}
