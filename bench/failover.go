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

// failover runs writers and readers on each member while a hook breaks something. Clients change
// members as real ones do; a gap is counted for the member on which they started.
type failover struct {
	r           *run
	directory   *directory
	from, until time.Time
	ctx         context.Context
	users       []*user
	lost        atomic.Int64 // how many sessions
	done        atomic.Int64
	said        string // what the hook printed
}

// user is one client that sends one request at a time: it writes to a node of its own, or reads it.
type user struct {
	f      *failover
	index  int
	home   int // the number of its first member
	writes bool
	node   string
	seq    int64 // number of the last write that was sent
	acked  int64 // how many writes were acknowledged
	newest int64 // the greatest number acknowledged
	last   time.Time
	gap    time.Duration // the longest time between two successes within the measured time
	tally  tally
}

// failover runs the case.
func (r *run) failover() (Result, error) {
	f := &failover{r: r}
	var err error
	if f.directory, err = r.tree.directory(r.ctx, r.control, "failover"); err != nil {
		return Result{}, err
	}
	n := r.p.Conns * len(r.target.Servers)
	if err := f.directory.fill(r.ctx, r.control, int64(n), make([]byte, r.p.Size)); err != nil {
		return Result{}, err
	}
	base := time.Now()
	f.from, f.until = base.Add(r.p.Warmup), base.Add(r.p.Warmup+r.p.Duration)
	var stop context.CancelFunc
	f.ctx, stop = context.WithDeadline(r.ctx, f.until)
	defer stop()
	for i := range 2 * n {
		f.users = append(f.users, &user{f: f, index: i, home: i / 2 % len(r.target.Servers), writes: i%2 == 0, node: string(f.directory.node(nil, int64(i/2))), last: f.from})
	}
	hooked := make(chan error, 1)
	go func() { hooked <- f.hook() }() // it sets f.said before it sends
	var wait sync.WaitGroup
	for _, u := range f.users {
		wait.Go(u.run)
	}
	stopReport := r.report(func() string {
		return fmt.Sprintf("%s, %.0f/s, %d sessions lost", r.phase(base), float64(f.done.Load())/time.Since(base).Seconds(), f.lost.Load())
	})
	begin, end, err := r.measure(base)
	stopReport()
	wait.Wait()
	stop()
	if err := errors.Join(err, <-hooked); err != nil {
		return Result{}, err
	}
	return f.result(begin, end)
}

// hook runs the command after a quarter of the measured time, and keeps what it printed.
func (f *failover) hook() (err error) {
	if err = sleepUntil(f.ctx, f.from.Add(f.r.p.Duration/4)); err != nil {
		return err
	}
	f.said, err = runHook(f.ctx, f.r.p.Hook)
	return err
}

// run sends requests until the time is over. It replaces a session that is lost.
func (u *user) run() {
	for u.f.ctx.Err() == nil {
		c, err := u.f.r.open(u.f.ctx, client.Config{Servers: rotated(u.f.r.target.Servers, u.home)})
		if err != nil {
			continue // it has been trying for a while
		}
		for err = nil; u.f.ctx.Err() == nil && !errors.Is(err, client.ErrExpired); {
			began := time.Now()
			err = u.request(c)
			u.note(began, err)
		}
		if errors.Is(err, client.ErrExpired) {
			u.f.lost.Add(1)
		}
		ctx, stop := context.WithTimeout(context.WithoutCancel(u.f.ctx), time.Second)
		_ = c.Close(ctx) // otherwise the session expires
		stop()
	}
	u.success(u.f.until) // ends the last gap
}

// request sends one request and waits for the reply. It counts acknowledged writes.
func (u *user) request(c *client.Client) error {
	if !u.writes {
		_, _, err := c.Get(u.f.ctx, u.node, false)
		return err
	}
	u.seq++
	if _, err := c.Set(u.f.ctx, u.node, numbered(u.seq, u.f.r.p.Size), -1); err != nil {
		return err
	}
	u.acked++
	u.newest = u.seq
	return nil
}

// numbered returns data of that size that begin with a number.
func numbered(n int64, size int) []byte {
	b := strconv.AppendInt(nil, n, 10)
	for len(b) < size {
		b = append(b, ' ')
	}
	return b
}

func (u *user) note(began time.Time, err error) {
	now := time.Now()
	measured := !began.Before(u.f.from)
	switch {
	case err == nil:
		u.f.done.Add(1)
		u.success(now)
		if measured {
			u.tally.ok.Add(now.Sub(began))
		}
	case measured && u.f.ctx.Err() == nil:
		u.tally.fail(plain(err), 1)
	}
}

// success ends a gap, within the measured time.
func (u *user) success(now time.Time) {
	if now.Before(u.last) || now.After(u.f.until) {
		return
	}
	u.gap = max(u.gap, now.Sub(u.last))
	u.last = now
}

// result adds up what all users have seen, and looks for every acknowledged write.
func (f *failover) result(begin, end reading) (Result, error) {
	var all tally
	for _, u := range f.users {
		all.merge(&u.tally)
	}
	result := f.r.result(&all, begin, end)
	missing, err := f.missing()
	if err != nil {
		return result, fmt.Errorf("look for acknowledged writes: %w", err)
	}
	result.Extra = []Figure{faults("sessions lost", f.lost.Load()), faults("acknowledged writes lost", missing)}
	result.Extra = append(result.Extra, f.gaps()...)
	return result, nil
}

// gaps returns the longest times without a success: of writes and of reads, for each member the clients that began there.
// Before them come the longest of all writes and, if the hook has printed the addresses of the members that it broke, the
// longest of the writes and of the reads at the others.
func (f *failover) gaps() []Figure {
	var all, othersWrites, othersReads time.Duration
	var each []Figure
	broken := strings.Fields(f.said)
	for i, addr := range f.r.target.Servers {
		var reads, writes time.Duration
		for _, u := range f.users {
			switch {
			case u.home != i:
			case u.writes:
				writes = max(writes, u.gap)
			default:
				reads = max(reads, u.gap)
			}
		}
		all = max(all, writes)
		if !slices.Contains(broken, addr) {
			othersWrites, othersReads = max(othersWrites, writes), max(othersReads, reads)
		}
		each = append(each, millis("longest gap of writes, "+addr, writes), millis("longest gap of reads, "+addr, reads))
	}
	figures := []Figure{millis("longest gap of writes", all)}
	if len(broken) > 0 {
		figures = append(figures, millis("longest gap of writes at the others", othersWrites), millis("longest gap of reads at the others", othersReads))
	}
	return append(figures, each...)
}

// missing returns how many acknowledged writes are lost. A node's version counts all writes that
// were carried out, and its data hold the number of the newest. Only writes that were not
// acknowledged may have come after the newest acknowledged one.
func (f *failover) missing() (int64, error) {
	ctx, stop := context.WithTimeout(f.r.ctx, 2*f.r.p.Timeout+drainTime)
	defer stop()
	var lost int64
	for _, u := range f.users {
		if !u.writes {
			continue
		}
		if err := f.r.control.Sync(ctx, u.node); err != nil {
			return 0, err
		}
		data, stat, err := f.r.control.Get(ctx, u.node, false)
		if err != nil {
			return 0, err
		}
		lost += u.missing(data, stat.Version)
	}
	return lost, nil
}

// missing compares the acknowledgements of a writer with the node's data and version.
func (u *user) missing(data []byte, version int32) int64 {
	n := max(u.acked-int64(version), 0)
	if u.acked == 0 {
		return 0
	}
	var newest int64
	_, err := fmt.Sscan(string(data), &newest)
	if err != nil || newest < u.newest {
		n = max(n, 1)
	}
	return n
}
