package bench

import (
	"context"
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
	// expectWrites is called before the nodes that the sessions watch are written.
	expectWrites(w writeSchedule) error
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
	Burst   int           // sessions to open at a time, every openEvery
	Sources int           // see Params
	Watched *watchedNodes // nil: the sessions watch nothing
}

// sessionCounts counts events of sessions. A session is back when it has a connection again, and its latency counts from when it
// had none.
type sessionCounts struct {
	Pings   *Histogram // within the measured time
	Seen    int64      // pings seen
	Expired int64
	Dropped int64      // connections dropped
	Back    *Histogram // sessions that came back
	Watches watchCounts
}

func newSessionCounts() sessionCounts {
	return sessionCounts{Pings: &Histogram{}, Back: &Histogram{}, Watches: watchCounts{Events: &Histogram{}}}
}

func (h *sessionCounts) add(o sessionCounts) {
	h.Pings.Merge(o.Pings)
	h.Seen += o.Seen
	h.Expired += o.Expired
	h.Dropped += o.Dropped
	h.Back.Merge(o.Back)
	h.Watches.add(o.Watches)
}

// localHolder is a holder in this process.
type localHolder struct {
	run     *caseRun
	clients []*client.Client

	mu        sync.Mutex
	counts    sessionCounts
	measuring bool
	writes    writeSchedule
}

func newLocalHolder(r *caseRun) *localHolder {
	return &localHolder{run: r, counts: newSessionCounts()}
}

func (h *localHolder) openSessions(ctx context.Context, p sessionShare) error {
	var watching []*watchingSession
	if p.Watched != nil {
		for i := range p.Count {
			watching = append(watching, newWatchingSession(h, p.Watched, p.First+i))
		}
	}
	var err error
	began := time.Now()
	h.clients, err = h.run.openManySessions(ctx, p.Count, func(i int) sessionConfig {
		_ = sleepUntil(ctx, began.Add(time.Duration(i/p.Burst)*openEvery)) // openManySessions checks ctx
		config := client.Config{OnPong: h.recordPing, OnState: h.stateRecorder()}
		if watching != nil {
			config.OnEvent = watching[i].onEvent
			// The reader must never wait for room. A watch has one read under way, or two if an event overtakes the reply.
			config.MaxInFlight = 2 * (p.Watched.PerSession + 1)
		}
		return sessionConfig{servers: rotateServers(p.Servers, p.First+i), Config: config}
	}, func(i int, c *client.Client) {
		if watching != nil {
			watching[i].client = c
		}
	})
	if err != nil {
		return err
	}
	return inParallel(ctx, len(watching), parallelOpens, func(ctx context.Context, i int) error { return watching[i].setWatches(ctx) })
}

func (h *localHolder) recordPing(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts.Seen++
	if h.measuring {
		h.counts.Pings.Add(d)
	}
}

// stateRecorder returns a function that records the changes of one session's state.
func (h *localHolder) stateRecorder() func(client.StateChange) {
	var lost time.Time // when it had no connection any more
	return func(change client.StateChange) {
		h.mu.Lock()
		defer h.mu.Unlock()
		switch change.State {
		case client.Expired:
			h.counts.Expired++
		case client.Suspended:
			h.counts.Dropped++
			lost = time.Now()
		case client.Reconnected:
			h.counts.Back.Add(time.Since(lost))
		}
	}
}

func (h *localHolder) expectWrites(w writeSchedule) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = w
	return nil
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
	sum := newSessionCounts()
	sum.add(h.counts)
	return sum, nil
}

func (h *localHolder) closeSessions(ctx context.Context) (int, error) {
	return closeAtOnce(ctx, h.clients), nil
}

func (h *localHolder) abandonSessions() { abandonAll(h.clients) }
