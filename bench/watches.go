package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// fanOut is many sessions that watch one node. Each sets its watch again when it has fired.
type fanOut struct {
	ctx  context.Context
	node []byte

	mu           sync.Mutex
	wrote        time.Time // when the write was sent; zero between two rounds
	first, last  time.Duration
	heard, armed int
	n            int           // number of watchers
	ready        chan struct{} // signalled when all have got the event and set their watch again; has room for one
	failed       error
	events       tally
}

// watches sends one write after the other, each of which all sessions get an event of.
func (r *run) watches() (Result, error) {
	f := &fanOut{ctx: r.ctx, n: r.p.Watchers, ready: make(chan struct{}, 1)}
	home, err := r.tree.directory(r.ctx, r.control, "watched")
	if err != nil {
		return Result{}, err
	}
	f.node = []byte(home.path)
	sessions := make([]*client.Client, f.n)
	clients, err := r.openAll(r.ctx, f.n, func(i int) client.Config {
		return client.Config{Servers: r.home(i), Watch: func(jute.WatcherEvent, int64) { f.event(sessions[i]) }}
	}, func(i int, c *client.Client) { sessions[i] = c })
	defer func() { r.closeAll(clients) }()
	if err != nil {
		return Result{}, err
	}
	for _, c := range sessions {
		f.arm(c)
	}
	if err := f.awaitReady(r); err != nil {
		return Result{}, err
	}
	return f.rounds(r)
}

// arm sets a session's watch.
func (f *fanOut) arm(c *client.Client) {
	done := func(r client.Reply, err error) {
		if err == nil {
			err = r.Err.Err()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil && f.failed == nil {
			f.failed = err
		}
		f.armed++
		f.signalReady()
	}
	if err := c.Go(f.ctx, jute.OpGetData, &jute.GetDataRequest{Path: f.node, Watch: true}, done); err != nil {
		done(client.Reply{}, err)
	}
}

// event is called on the session's reader.
func (f *fanOut) event(c *client.Client) {
	now := time.Now()
	f.mu.Lock()
	if at := now.Sub(f.wrote); !f.wrote.IsZero() {
		if f.heard == 0 {
			f.first = at
		}
		f.last = at
		f.heard++
		f.events.ok.Add(at)
	}
	f.mu.Unlock()
	f.arm(c)
}

// signalReady signals ready when the next write may be sent. The lock is held.
func (f *fanOut) signalReady() {
	if f.armed >= f.n || f.failed != nil { // each has had the event, since it watches again
		select {
		case f.ready <- struct{}{}:
		default:
		}
	}
}

// awaitReady waits for that signal.
func (f *fanOut) awaitReady(r *run) error {
	timer := time.NewTimer(watchTime)
	defer timer.Stop()
	select {
	case <-f.ready:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.failed
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-timer.C:
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("after %v %d of %d sessions have had the event, %d watch again", watchTime, f.heard, f.n, f.armed)
	}
}

// watchTime is how long a round may take.
const watchTime = 30 * time.Second

// rounds sends a write, waits until all sessions have had the event, and repeats this until the
// time is over. An op is an event; its latency is from the sending of the write.
func (f *fanOut) rounds(r *run) (Result, error) {
	base := time.Now()
	var all, first, last, write tally
	var begin reading
	var n int64
	var err error
	defer r.report(func() string { return r.phase(base) })()
	for measured := false; time.Since(base) < r.p.Warmup+r.p.Duration || !measured; {
		if !measured && time.Since(base) >= r.p.Warmup {
			measured = true
			if begin, err = r.read(false); err != nil {
				return Result{}, err
			}
		}
		f.mu.Lock()
		f.wrote, f.heard, f.armed, f.events = time.Now(), 0, 0, tally{}
		f.mu.Unlock()
		began := time.Now()
		if _, err := r.control.Set(r.ctx, string(f.node), nil, -1); err != nil {
			return Result{}, err
		}
		took := time.Since(began)
		if err := f.awaitReady(r); err != nil {
			return Result{}, err
		}
		if measured {
			f.mu.Lock()
			n++
			write.ok.Add(took)
			first.ok.Add(f.first)
			last.ok.Add(f.last)
			all.merge(&f.events)
			f.mu.Unlock()
		}
	}
	end, err := r.read(true)
	if err != nil {
		return Result{}, err
	}
	result := r.result(&all, begin, end)
	result.Seconds = round(end.at.Sub(begin.at).Seconds())
	result.PerSecond = round(float64(result.Ops) / end.at.Sub(begin.at).Seconds())
	result.Extra = []Figure{
		{Name: "writes", Value: float64(n), Unit: unitCount},
		millis("write p50", write.ok.Quantile(0.5)), millis("first event p50", first.ok.Quantile(0.5)),
		millis("last event p50", last.ok.Quantile(0.5)), millis("last event max", last.ok.Max()),
	}
	return result, nil
}
