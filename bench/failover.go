package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// failover has writers and readers on each member while a hook breaks something. Clients
// go round the members as they do in earnest; a gap belongs to the member they began on.
type failover struct {
	r           *run
	folder      *folder
	from, until time.Time
	ctx         context.Context
	users       []*user
	lost        atomic.Int64 // sessions
	done        atomic.Int64
}

// user is one client that does one thing at a time: it writes to a node of its own, or
// reads it.
type user struct {
	f      *failover
	index  int
	home   int // member
	writes bool
	node   string
	seq    int64 // of the last write sent
	acked  int64 // writes that were acknowledged
	newest int64 // the greatest of them
	last   time.Time
	gap    time.Duration // the longest between two successes, within the measured time
	tally  tally
}

// failover runs the case.
func (r *run) failover() (Result, error) {
	f := &failover{r: r}
	var err error
	if f.folder, err = r.tree.folder(r.ctx, r.control, "failover"); err != nil {
		return Result{}, err
	}
	n := r.p.Conns * len(r.target.Servers)
	if err := f.folder.fill(r.ctx, r.control, int64(n), make([]byte, r.p.Size)); err != nil {
		return Result{}, err
	}
	base := time.Now()
	f.from, f.until = base.Add(r.p.Warmup), base.Add(r.p.Warmup+r.p.Duration)
	var stop context.CancelFunc
	f.ctx, stop = context.WithDeadline(r.ctx, f.until)
	defer stop()
	for i := range 2 * n {
		f.users = append(f.users, &user{f: f, index: i, home: i / 2 % len(r.target.Servers), writes: i%2 == 0, node: string(f.folder.node(nil, int64(i/2))), last: f.from})
	}
	hooked := make(chan error, 1)
	go func() { hooked <- f.hook() }()
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

// hook runs the command when a quarter of the measured time has passed.
func (f *failover) hook() error {
	if err := sleepUntil(f.ctx, f.from.Add(f.r.p.Duration/4)); err != nil {
		return err
	}
	_, err := runHook(f.ctx, f.r.p.Hook)
	return err
}

// run works until the time is over. A session that is lost is replaced.
func (u *user) run() {
	for u.f.ctx.Err() == nil {
		c, err := u.f.r.open(u.f.ctx, client.Config{Servers: rotated(u.f.r.target.Servers, u.home)})
		if err != nil {
			continue // it has tried for a while
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
		_ = c.Close(ctx) // or it expires
		stop()
	}
	u.success(u.f.until) // ends the last gap
}

// request sends one request and records what it has shown.
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

// numbered is data that begins with a number.
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

// result adds up, and looks for every acknowledged write.
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
		result.Extra = append(result.Extra, millis("longest gap of writes, "+addr, writes), millis("longest gap of reads, "+addr, reads))
	}
	return result, nil
}

// missing returns how many acknowledged writes are not there. A node's version counts all
// writes that were carried out, and its data is the newest: only those that were not
// acknowledged may be on top.
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

// missing compares what a writer was told with what is there.
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
