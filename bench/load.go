package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
	"rollcall/zk/jute"
)

// load sends requests of one kind over some connections. Each connection keeps Window requests in
// flight. At a fixed rate, each request is sent when it is due, with at most Window of them in
// flight.
type load struct {
	ctx         context.Context
	base        time.Time
	from, until time.Duration // begin and end of the measured time, since base
	schedule    schedule
	paced       bool
	workers     []*worker
	left        atomic.Int64  // slots that have not ended, and the pacer
	idle        chan struct{} // closed when left is 0
}

// worker sends the requests of one connection.
type worker struct {
	load  *load
	index int64
	c     *client.Client

	mu    sync.Mutex
	make  maker
	tally tally
	free  []*slot // at a fixed rate: slots without a request in flight
	due   int64   // how many requests the pacer has offered
	sent  int64
}

// slot is the place of one request in flight.
type slot struct {
	w     *worker
	start time.Duration // since base; at a fixed rate, when the request was due
	done  func(client.Reply, error)
}

// load runs a case of this kind.
func (r *run) load() (Result, error) {
	r.tell("making nodes")
	makers, err := r.makers()
	if err != nil {
		return Result{}, err
	}
	l := &load{ctx: r.ctx, from: r.p.Warmup, until: r.p.Warmup + r.p.Duration, idle: make(chan struct{})}
	l.schedule, l.paced = schedule{rate: r.p.Rate, n: int64(r.p.Conns)}, r.p.Rate > 0
	l.workers = make([]*worker, r.p.Conns)
	clients, err := r.openAll(r.ctx, r.p.Conns, func(i int) client.Config {
		return client.Config{Servers: r.home(i), MaxInFlight: r.p.Window}
	}, func(i int, c *client.Client) {
		l.workers[i] = &worker{load: l, index: int64(i), c: c, make: makers(i)}
	})
	defer func() { r.closeAll(clients) }()
	if err != nil {
		return Result{}, err
	}
	late, begin, end, err := l.run(r)
	if err != nil {
		return Result{}, err
	}
	all, unsent := l.count(clients)
	result := r.result(all, begin, end)
	if l.paced {
		result.Extra = append(result.Extra, millis("tool late p99", late.Quantile(0.99)).aside())
	}
	if unsent > 0 {
		result.Notes = append(result.Notes, fmt.Sprintf("%d requests were due and could not be sent in time: the rate is too high, or the window too small; they count with the time that they had waited", unsent))
	}
	return result, nil
}

// run sends requests until the measured time is over and all answers have arrived or are too late.
func (l *load) run(r *run) (late *Histogram, begin, end reading, err error) {
	stop := make(chan struct{})
	var pacer sync.WaitGroup
	defer pacer.Wait()
	defer close(stop)
	late = &Histogram{}
	l.base = time.Now()
	if l.paced {
		l.left.Store(1)
		l.fillSlots(r.p.Window)
		pacer.Go(func() {
			*late = *l.schedule.pace(l.until, stop, l.now, r.sleep, l.offer)
			l.slotDone()
		})
	} else {
		l.left.Store(int64(r.p.Conns) * int64(r.p.Window))
		l.startSlots(r.p.Window)
	}
	defer r.report(func() string { return l.progress(r) })()
	if begin, end, err = r.measure(l.base); err != nil {
		return late, begin, end, err
	}
	select {
	case <-l.idle:
	case <-time.After(drainTime):
	case <-r.ctx.Done():
		err = r.ctx.Err()
	}
	return late, begin, end, err
}

func (l *load) now() time.Duration { return time.Since(l.base) }

// slotDone records that a slot, or the pacer, has ended.
func (l *load) slotDone() {
	if l.left.Add(-1) == 0 {
		close(l.idle)
	}
}

// progress returns a line about the current state.
func (l *load) progress(r *run) string {
	var seen int64
	for _, w := range l.workers {
		w.mu.Lock()
		seen += w.tally.seen
		w.mu.Unlock()
	}
	return fmt.Sprintf("%s, %.0f/s", r.phase(l.base), float64(seen)/l.now().Seconds())
}

// count adds up what all workers have counted. It abandons the clients, so requests that are still
// in flight end.
func (l *load) count(clients []*client.Client) (all *tally, unsent int64) {
	if l.left.Load() > 0 {
		abandonAll(clients) // each request in flight ends with an error
	}
	all = &tally{}
	for _, w := range l.workers {
		w.mu.Lock()
		for k := w.sent; l.paced && k < w.due; k++ {
			if at := l.schedule.of(w.index, k); at >= l.from {
				w.tally.ok.Add(l.until - at)
				unsent++
			}
		}
		all.merge(&w.tally)
		w.mu.Unlock()
	}
	return all, unsent
}

// startSlots starts every slot of a closed loop.
func (l *load) startSlots(window int) {
	for _, w := range l.workers {
		for range window {
			s := &slot{w: w}
			s.done = s.answered
			s.next(l.now())
		}
	}
}

// next sends the slot's next request now, unless the time is over.
func (s *slot) next(now time.Duration) {
	if now >= s.w.load.until || s.w.load.ctx.Err() != nil {
		s.w.load.slotDone()
		return
	}
	s.send(now)
}

func (s *slot) send(start time.Duration) {
	s.start = start
	s.w.mu.Lock()
	op, rec := s.w.make()
	err := s.w.c.Go(s.w.load.ctx, op, rec, s.done)
	s.w.mu.Unlock()
	if err != nil {
		s.answered(client.Reply{}, err)
	}
}

// answered counts the request and sends the next one.
func (s *slot) answered(r client.Reply, err error) {
	w, l := s.w, s.w.load
	now := l.now()
	why := failure(r, err)
	w.mu.Lock()
	if why == "" {
		w.tally.seen++
	}
	if s.start >= l.from && s.start < l.until {
		if why == "" {
			w.tally.ok.Add(now - s.start)
		} else {
			w.tally.fail(why, 1)
		}
	}
	if l.paced {
		w.free = append(w.free, s)
	}
	w.mu.Unlock()
	switch {
	case l.paced:
		w.pump()
		l.slotDone()
	case err != nil:
		time.AfterFunc(retryPause, func() { s.next(l.now()) })
	default:
		s.next(now)
	}
}

// fillSlots gives every worker its slots for a run at a fixed rate.
func (l *load) fillSlots(window int) {
	for _, w := range l.workers {
		for range window {
			s := &slot{w: w}
			s.done = s.answered
			w.free = append(w.free, s)
		}
	}
}

// offer lets a worker send one more request.
func (l *load) offer(conn int64) {
	w := l.workers[conn]
	w.mu.Lock()
	w.due++
	w.mu.Unlock()
	w.pump()
}

// pump sends the requests that are due while a slot is free and the time is not over.
func (w *worker) pump() {
	for {
		w.mu.Lock()
		n := len(w.free)
		if n == 0 || w.sent == w.due || w.load.now() >= w.load.until || w.load.ctx.Err() != nil {
			w.mu.Unlock()
			return
		}
		s := w.free[n-1]
		w.free = w.free[:n-1]
		start := w.load.schedule.of(w.index, w.sent)
		w.sent++
		w.load.left.Add(1)
		w.mu.Unlock()
		s.send(start)
	}
}

// maker returns the next request of one connection. The result is valid until its next call.
type maker func() (jute.Op, client.Record)
