package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// failover runs writers and readers on each member while a hook breaks something. Clients reconnect to other
// members as real ones do; a gap counts for the member on which they started.
type failover struct {
	run                       *caseRun
	parent                    *parent
	measureFrom, measureUntil time.Time
	ctx                       context.Context
	clients                   []*failoverClient
	lostSessions              atomic.Int64 // how many sessions
	doneCount                 atomic.Int64
	hookOutput                string
}

// failoverClient sends one request at a time. It writes to a node of its own, or reads it.
type failoverClient struct {
	failover    *failover
	index       int
	firstServer int // the number of its first member
	isWriter    bool
	node        string
	lastSent    int64 // number of the last write
	ackedCount  int64 // acknowledged writes
	newestAcked int64 // the greatest acknowledged number
	lastSuccess time.Time
	longestGap  time.Duration // longest time between successes within the measured time
	tally       tally
}

func (r *caseRun) runFailover() (Result, error) {
	f := &failover{run: r}
	var err error
	if f.parent, err = r.tree.createParent(r.ctx, r.controlClient, "failover"); err != nil {
		return Result{}, err
	}
	n := r.params.Conns * len(r.target.Servers)
	if err := f.parent.createNodes(r.ctx, r.controlClient, int64(n), make([]byte, r.params.Size)); err != nil {
		return Result{}, err
	}
	base := time.Now()
	f.measureFrom, f.measureUntil = base.Add(r.params.Warmup), base.Add(r.params.Warmup+r.params.Duration)
	var stop context.CancelFunc
	f.ctx, stop = context.WithDeadline(r.ctx, f.measureUntil)
	defer stop()
	for i := range 2 * n {
		f.clients = append(f.clients, &failoverClient{
			failover: f, index: i, firstServer: i / 2 % len(r.target.Servers),
			isWriter: i%2 == 0, node: string(f.parent.appendNodePath(nil, int64(i/2))), lastSuccess: f.measureFrom,
		})
	}
	hooked := make(chan error, 1)
	go func() {
		var err error
		f.hookOutput, err = r.runHookWhenDue(f.ctx, f.measureFrom) // it is set before the send
		hooked <- err
	}()
	var wait sync.WaitGroup
	for _, u := range f.clients {
		wait.Go(u.sendRequests)
	}
	stopReport := r.reportProgress(func() string {
		return fmt.Sprintf("%s, %.0f/s, %d sessions lost", r.phaseText(base),
			float64(f.doneCount.Load())/time.Since(base).Seconds(), f.lostSessions.Load())
	})
	begin, end, err := r.sleepAndMeasure(base, nil)
	stopReport()
	wait.Wait()
	stop()
	if err := errors.Join(err, <-hooked); err != nil {
		return Result{}, err
	}
	return f.verifiedResult(begin, end)
}

// sendRequests sends requests until the end of the run. It replaces a lost session.
func (u *failoverClient) sendRequests() {
	for u.failover.ctx.Err() == nil {
		c, err := u.failover.run.openSession(u.failover.ctx,
			sessionConfig{
				servers: rotateServers(u.failover.run.target.Servers, u.firstServer),
				Config:  client.Config{WhileSuspended: client.Fail}, // so that no read is sent twice
			})
		if err != nil {
			continue // Open has tried for a while
		}
		for err = nil; u.failover.ctx.Err() == nil && !errors.Is(err, client.ErrExpired); {
			began := time.Now()
			err = u.sendRequest(c)
			u.recordResult(began, err)
		}
		if errors.Is(err, client.ErrExpired) {
			u.failover.lostSessions.Add(1)
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(u.failover.ctx), time.Second)
		_ = c.Close(ctx) // otherwise the session expires
		stop()
	}
	u.endGap(u.failover.measureUntil) // ends the last gap
}

// sendRequest sends one request, when there is a connection, and waits for the reply.
func (u *failoverClient) sendRequest(c *client.Client) error {
	err := client.ErrSuspended
	for errors.Is(err, client.ErrSuspended) { // the connection may break before the request is sent
		if err = c.AwaitConnected(u.failover.ctx); err == nil {
			err = u.trySending(c)
		}
	}
	return err
}

func (u *failoverClient) trySending(c *client.Client) error {
	if !u.isWriter {
		_, _, err := c.Get(u.failover.ctx, u.node)
		return err
	}
	u.lastSent++
	data := numberedData(u.lastSent, u.failover.run.params.Size)
	if _, err := c.Set(u.failover.ctx, u.node, data, client.AnyVersion); err != nil {
		return err
	}
	u.ackedCount++
	u.newestAcked = u.lastSent
	return nil
}

// numberedData returns data of a size that begin with a number.
func numberedData(n int64, size int) []byte {
	b := strconv.AppendInt(nil, n, 10)
	for len(b) < size {
		b = append(b, ' ')
	}
	return b
}

func (u *failoverClient) recordResult(began time.Time, err error) {
	now := time.Now()
	measured := !began.Before(u.failover.measureFrom)
	switch {
	case err == nil:
		u.failover.doneCount.Add(1)
		u.endGap(now)
		if measured {
			u.tally.latencies.Add(now.Sub(began))
		}
	case measured && u.failover.ctx.Err() == nil:
		u.tally.addFailures(innermostMessage(err), 1)
	}
}

// endGap ends a gap within the measured time.
func (u *failoverClient) endGap(now time.Time) {
	if now.Before(u.lastSuccess) || now.After(u.failover.measureUntil) {
		return
	}
	u.longestGap = max(u.longestGap, now.Sub(u.lastSuccess))
	u.lastSuccess = now
}

// verifiedResult sums up all clients, and checks every acknowledged write.
func (f *failover) verifiedResult(begin, end usageReading) (Result, error) {
	var all tally
	for _, u := range f.clients {
		all.merge(&u.tally)
	}
	result := f.run.commonResult(&all, begin, end)
	missing, err := f.countLostWrites()
	if err != nil {
		return result, fmt.Errorf("look for acknowledged writes: %w", err)
	}
	result.Extra = []Figure{
		faultFigure("sessions lost", f.lostSessions.Load()),
		faultFigure("acknowledged writes lost", missing),
	}
	result.Extra = append(result.Extra, f.longestGaps()...)
	return result, nil
}

// longestGaps returns the longest times without a success: of all writes, then of writes and reads at the
// members that the hook did not break if it printed the broken ones, then of writes and reads per member of
// the clients that started there.
func (f *failover) longestGaps() []Figure {
	var all, othersWrites, othersReads time.Duration
	var each []Figure
	broken := strings.Fields(f.hookOutput)
	for i, addr := range f.run.target.Servers {
		var reads, writes time.Duration
		for _, u := range f.clients {
			switch {
			case u.firstServer != i:
			case u.isWriter:
				writes = max(writes, u.longestGap)
			default:
				reads = max(reads, u.longestGap)
			}
		}
		all = max(all, writes)
		if !slices.Contains(broken, addr) {
			othersWrites, othersReads = max(othersWrites, writes), max(othersReads, reads)
		}
		each = append(each, millisFigure("longest gap of writes, "+addr, writes),
			millisFigure("longest gap of reads, "+addr, reads))
	}
	figures := []Figure{millisFigure("longest gap of writes", all)}
	if len(broken) > 0 {
		figures = append(figures, millisFigure("longest gap of writes at the others", othersWrites),
			millisFigure("longest gap of reads at the others", othersReads))
	}
	return append(figures, each...)
}

// countLostWrites returns the number of lost acknowledged writes. A node's version counts all writes, and its
// data have the number of the newest. Only unacknowledged writes may follow the newest acknowledged one.
func (f *failover) countLostWrites() (int64, error) {
	ctx, stop := context.WithTimeout(f.run.ctx, 2*f.run.params.Timeout+drainTimeout)
	defer stop()
	var lost int64
	for _, u := range f.clients {
		if !u.isWriter {
			continue
		}
		if err := f.run.controlClient.Sync(ctx); err != nil {
			return 0, err
		}
		data, stat, err := f.run.controlClient.Get(ctx, u.node)
		if err != nil {
			return 0, err
		}
		lost += u.lostWrites(data, stat.Version)
	}
	return lost, nil
}

// lostWrites compares the acknowledgements of a writer with its node's data and version.
func (u *failoverClient) lostWrites(data []byte, version int32) int64 {
	n := max(u.ackedCount-int64(version), 0)
	if u.ackedCount == 0 {
		return 0
	}
	var newest int64
	_, err := fmt.Sscan(string(data), &newest)
	if err != nil || newest < u.newestAcked {
		n = max(n, 1)
	}
	return n
}
