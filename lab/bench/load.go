package bench

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

// requestLoad sends requests of one kind over several connections. In a closed loop, each connection keeps
// Window requests in flight. At a fixed rate, each request is sent when it is due, with at most Window in
// flight per connection.
type requestLoad struct {
	ctx                       context.Context
	startTime                 time.Time
	measureFrom, measureUntil time.Duration // the measured time, since startTime
	schedule                  schedule
	fixedRate                 bool
	workers                   []*worker
	activeSenders             atomic.Int64  // and the pacer
	drained                   chan struct{} // closed when none is active
}

// worker sends the requests of one connection.
type worker struct {
	load   *requestLoad
	index  int64
	client *client.Client

	mu              sync.Mutex
	sendNextRequest requestSender
	tally           tally
	freeSlots       []*slot // at a fixed rate
	dueCount        int64   // requests that the pacer has offered
	sentCount       int64
}

// slot is the place of one request in flight.
type slot struct {
	worker *worker
	start  time.Duration // since startTime of the load; at a fixed rate, the due time
	onReply
}

// onReply has the functions that take the replies to the requests of a slot, and the memory of their operations, so
// that a request needs neither a function nor memory of its own.
type onReply struct {
	onData     func([]byte, client.Stat, error)
	onStat     func(client.Stat, error)
	onCreated  func(string, client.Stat, error)
	onChildren func(iter.Seq2[[]byte, error], client.Stat, error)
	onResults  func([]client.Result, error)
	ops        []client.Operation // of the request in flight, if that is a multi
}

func newOnReply(record func(error)) onReply {
	return onReply{
		onData:     func(_ []byte, _ client.Stat, err error) { record(err) },
		onStat:     func(_ client.Stat, err error) { record(err) },
		onCreated:  func(_ string, _ client.Stat, err error) { record(err) },
		onChildren: func(_ iter.Seq2[[]byte, error], _ client.Stat, err error) { record(err) },
		onResults:  func(_ []client.Result, err error) { record(err) },
	}
}

func (r *caseRun) runLoad() (Result, error) {
	r.reportLine("making nodes")
	senders, err := r.prepareLoad()
	if err != nil {
		return Result{}, err
	}
	l := &requestLoad{
		ctx: r.ctx, measureFrom: r.params.Warmup, measureUntil: r.params.Warmup + r.params.Duration,
		drained: make(chan struct{}),
	}
	l.schedule, l.fixedRate = schedule{rate: r.params.Rate, conns: int64(r.params.Conns)}, r.params.Rate > 0
	l.workers = make([]*worker, r.params.Conns)
	clients, err := r.openManySessions(r.ctx, r.params.Conns, func(i int) sessionConfig {
		return sessionConfig{servers: r.serverFor(i), Config: client.Config{MaxInFlight: r.params.Window}}
	}, func(i int, c *client.Client) {
		l.workers[i] = &worker{load: l, index: int64(i), client: c, sendNextRequest: senders(i)}
	})
	defer func() { r.closeOrAbandon(clients) }()
	if err != nil {
		return Result{}, err
	}
	late, begin, end, err := l.sendUntilDone(r)
	if err != nil {
		return Result{}, err
	}
	all, unsent := l.endAndSumTallies(clients)
	result := r.commonResult(all, begin, end)
	if l.fixedRate {
		result.Extra = append(result.Extra, millisFigure("tool late p99", late.Quantile(0.99)).withoutDirection())
	}
	if unsent > 0 {
		result.Notes = append(result.Notes,
			fmt.Sprintf("%d requests were due and could not be sent in time: the rate is too high, or the window too small; "+
				"they count with the time that they had waited", unsent))
	}
	return result, nil
}

// sendUntilDone sends requests until the end of the measured time, and waits for replies, at most
// drainTimeout.
func (l *requestLoad) sendUntilDone(r *caseRun) (late *Histogram, begin, end usageReading, err error) {
	stop := make(chan struct{})
	var pacer sync.WaitGroup
	defer pacer.Wait()
	defer close(stop)
	late = &Histogram{}
	l.startTime = time.Now()
	if l.fixedRate {
		l.activeSenders.Store(1)
		l.makeSlots(r.params.Window, func(s *slot) { s.worker.freeSlots = append(s.worker.freeSlots, s) })
		pacer.Go(func() {
			*late = *l.schedule.offerWhenDue(l.measureUntil, stop, l.elapsed, r.sleep, l.addDueRequest)
			l.senderDone()
		})
	} else {
		l.activeSenders.Store(int64(r.params.Conns) * int64(r.params.Window))
		l.makeSlots(r.params.Window, func(s *slot) { s.sendNext(l.elapsed()) })
	}
	defer r.reportProgress(func() string { return l.progressLine(r) })()
	if begin, end, err = r.sleepAndMeasure(l.startTime, nil); err != nil {
		return late, begin, end, err
	}
	select {
	case <-l.drained:
	case <-time.After(drainTimeout):
	case <-r.ctx.Done():
		err = r.ctx.Err()
	}
	return late, begin, end, err
}

func (l *requestLoad) elapsed() time.Duration { return time.Since(l.startTime) }

// senderDone records the end of a slot or the pacer.
func (l *requestLoad) senderDone() {
	if l.activeSenders.Add(-1) == 0 {
		close(l.drained)
	}
}

func (l *requestLoad) progressLine(r *caseRun) string {
	var seen int64
	for _, w := range l.workers {
		w.mu.Lock()
		seen += w.tally.succeeded
		w.mu.Unlock()
	}
	return fmt.Sprintf("%s, %.0f/s", r.phaseText(l.startTime), float64(seen)/l.elapsed().Seconds())
}

// endAndSumTallies sums up all workers. It abandons the clients, so that requests in flight end.
func (l *requestLoad) endAndSumTallies(clients []*client.Client) (all *tally, unsent int64) {
	if l.activeSenders.Load() > 0 {
		abandonAll(clients) // each request in flight ends with an error
	}
	all = &tally{}
	for _, w := range l.workers {
		w.mu.Lock()
		for k := w.sentCount; l.fixedRate && k < w.dueCount; k++ {
			if at := l.schedule.dueTimeOf(w.index, k); at >= l.measureFrom {
				w.tally.latencies.Add(l.measureUntil - at)
				unsent++
			}
		}
		all.merge(&w.tally)
		w.mu.Unlock()
	}
	return all, unsent
}

// makeSlots makes the slots of every worker, and passes each to use.
func (l *requestLoad) makeSlots(window int, use func(*slot)) {
	for _, w := range l.workers {
		for range window {
			s := &slot{worker: w}
			s.onReply = newOnReply(s.recordAndSendNext)
			use(s)
		}
	}
}

// sendNext sends the slot's next request, unless the time is over.
func (s *slot) sendNext(now time.Duration) {
	if now >= s.worker.load.measureUntil || s.worker.load.ctx.Err() != nil {
		s.worker.load.senderDone()
		return
	}
	s.sendRequest(now)
}

func (s *slot) sendRequest(start time.Duration) {
	s.worker.mu.Lock()
	err := s.sendLocked(start)
	s.worker.mu.Unlock()
	if err != nil {
		s.recordAndSendNext(err)
	}
}

// sendLocked sends the slot's next request. The worker's lock is held.
func (s *slot) sendLocked(start time.Duration) error {
	s.start = start
	return s.worker.sendNextRequest(s.worker.load.ctx, s.worker.client.Pipeline(), &s.onReply)
}

// recordAndSendNext records a request and sends the next one.
func (s *slot) recordAndSendNext(err error) {
	w, l := s.worker, s.worker.load
	now := l.elapsed()
	w.mu.Lock()
	s.recordLocked(now, err)
	if err == nil && !l.fixedRate && now < l.measureUntil && l.ctx.Err() == nil {
		err = s.sendLocked(now) // under the same lock: the next request of most slots costs one lock
		w.mu.Unlock()
		if err != nil {
			s.recordAndSendNext(err)
		}
		return
	}
	w.mu.Unlock()
	switch {
	case l.fixedRate:
		w.sendDue()
		l.senderDone()
	case hasNoReply(err):
		time.AfterFunc(retryPause, func() { s.sendNext(l.elapsed()) })
	default:
		s.sendNext(now)
	}
}

// recordLocked records a request that has ended. The worker's lock is held.
func (s *slot) recordLocked(now time.Duration, err error) {
	w, l := s.worker, s.worker.load
	if err == nil {
		w.tally.succeeded++
	}
	if s.start >= l.measureFrom && s.start < l.measureUntil {
		if err == nil {
			w.tally.latencies.Add(now - s.start)
		} else {
			w.tally.addFailures(failureReason(err), 1)
		}
	}
	if l.fixedRate {
		w.freeSlots = append(w.freeSlots, s)
	}
}

// addDueRequest lets a worker send one more request.
func (l *requestLoad) addDueRequest(conn int64) {
	w := l.workers[conn]
	w.mu.Lock()
	w.dueCount++
	w.mu.Unlock()
	w.sendDue()
}

// sendDue sends due requests while slots are free and the time is not over.
func (w *worker) sendDue() {
	for {
		w.mu.Lock()
		n := len(w.freeSlots)
		if n == 0 || w.sentCount == w.dueCount || w.load.elapsed() >= w.load.measureUntil || w.load.ctx.Err() != nil {
			w.mu.Unlock()
			return
		}
		s := w.freeSlots[n-1]
		w.freeSlots = w.freeSlots[:n-1]
		start := w.load.schedule.dueTimeOf(w.index, w.sentCount)
		w.sentCount++
		w.load.activeSenders.Add(1)
		w.mu.Unlock()
		s.sendRequest(start)
	}
}

// requestSender sends the next request of one connection. It passes the reply to a function of to. The calls for one
// connection come one after another.
type requestSender func(ctx context.Context, p client.Pipeline, to *onReply) error
