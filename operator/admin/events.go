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
	// maxStreams limits the streams of events that a member serves at once: a console for each of a few
	// operators. It leaves most of maxConns for others.
	maxStreams = 16
	// maxUnreadEvents limits the unread events of a reader: about those of some seconds. With one more, the reader
	// is dropped.
	maxUnreadEvents = 256
	// pollInterval is the time between two polls of the ensemble while there are readers.
	pollInterval = time.Second
	// maxSessionEvents limits the events about sessions in that time. A person can follow no more,
	// and thousands of sessions may end at once; the others are counted.
	maxSessionEvents = 50
	// maxPendingEvents limits the events about sessions that wait to be sent: those of a few entries of the log.
	maxPendingEvents = 256
	// maxLeaderEvents is the same limit for changes of the leader. An election takes longer than a poll. As many of the last changes are
	// kept for streams that begin.
	maxLeaderEvents = 8
)

// eventStreams has the streams of events that clients read. While there are any, one set of loops looks at the ensemble
// for all of them. Make one with newStreams. It is safe for concurrent use.
type eventStreams struct {
	ops              Operations
	authorizer       *authorizer
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
	frames        chan []byte   // has room for maxBehind
	endSignal     chan struct{} // closed when the stream has to end
	administrator string        // who reads; "": somebody without credentials
	number        uint64        // in the order in which streams began
}

func newEventStreams(ops Operations, a *authorizer) *eventStreams {
	return &eventStreams{
		ops: ops, authorizer: a, sessionEvents: make(chan api.SessionEvent, maxPendingEvents), leaderEvents: make(chan api.LeaderEvent, maxLeaderEvents), readers: map[*eventReader]bool{},
	}
}

// run lets streams be read until ctx ends. It then ends them, and the loops.
func (s *eventStreams) run(ctx context.Context) {
	s.mu.Lock()
	s.ctx = ctx
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.ctx = nil
	for r := range s.readers {
		s.dropReader(r)
	}
	s.mu.Unlock()
	s.runningLoops.Wait()
}

// addReader adds a stream of a reader, by; "" is one without credentials. If there is no place left, a reader with
// credentials takes that of the oldest stream of one without. The first stream starts the loops.
func (s *eventStreams) addReader(by string) (*eventReader, *Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil {
		return nil, &Failure{Status: http.StatusServiceUnavailable, Text: "this member is stopping"}
	}
	if len(s.readers) == maxStreams {
		oldest := s.oldestAnonymous()
		if by == "" || oldest == nil {
			return nil, &Failure{Status: http.StatusServiceUnavailable, Text: "this member serves as many streams of events as it can; close one, sign in, or ask another member"}
		}
		s.dropReader(oldest)
	}
	s.streamCount++
	r := &eventReader{frames: make(chan []byte, maxUnreadEvents), endSignal: make(chan struct{}), administrator: by, number: s.streamCount}
	for _, e := range s.lastLeaderChanges() {
		r.frames <- eventFrame("leader", e) // it has room
	}
	if s.readers[r] = true; len(s.readers) == 1 {
		s.startLoops()
	}
	return r, nil
}

// oldestAnonymous returns the oldest stream of a reader without credentials, or nil. The caller holds the lock.
func (s *eventStreams) oldestAnonymous() (oldest *eventReader) {
	for r := range s.readers {
		if r.administrator == "" && (oldest == nil || r.number < oldest.number) {
			oldest = r
		}
	}
	return oldest
}

// removeReader ends a stream, if it has not been dropped. The last one ends the loops.
func (s *eventStreams) removeReader(r *eventReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[r] {
		s.dropReader(r)
	}
}

// dropReader does the same for a caller that holds the lock.
func (s *eventStreams) dropReader(r *eventReader) {
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
	load := loadMeter{ops: s.ops}
	for _, look := range []func(context.Context){s.sendStatus, s.sendBuckets, func(context.Context) { s.broadcast("load", load.read(time.Now())) }} {
		s.runningLoops.Go(func() { runPeriodically(ctx, look) })
	}
	s.runningLoops.Go(func() { s.sendReported(ctx) })
}

// drainChannel empties a channel. It does not wait, even if others receive from it, too.
func drainChannel[T any](c <-chan T) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

// runPeriodically calls look at once and then each pollInterval, until ctx ends. If a call takes longer, the next one is left out.
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

// sendStatus sends the status of all members. If this member has too many questions already, or does not answer
// itself, there is none.
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

// sendReported sends what happens, until ctx ends.
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

// eventFrame returns an event as it is sent.
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

// broadcast sends an event to all readers, and drops those that are too far behind.
func (s *eventStreams) broadcast(name string, event any) {
	sent := eventFrame(name, event)
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.readers {
		select {
		case r.frames <- sent:
		default:
			s.dropReader(r)
		}
	}
}

// reportSession notes an event about a session. Apply calls it, so it never waits.
func (s *eventStreams) reportSession(e api.SessionEvent) {
	e.At = utcMillis(time.Now())
	select {
	case s.sessionEvents <- e:
	default:
		s.omittedEvents.Add(1)
	}
}

// The following methods report to the readers of events what this member has applied. Apply calls them. They do
// not block, and do next to nothing while nobody reads.

// SessionOpened reports that a session was created.
func (h *HTTP) SessionOpened(s znode.Session) {
	if h.streams.hasReaders.Load() {
		h.streams.reportSession(sessionEvent("created", s))
	}
}

// SessionMoved reports that a session was attached to another connection. from is the member before.
func (h *HTTP) SessionMoved(s znode.Session, from uint32) {
	if h.streams.hasReaders.Load() {
		e := sessionEvent("moved", s)
		e.FromMember = from
		h.streams.reportSession(e)
	}
}

// SessionEnded reports that a session has ended.
func (h *HTTP) SessionEnded(s znode.Session, end znode.SessionEnd) {
	if h.streams.hasReaders.Load() {
		e := sessionEvent("ended", s)
		e.Reason, e.EndedBy, e.SilentMs, e.EphemeralCount = end.Reason.String(), end.RequestedBy, end.SilentFor.Milliseconds(), end.EphemeralCount
		h.streams.reportSession(e)
	}
}

// LeaderChanged reports that a leader has opened its term, and when by the log's time.
func (h *HTTP) LeaderChanged(leader uint32, term uint64, opened time.Time) {
	e := api.LeaderEvent{At: utcMillis(opened), LeaderID: leader, Term: term}
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

func sessionEvent(kind string, s znode.Session) api.SessionEvent {
	return api.SessionEvent{Kind: kind, ID: s.ID.String(), MemberID: s.Owner.Member, Address: s.Address, TimeoutMs: s.Timeout.Milliseconds()}
}

// Load counts the requests of a member's clients since it started, or since its counters were reset.
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

// read returns the load since the last call. The first time there is none.
func (m *loadMeter) read(now time.Time) api.Load {
	load, last, since := m.ops.ReadLoad(), m.lastLoad, now.Sub(m.lastRead)
	if m.lastRead.IsZero() {
		last, since = load, 0
	}
	m.lastLoad, m.lastRead = load, now
	l := api.Load{At: utcMillis(now), OverMs: since.Milliseconds(), QueuedRequests: load.OutstandingRequests, Connections: load.Connections}
	l.ReadsPerS, l.ReadAvgUs = ratePerSecond(load.Reads, last.Reads, since)
	l.UpdatesPerS, l.UpdateAvgUs = ratePerSecond(load.Updates, last.Updates, since)
	l.RequestsPerS, l.AvgUs = ratePerSecond(load.Reads.Merge(load.Updates), last.Reads.Merge(last.Updates), since)
	return l
}

// ratePerSecond returns the number of measurements in a second, and their average in microseconds.
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
