package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/metrics"
	"rollcall/operator/api"
	"rollcall/znode"
)

const (
	// maxStreams limits the event streams of a member: a console for each of a few operators. Most of maxConns
	// remains for others.
	maxStreams = 16
	// maxUnreadEvents is the queue of a reader, enough for several seconds. A slower reader is dropped.
	maxUnreadEvents = 256
	// pollInterval is the time between two polls of the ensemble while there are readers.
	pollInterval = time.Second
	// maxSessionEvents limits the session events per pollInterval. A person can follow no more, and thousands of
	// sessions may end at once. The others are counted.
	maxSessionEvents = 50
	// maxPendingEvents limits the session events that wait to be sent.
	maxPendingEvents = 256
	// maxLeaderEvents limits the leader events that wait to be sent, and those kept for streams that begin
	// later.
	maxLeaderEvents = 8
)

// eventStreams has the event streams of all clients. While there are any, one set of loops polls the ensemble
// for all of them. It is safe for concurrent use.
type eventStreams struct {
	ops              Operations
	authorizer       *authorizer
	memberRemoved    func() bool                       // from the ensemble: what is sent would be old
	hasReaders       atomic.Bool                       // there are readers
	sessionEvents    chan api.SessionEvent             // what apply has reported, and is not sent yet
	leaderEvents     chan api.LeaderEvent              // likewise
	lastLeaderEvents atomic.Pointer[[]api.LeaderEvent] // the last changes of the leader; apply replaces it
	omittedEvents    atomic.Int64                      // events about sessions that were not sent

	mu           sync.Mutex
	ctx          context.Context // of run; nil: it does not run
	readers      map[*eventReader]bool
	streamCount  uint64         // streams so far
	stopLoops    func()         // ends the loops of the present readers
	runningLoops sync.WaitGroup // is added to while ctx is set
}

// eventReader is one stream.
type eventReader struct {
	frames        chan sentEvent // capacity maxUnreadEvents
	endSignal     chan struct{}  // closed when the stream has to end
	administrator string         // "": a reader without credentials
	number        uint64         // in the order in which streams began
}

// sentEvent is an event as it is sent.
type sentEvent struct {
	frame       []byte
	path        string // in frame; "": none
	withoutPath []byte // for readers that may not see path
}

func newEventStreams(ops Operations, a *authorizer, memberRemoved func() bool) *eventStreams {
	return &eventStreams{
		ops: ops, authorizer: a, memberRemoved: memberRemoved, sessionEvents: make(chan api.SessionEvent, maxPendingEvents),
		leaderEvents: make(chan api.LeaderEvent, maxLeaderEvents), readers: map[*eventReader]bool{},
	}
}

// run accepts readers until ctx ends. It then ends all streams and loops.
func (s *eventStreams) run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.ctx = nil
	for r := range s.readers {
		s.removeReaderLocked(r)
	}
	s.mu.Unlock()
	s.runningLoops.Wait()
}

// addReader adds the stream of an administrator, or of a reader without credentials if by is "". If all places
// are taken, an administrator replaces the oldest reader without credentials. The first stream starts the loops.
func (s *eventStreams) addReader(by string) (*eventReader, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return nil, &Failure{Status: http.StatusServiceUnavailable, Text: "this member is stopping"}
	}
	if len(s.readers) == maxStreams {
		oldest := s.oldestAnonymous()
		if by == "" || oldest == nil {
			return nil, &Failure{
				Status: http.StatusServiceUnavailable,
				Text:   "this member serves as many streams of events as it can; close one, sign in, or use another member",
			}
		}
		s.removeReaderLocked(oldest)
	}
	s.streamCount++
	r := &eventReader{
		frames: make(chan sentEvent, maxUnreadEvents), endSignal: make(chan struct{}), administrator: by,
		number: s.streamCount,
	}
	for _, e := range s.lastLeaderChanges() {
		r.frames <- sentEvent{frame: eventFrame("leader", e)} // it has capacity
	}
	if s.readers[r] = true; len(s.readers) == 1 {
		s.startLoops()
	}
	return r, nil
}

// oldestAnonymous returns the oldest stream without credentials, or nil. The caller holds the lock.
func (s *eventStreams) oldestAnonymous() (oldest *eventReader) {
	for r := range s.readers {
		if r.administrator == "" && (oldest == nil || r.number < oldest.number) {
			oldest = r
		}
	}
	return oldest
}

// removeReader ends a stream, unless it has been dropped. The last one ends the loops.
func (s *eventStreams) removeReader(r *eventReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[r] {
		s.removeReaderLocked(r)
	}
}

// removeReaderLocked is removeReader for a caller that holds the lock.
func (s *eventStreams) removeReaderLocked(r *eventReader) {
	delete(s.readers, r)
	close(r.endSignal)
	if len(s.readers) == 0 {
		s.hasReaders.Store(false)
		s.stopLoops()
	}
}

// startLoops starts the loops. The caller holds the lock, and s.ctx is set.
func (s *eventStreams) startLoops() {
	var ctx context.Context
	ctx, s.stopLoops = context.WithCancel(s.ctx)
	drainChannel(s.sessionEvents) // they are for earlier readers
	drainChannel(s.leaderEvents)
	s.hasReaders.Store(true)
	load, slow := loadMeter{ops: s.ops}, slowFollower{ops: s.ops}
	for _, look := range []func(context.Context){
		s.sendStatus, s.sendBuckets,
		func(ctx context.Context) { s.sendSlow(slow.newRequests(ctx, time.Now())) },
		func(context.Context) { s.broadcast("load", load.loadSinceLast(time.Now())) },
	} {
		s.runningLoops.Go(func() { runPeriodically(ctx, look) })
	}
	s.runningLoops.Go(func() { s.sendReported(ctx) })
}

// drainChannel empties a channel without blocking.
func drainChannel[T any](c <-chan T) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// runPeriodically calls poll at once and then every pollInterval, until ctx ends. It skips ticks during a slow
// call.
func runPeriodically(ctx context.Context, look func(context.Context)) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// sendStatus sends the status of all members, unless this member is too busy or does not reply itself.
func (s *eventStreams) sendStatus(ctx context.Context) {
	if a, err := s.ops.MemberStatuses(ctx); err == nil {
		s.broadcast("status", a)
	}
}

func (s *eventStreams) sendBuckets(ctx context.Context) {
	if b, err := s.ops.ExpiryBuckets(ctx); err == nil {
		s.broadcast("buckets", b)
	}
}

// sendReported sends what apply reports, until ctx ends.
func (s *eventStreams) sendReported(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for room := maxSessionEvents; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			room = maxSessionEvents
			if n := s.omittedEvents.Swap(0); n > 0 {
				s.broadcast("omitted", api.Omitted{Sessions: n})
			}
		case e := <-s.leaderEvents:
			s.broadcast("leader", e)
		case e := <-s.sessionEvents:
			if room == 0 {
				s.omittedEvents.Add(1)
				continue
			}
			room--
			s.broadcast("session", e)
		}
	}
}

// eventFrame encodes an event as it is sent.
func eventFrame(name string, event any) []byte {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\ndata: ")
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(event); err != nil {
		panic("admin: the types of package api do not encode: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// broadcast sends an event without a path to all readers.
func (s *eventStreams) broadcast(name string, event any) {
	s.send(sentEvent{frame: eventFrame(name, event)})
}

// send sends an event to all readers, and drops those whose queue is full.
func (s *eventStreams) send(sent sentEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.readers {
		select {
		case r.frames <- sent:
		default:
			s.removeReaderLocked(r)
		}
	}
}

// SessionOpened reports a new session. Apply calls it and the methods below. They never block, and do next to
// nothing without readers.
func (h *HTTP) SessionOpened(s znode.Session) {
	h.streams.queueSessionEvent(s, api.SessionEvent{Kind: "created"})
}

// SessionMoved reports that a session was attached to another connection. from is the previous member.
func (h *HTTP) SessionMoved(s znode.Session, from uint32) {
	h.streams.queueSessionEvent(s, api.SessionEvent{Kind: "moved", FromMember: from})
}

// SessionEnded reports the end of a session.
func (h *HTTP) SessionEnded(s znode.Session, end znode.SessionEnd) {
	h.streams.queueSessionEvent(s, api.SessionEvent{
		Kind: "ended", Reason: end.Reason.String(), EndedBy: end.RequestedBy, SilentMs: end.SilentFor.Milliseconds(),
		EphemeralCount: end.EphemeralCount,
	})
}

// queueSessionEvent queues e with the fields of its session.
func (s *eventStreams) queueSessionEvent(of znode.Session, e api.SessionEvent) {
	if !s.hasReaders.Load() {
		return
	}
	e.At, e.ID, e.MemberID = utcMillis(time.Now()), of.ID.String(), of.Owner.Member
	e.Address, e.TimeoutMs = of.Address, of.Timeout.Milliseconds()
	select {
	case s.sessionEvents <- e:
	default:
		s.omittedEvents.Add(1)
	}
}

// LeaderChanged reports that a leader has opened its term, at a log time, and why it leads.
func (h *HTTP) LeaderChanged(leader uint32, term uint64, why znode.LeaderCause, opened time.Time) {
	e := api.LeaderEvent{
		At: utcMillis(opened), LeaderID: leader, Term: term,
		Cause: why.Kind.String(), FormerID: why.Former, SilentMs: why.Silent.Milliseconds(),
	}
	last := h.streams.lastLeaderChanges()
	last = append(slices.Clone(last[max(0, len(last)-maxLeaderEvents+1):]), e)
	h.streams.lastLeaderEvents.Store(&last)
	if !h.streams.hasReaders.Load() {
		return
	}
	select {
	case h.streams.leaderEvents <- e:
	default: // the next status shows it
	}
}

// lastLeaderChanges returns the last changes of the leader, oldest first.
func (s *eventStreams) lastLeaderChanges() []api.LeaderEvent {
	if led := s.lastLeaderEvents.Load(); led != nil {
		return *led
	}
	return nil
}

// Load counts the requests of a member's clients since its start, or since its counters were reset.
type Load struct {
	Reads, Updates      metrics.Summary // latency of requests that change nothing, and of the others
	OutstandingRequests int             // requests
	Connections         int
}

// loadMeter turns the counters of a member into rates.
type loadMeter struct {
	ops      Operations
	lastLoad Load
	lastRead time.Time // when last was read; zero: not yet
}

// loadSinceLast returns the load since the previous call. The first call returns no rates.
func (m *loadMeter) loadSinceLast(now time.Time) api.Load {
	load, last, since := m.ops.ReadLoad(), m.lastLoad, now.Sub(m.lastRead)
	if m.lastRead.IsZero() {
		last, since = load, 0
	}
	m.lastLoad, m.lastRead = load, now
	l := api.Load{
		At: utcMillis(now), OverMs: since.Milliseconds(), QueuedRequests: load.OutstandingRequests,
		Connections: load.Connections,
	}
	l.ReadsPerS, l.ReadAvgUs = ratePerSecond(load.Reads, last.Reads, since)
	l.UpdatesPerS, l.UpdateAvgUs = ratePerSecond(load.Updates, last.Updates, since)
	l.RequestsPerS, l.AvgUs = ratePerSecond(load.Reads.MergeWithoutPercentiles(load.Updates),
		last.Reads.MergeWithoutPercentiles(last.Updates), since)
	return l
}

// ratePerSecond returns the measurements per second and their average in microseconds.
func ratePerSecond(now, last metrics.Summary, since time.Duration) (perSecond float64, avgUs int64) {
	if now.Count < last.Count { // the counters were set to zero
		last = metrics.Summary{}
	}
	n := now.Count - last.Count
	if n == 0 || since <= 0 {
		return 0, 0
	}
	return float64(n) / since.Seconds(), max(0, (now.Sum-last.Sum).Microseconds()/int64(n))
}

const (
	// heartbeatInterval is the time between comments in a silent stream. After several missing ones, a reader
	// takes the stream for broken.
	heartbeatInterval = 5 * time.Second
	// maxStreamTime limits a stream. A forgotten page connects again.
	maxStreamTime = 24 * time.Hour
	// maxAnonymousStreamTime is the limit without credentials. Places are few, and a visible page reconnects at
	// once.
	maxAnonymousStreamTime = 10 * time.Minute
)

func (s *eventStreams) routes() []endpoint {
	return []endpoint{
		{
			method: "GET", path: "/v1/events", access: readAccess, readsEnsemble: true, content: showsState, timeout: maxStreamTime,
			responseBody: api.Events{}, failureStatuses: []int{http.StatusServiceUnavailable},
			help:  "a stream of events",
			serve: s.serveEvents,
		},
	}
}

// serveEvents sends events until the client leaves, falls behind, or the member stops.
func (s *eventStreams) serveEvents(w http.ResponseWriter, r *http.Request) {
	if q := newQuery(&endpoint{}, r, s.authorizer.administratorOf(r)); q.fault != nil {
		q.fault.write(w, r)
		return
	}
	by, lasts := s.authorizer.administratorOf(r), maxStreamTime
	if by == "" {
		lasts = maxAnonymousStreamTime
	}
	one, failure := s.addReader(by)
	if failure != nil {
		failure.write(w, r)
		return
	}
	defer s.removeReader(one)
	control := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	beat, over := time.NewTicker(heartbeatInterval), time.NewTimer(lasts)
	defer beat.Stop()
	defer over.Stop()
	frame := []byte("retry: 1000\n\n")
	for {
		if s.memberRemoved() {
			return // the next request is rejected with the reason
		}
		if _, err := w.Write(frame); err != nil {
			return
		}
		if control.Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-one.endSignal:
			return
		case <-over.C:
			return
		case <-beat.C:
			frame = []byte(":\n\n")
		case e := <-one.frames:
			if frame = e.frame; e.path != "" && !s.authorizer.pathFilterFor(r).isVisible(e.path) {
				frame = e.withoutPath
			}
		}
	}
}
