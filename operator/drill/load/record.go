package load

import (
	"cmp"
	"path"
	"slices"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/operator/drill/judge"
	"rollcall/operator/drill/result"
)

// recorder collects the Evidence. It is safe for concurrent use. Its methods do not block, so that functions on a
// client's own goroutine may call them.
type recorder struct {
	began  time.Time
	member func(address string) string

	mu      sync.Mutex
	e       judge.Evidence
	puts    int
	lives   map[*life]bool              // that have not ended
	nodes   map[string]*judge.Ephemeral // by name, those that may exist
	gone    map[string]*judge.Ephemeral // those that an observer has seen go; with nodes, at most maxSessions
	meters  map[meterKey]*meter
	expired int
	stopped result.Millis // when the probers were told to end
}

type meterKey struct{ member, kind string }

func newRecorder(cfg *Config) *recorder {
	r := &recorder{
		began: time.Now(), member: cfg.member,
		lives: map[*life]bool{}, nodes: map[string]*judge.Ephemeral{}, gone: map[string]*judge.Ephemeral{}, meters: map[meterKey]*meter{},
	}
	r.e.Tick, r.e.Dropped = result.Since(cfg.Tick), map[string]int{}
	return r
}

// since returns the time since the load began, by the monotonic clock.
func (r *recorder) since() time.Duration { return time.Since(r.began) }

func (r *recorder) now() result.Millis { return result.Since(r.since()) }

// keep appends a record, or counts it if the limit is reached. The caller holds the lock.
func keep[T any](r *recorder, list *[]T, limit int, kind string, record T) {
	if len(*list) >= limit {
		r.e.Dropped[kind]++
		return
	}
	*list = append(*list, record)
}

// stateChanged notes a change of the state of a life's session. dialed is when its connection was there.
func (r *recorder) stateChanged(v *life, change client.StateChange, dialed result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.now() - result.Since(time.Since(change.At)) // the function of the client's Config may run later
	s := judge.State{
		At: at, Name: change.State.String(), On: change.State.IsConnected(),
		Member: r.member(change.Server),
	}
	if len(v.rec.States) == judge.MaxStates {
		v.rec.States = slices.Delete(v.rec.States, 0, 1)
	}
	v.rec.States = append(v.rec.States, s)
	v.state = s
	switch {
	case s.On && dialed <= at: // else it is of a later connection
		r.addAnswer(v, judge.Answer{Sent: dialed, At: at, Ask: judge.Connect, Member: s.Member})
	case change.State == client.Expired && v.rec.Ended == judge.Lives:
		v.rec.Ended, v.rec.EndedAt = judge.Expired, at
		r.expired++
	case change.State == client.AuthFailed && v.rec.Ended == judge.Lives:
		v.rec.Ended, v.rec.EndedAt = judge.Abandoned, at
	}
}

// answersPerTimeout is the number of parts of a timeout of which the last answer of each kind is kept, and
// answerKinds that of the kinds of requests of one client at a time.
const (
	answersPerTimeout = 16
	answerKinds       = 4
)

// answered notes an answer to a request of a life.
func (r *recorder) answered(v *life, a judge.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addAnswer(v, a)
}

// addAnswer keeps an answer, in place of an earlier one of the same kind and part of the timeout. The caller holds the
// lock.
func (r *recorder) addAnswer(v *life, a judge.Answer) {
	part := max(1, v.timeout/answersPerTimeout)
	list := v.rec.Answers
	for i := len(list) - 1; i >= max(0, len(list)-answerKinds); i-- {
		if b := list[i]; b.Ask == a.Ask && b.Member == a.Member && int(b.Sent/part) == int(a.Sent/part) {
			list[i] = a
			return
		}
	}
	if len(list) == judge.MaxAnswers {
		list = slices.Delete(list, 0, 1)
	}
	v.rec.Answers = append(list, a)
}

// born notes a new life.
func (r *recorder) born(v *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives[v] = true
}

// ended notes the end of a life: how its client ended it, unless a server has.
func (r *recorder) ended(v *life, how judge.How) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.rec.Ended == judge.Lives {
		v.rec.Ended, v.rec.EndedAt = how, r.now()
	}
	if r.lives[v] {
		delete(r.lives, v)
		r.keepSession(v)
	}
}

// keepSession keeps the record of a session. Its node stays known to the observers. The caller holds the lock.
func (r *recorder) keepSession(v *life) {
	if v.rec.ID != "" {
		keep(r, &r.e.Sessions, maxSessions, judge.KindSessions, v.rec)
	}
}

// named sets what is known of a session once it is open.
func (r *recorder) named(v *life, id string, timeout result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.ID, v.rec.Timeout, v.rec.Opened, v.timeout = id, timeout, r.now(), timeout
	r.e.Load.Sessions++
}

// nodeCreated notes the ephemeral node of a session, and nodeMissing that it is gone although the session lives.
func (r *recorder) nodeCreated(v *life, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.Node = &judge.Ephemeral{Path: path, Created: r.now()}
	if len(r.nodes)+len(r.gone) < maxSessions {
		r.nodes[nameOf(path)] = v.rec.Node
	}
}

func (r *recorder) nodeMissing(v *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.rec.Node.Missing == 0 {
		v.rec.Node.Missing = r.now()
	}
}

// meter notes an answer to a prober's request, or its failure.
func (r *recorder) meter(member, kind string, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.meters[meterKey{member, kind}]
	if m == nil {
		m = &meter{gap: result.Gap{Member: member, Kind: kind}}
		r.meters[meterKey{member, kind}] = m
	}
	if answered {
		m.answered(r.now())
	} else {
		m.gap.Failed++
	}
}

// put notes a write to a key.
func (r *recorder) put(k *judge.Key, p judge.Put) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.e.Load.Writes++
	switch p.Outcome {
	case judge.Acked:
		k.Acked++
		k.Last = p
	case judge.Unknown:
		k.Unknown++
	case judge.Failed:
	}
	if r.puts >= maxPuts {
		r.e.Dropped[judge.KindWrites]++
		return
	}
	r.puts++
	k.Puts = append(k.Puts, p)
}

// lastValue returns the last value of a key that was acknowledged, if its session wrote it. If session is "", any may
// have.
func (r *recorder) lastValue(k *judge.Key, session string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if session != "" && k.Last.Session != session {
		return 0
	}
	return k.Last.Value
}

func (r *recorder) create(c judge.Create) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.e.Load.Writes++
	keep(r, &r.e.Creates, maxCreates, judge.KindCreates, c)
}

// mayCreate reports whether one more create is kept. A create that is not kept could not be judged, so it is not sent.
func (r *recorder) mayCreate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.e.Creates) < maxCreates
}

func (r *recorder) read(read judge.Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.e.Load.Reads++
	keep(r, &r.e.Reads, maxReads, judge.KindReads, read)
}

func (r *recorder) step(s judge.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.At = r.now()
	if s.Kind == judge.Event {
		r.e.Load.Events++
	}
	keep(r, &r.e.Watches, maxSteps, judge.KindWatches, s)
}

func (r *recorder) hold(h judge.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.e.Load.Locks++
	keep(r, &r.e.Holds, maxHolds, judge.KindHolds, h)
}

// pausedSeat notes that the present session of a client was paused.
func (r *recorder) pausedSeat(s *seat, i result.Interval) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.lives {
		if v.seat == s {
			v.rec.Paused = append(v.rec.Paused, i)
		}
	}
}

// evidence returns the collected evidence. Nothing is recorded after that.
func (r *recorder) evidence(keys ...[]*judge.Key) *judge.Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.lives { // those that could not end in time
		r.keepSession(v)
	}
	r.e.End = r.now()
	for _, k := range slices.Concat(keys...) {
		r.e.Keys = append(r.e.Keys, *k)
	}
	for _, m := range r.meters {
		r.e.Gaps = append(r.e.Gaps, m.final(r.stopped))
	}
	slices.SortFunc(r.e.Gaps, func(a, b result.Gap) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Kind, b.Kind))
	})
	slices.SortStableFunc(r.e.Sessions, func(a, b judge.Session) int { return cmp.Compare(a.Opened, b.Opened) })
	return &r.e
}

// stop ends the measurement of gaps.
func (r *recorder) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = r.now()
}

// nameOf returns the last part of a path.
func nameOf(p string) string { return path.Base(p) }

// moves notes that the client of a session leaves members by itself.
func (r *recorder) moves(v *life) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.Moves = true
}
