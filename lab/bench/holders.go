package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

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

// startHolders starts the holders of some sessions: this process if it may open enough files, otherwise other processes. watched are
// the nodes that the sessions watch, or nil.
func (r *caseRun) startHolders(sessions int, watched *watchedNodes) (*holderGroup, error) {
	c := &holderGroup{run: r}
	n := (sessions + r.maxConnections - 1) / r.maxConnections
	switch {
	case n == 1:
		c.holders = []holder{newLocalHolder(r)}
	case n > maxKeepers:
		return nil, fmt.Errorf("%d sessions, but each of %d processes may have %d connections (ulimit -n)", sessions, maxKeepers,
			r.maxConnections)
	case len(r.target.KeeperCommand) == 0:
		return nil, fmt.Errorf("%d sessions, but one process may have %d connections (ulimit -n)", sessions, r.maxConnections)
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
	if n > 1 {
		r.reportLine(fmt.Sprintf("%d processes open sessions", n))
	}
	for i, first := 0, 0; i < n; i++ {
		count := (sessions - first) / (n - i)
		c.shares = append(c.shares, sessionShare{
			Servers: r.chosenServers, First: first, Count: count, Timeout: r.params.Timeout,
			Burst: max(1, int(openRate*openEvery/time.Second)/n), Sources: r.params.Sources, Watched: watched,
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

func (c *holderGroup) expectWrites(w writeSchedule) error {
	return c.forEachHolder(func(_ int, h holder) error { return h.expectWrites(w) })
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
	all := newSessionCounts()
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

// rotateServers returns all servers, starting with connection i's. A client that loses its connection tries
// them in this order.
func rotateServers(servers []string, i int) []string {
	n := i % len(servers)
	return slices.Concat(servers[n:], servers[:n])
}
