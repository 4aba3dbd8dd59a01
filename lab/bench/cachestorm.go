package bench

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/client"
)

const (
	cachePoll = 5 * time.Millisecond // how often the clients are asked whether they are current
	// cacheSettle is how long all clients must have been current for the storm to be over. Some servers drop their clients only a while
	// after the fault.
	cacheSettle = time.Second
	// cacheGrace limits a storm beyond two timeouts: the election, and the time in which sessions that are lost are opened again.
	cacheGrace = time.Minute
)

// cacheStorm is a run of the case with this name. All clients cache the same nodes.
type cacheStorm struct {
	run     *caseRun
	ctx     context.Context // ends before the clients are closed
	parent  *parent         // of the nodes; the marker is the first of them
	clients []*cacheClient
	reads   atomic.Int64 // that were sent
	expired atomic.Int64 // sessions
	failed  atomic.Int64 // reads that failed though there was a connection
	// firstFailure is the first of them, with its path. It is set before failed is.
	firstFailure atomic.Pointer[error]
}

// cacheClient caches the children of a node and their data, as the caches of client libraries do: it reads what an event is about
// with a new watch, and reads everything when it has a connection again. If its session expires, it opens another one.
type cacheClient struct {
	storm *cacheStorm
	index int

	mu        sync.Mutex
	client    *client.Client // nil until the session is open, and from its end until the next one is
	connected bool
	drops     int
	pending   int   // reads without a reply
	marker    int64 // the newest number in the marker that it has read
	currentAt time.Time
}

// runCacheStorm lets a hook break a member, and measures how long until all clients know what was written after that. An op is a client,
// and its latency counts from the hook. The run fails if a client is not current in time, or if a read fails on a live connection: the
// time of the last client would be that of the others.
func runCacheStorm(r *caseRun) (Result, error) {
	s := &cacheStorm{run: r}
	var err error
	var giveUp context.CancelFunc
	s.ctx, giveUp = context.WithCancel(r.ctx)
	defer func() {
		giveUp() // no session is opened any more
		s.closeClients()
	}()
	if s.parent, err = r.tree.createParent(r.ctx, r.controlClient, "cached"); err != nil {
		return Result{}, err
	}
	if err := s.parent.createNodes(r.ctx, r.controlClient, int64(r.params.Watches), encodeNumber(0)); err != nil {
		return Result{}, err
	}
	bystanders, leave, err := openBystanders(r, bystanderPause)
	defer leave()
	if err != nil {
		return Result{}, err
	}
	if err := s.openClients(); err != nil {
		return Result{}, err
	}
	stop := startBystanders(r, bystanders)
	defer stop()
	r.reportLine("a calm before the hook")
	if err := sleepUntil(r.ctx, time.Now().Add(calmTime)); err != nil {
		return Result{}, err
	}
	s.reads.Store(0)
	begin, end, times, err := s.strike()
	if err != nil {
		return Result{}, err
	}
	stop()
	var calm, beside tally
	for _, b := range bystanders {
		b.divide([]interval{{begin.at, end.at}}, &calm, &beside)
	}
	return s.caseResult(begin, end, times, bystanderFigures(&calm, &beside)), nil
}

// openClients opens all clients, and returns when each has read everything.
func (s *cacheStorm) openClients() error {
	for i := range s.run.params.Conns {
		s.clients = append(s.clients, &cacheClient{storm: s, index: i})
	}
	err := inParallel(s.ctx, len(s.clients), parallelOpens, func(ctx context.Context, i int) error { return s.clients[i].open(ctx) })
	if err != nil {
		return err
	}
	if _, err = s.awaitCurrent(0, 0); err != nil {
		return fmt.Errorf("before the hook: %w", err)
	}
	return nil
}

// strike runs the hook and writes the marker. It returns the usage at the hook and when the last client was current, and when each one
// was.
func (s *cacheStorm) strike() (begin, end usageReading, times []time.Time, err error) {
	r := s.run
	if begin, err = r.readUsage(false); err != nil {
		return begin, end, nil, err
	}
	if _, err = runHook(r.ctx, r.params.Hook); err != nil {
		return begin, end, nil, err
	}
	if err := s.writeMarker(); err != nil {
		return begin, end, nil, err
	}
	if times, err = s.awaitCurrent(1, cacheSettle); err != nil {
		return begin, end, nil, err
	}
	if end, err = r.readUsage(true); err == nil {
		end.at = newestTime(times)
	}
	return begin, end, times, err
}

// writeMarker writes the marker until that succeeds: the control client may have lost its member, too.
func (s *cacheStorm) writeMarker() error {
	ctx, stop := context.WithTimeout(s.run.ctx, 2*s.run.params.Timeout+cacheGrace)
	defer stop()
	path := string(s.parent.appendNodePath(nil, 0))
	for {
		_, err := s.run.controlClient.Set(ctx, path, encodeNumber(1), client.AnyVersion)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no write succeeded after the hook: %w", err)
		}
		_ = sleepUntil(ctx, time.Now().Add(retryPause)) // the loop checks ctx
	}
}

// awaitCurrent waits until all clients have been current for a time, with a number in the marker. It returns when each became so. It
// fails if some are not within the limit, or if a read has failed on a live connection.
func (s *cacheStorm) awaitCurrent(marker int64, settle time.Duration) (times []time.Time, err error) {
	limit := 2*s.run.params.Timeout + cacheGrace
	until := time.Now().Add(limit)
	times = make([]time.Time, len(s.clients))
	var shown atomic.Int64 // the last value of late
	defer s.run.reportProgress(func() string { return fmt.Sprintf("%d of %d clients are not current", shown.Load(), len(s.clients)) })()
	for {
		late := int64(0)
		for i, c := range s.clients {
			at, current := c.current(marker)
			if !current {
				late++
			}
			times[i] = at
		}
		shown.Store(late)
		now := time.Now()
		switch {
		case s.failed.Load() > 0:
			return nil, fmt.Errorf("%d reads failed on live connections, the first one: %w", s.failed.Load(), *s.firstFailure.Load())
		case late == 0 && now.Sub(newestTime(times)) >= settle:
			return times, nil
		case now.After(until) && late > 0:
			return nil, fmt.Errorf("%d of %d clients did not become current within %v", late, len(s.clients), limit)
		case now.After(until):
			return nil, fmt.Errorf("the %d clients were not current for %v within %v", len(s.clients), settle, limit)
		}
		if err := sleepUntil(s.run.ctx, now.Add(cachePoll)); err != nil {
			return nil, err
		}
	}
}

func newestTime(times []time.Time) time.Time {
	newest := time.Time{}
	for _, at := range times {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// caseResult makes the result. times are when each client was current.
func (s *cacheStorm) caseResult(begin, end usageReading, times []time.Time, others []Figure) Result {
	var all tally
	var dropped int64
	for i, c := range s.clients {
		all.latencies.Add(times[i].Sub(begin.at))
		c.mu.Lock()
		if c.drops > 0 {
			dropped++
		}
		c.mu.Unlock()
	}
	result := s.run.commonResult(&all, begin, end)
	took := end.at.Sub(begin.at)
	result.Seconds, result.PerSecond = roundToTenth(took.Seconds()), roundToTenth(float64(result.Ops)/took.Seconds())
	result.Extra = append([]Figure{
		millisFigure("last client current after", took),
		{Name: "clients that lost their connection", Value: float64(dropped), Unit: unitCount},
		faultFigure("sessions lost", s.expired.Load()),
		{Name: "reads", Value: float64(s.reads.Load()), Unit: unitCount, betterDirection: lessIsBetter},
	}, others...)
	return result
}

func (s *cacheStorm) closeClients() {
	clients := make([]*client.Client, len(s.clients))
	for i, c := range s.clients {
		c.mu.Lock()
		clients[i] = c.client
		c.mu.Unlock()
	}
	s.run.closeOrAbandon(clients)
}

// open opens a session, and has it read everything.
func (c *cacheClient) open(ctx context.Context) error {
	r := c.storm.run
	opened, err := r.openSession(ctx, sessionConfig{
		servers: rotateServers(r.chosenServers, c.index),
		// The reader must never wait for room: each watch has at most one read of its event under way, and one of readAll.
		Config: client.Config{OnEvent: c.onEvent, OnState: c.onState, MaxInFlight: 2 * (r.params.Watches + 1)},
	})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.client = opened
	ended := c.storm.ctx.Err() // if it is nil, closeClients closes the session
	c.mu.Unlock()
	if ended != nil {
		opened.Abandon()
		return ended
	}
	c.readAll()
	return nil
}

// onState reads everything when there is a connection again. The Client calls it on a goroutine of its own.
func (c *cacheClient) onState(change client.StateChange) {
	switch change.State {
	case client.Suspended:
		c.mu.Lock()
		c.connected, c.drops = false, c.drops+1
		c.mu.Unlock()
	case client.Reconnected:
		c.readAll()
	case client.Expired:
		c.storm.expired.Add(1)
		c.mu.Lock()
		c.client, c.connected = nil, false
		c.mu.Unlock()
		for c.storm.ctx.Err() == nil && c.open(c.storm.ctx) != nil {
			_ = sleepUntil(c.storm.ctx, time.Now().Add(retryPause)) // the loop checks ctx
		}
	}
}

// onEvent reads what an event is about. The Client's reader calls it.
func (c *cacheClient) onEvent(e client.Event) {
	switch e.Type {
	case client.DataChanged:
		c.readNode(e.Path)
	case client.ChildrenChanged:
		c.readNames()
	}
}

// readAll reads everything on a new connection. Until all is sent, it counts as a read of its own, so that the client is not current.
// It does nothing if open has not set the session yet: open reads everything then.
func (c *cacheClient) readAll() {
	c.mu.Lock()
	if c.client == nil {
		c.mu.Unlock()
		return
	}
	c.connected = true
	c.pending++
	c.mu.Unlock()
	defer c.finish(0)
	c.readNames()
	var path []byte
	for i := range int64(c.storm.run.params.Watches) {
		path = c.storm.parent.appendNodePath(path[:0], i)
		c.readNode(string(path))
	}
}

// begin counts a read, and returns the session to send it to. ok is false if there is none; then nothing is counted.
func (c *cacheClient) begin() (p client.Pipeline, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == nil {
		return p, false
	}
	c.storm.reads.Add(1)
	c.pending++
	return c.client.Pipeline(), true
}

func (c *cacheClient) readNames() {
	session, ok := c.begin()
	if !ok {
		return
	}
	path := c.storm.parent.path
	done := func(_ []string, _ client.Stat, err error) { c.finishRead(path, 0, err) }
	if err := session.ChildrenAndWatch(c.storm.run.ctx, path, done); err != nil {
		done(nil, client.Stat{}, err)
	}
}

func (c *cacheClient) readNode(path string) {
	session, ok := c.begin()
	if !ok {
		return
	}
	done := func(data []byte, _ client.Stat, err error) {
		number := int64(0)
		if err == nil {
			number, _ = decodeNumber(data) // other data than the bench's are not current
		}
		c.finishRead(path, number, err)
	}
	if err := session.GetAndWatch(c.storm.run.ctx, path, done); err != nil {
		done(nil, client.Stat{}, err)
	}
}

// finishRead finishes a read of a path. If it failed for another reason than a lost connection, it is not read again, and its watch is
// not set: the run fails.
func (c *cacheClient) finishRead(path string, number int64, err error) {
	if err != nil && !hasNoReply(err) && c.storm.run.ctx.Err() == nil {
		first := fmt.Errorf("client %d, %s: %w", c.index, path, err)
		c.storm.firstFailure.CompareAndSwap(nil, &first)
		c.storm.failed.Add(1)
	}
	c.finish(number)
}

// finish counts the end of a read, which found a number in the marker, or 0. If the read failed because the connection is lost, all is
// read again on the next one.
func (c *cacheClient) finish(number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	c.marker = max(c.marker, number)
	if c.pending == 0 {
		c.currentAt = time.Now()
	}
}

// current reports whether the client knows everything, with a number in the marker, and since when.
func (c *cacheClient) current(marker int64) (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.currentAt, c.connected && c.pending == 0 && c.marker >= marker
}
