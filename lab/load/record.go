package load

import (
	"cmp"
	"path"
	"slices"
	"sync"
	"time"

	"rollcall/client"
	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// evidenceRecorder collects the Evidence. It is safe for concurrent use. Its methods do not block, so that functions on a
// client's own goroutine may call them.
type evidenceRecorder struct {
	startedAt  time.Time
	memberName func(address string) string

	mu          sync.Mutex
	evidence    judge.Evidence
	puts        int
	lives       map[*sessionLife]bool       // that have not ended
	nodesByName map[string]*judge.Ephemeral // by name, those that may exist
	goneByName  map[string]*judge.Ephemeral // those that an observer has seen go; with nodes, at most maxSessions
	meters      map[meterKey]*gapMeter
	expired     int
	stopped     result.Millis // when the probers were stopped
}

type meterKey struct{ member, kind string }

func newRecorder(cfg *Config) *evidenceRecorder {
	r := &evidenceRecorder{
		startedAt: time.Now(), memberName: cfg.memberName,
		lives: map[*sessionLife]bool{}, nodesByName: map[string]*judge.Ephemeral{}, goneByName: map[string]*judge.Ephemeral{}, meters: map[meterKey]*gapMeter{},
	}
	r.evidence.Tick, r.evidence.Dropped = result.Since(cfg.Tick), map[string]int{}
	return r
}

// sinceStart returns the time since the load began, by the monotonic clock.
func (r *evidenceRecorder) sinceStart() time.Duration { return time.Since(r.startedAt) }

func (r *evidenceRecorder) sinceStartMillis() result.Millis { return result.Since(r.sinceStart()) }

// keepRecord appends a record, or counts it if the limit is reached. The caller holds the lock.
func keepRecord[T any](r *evidenceRecorder, list *[]T, limit int, kind string, record T) {
	if len(*list) >= limit {
		r.evidence.Dropped[kind]++
		return
	}
	*list = append(*list, record)
}

// stateChanged notes a change of the state of a life's session. dialed is when its connection was there.
func (r *evidenceRecorder) stateChanged(v *sessionLife, change client.StateChange, dialed result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.sinceStartMillis() - result.Since(time.Since(change.At)) // the function of the client's Config may run later
	s := judge.State{
		At: at, Name: change.State.String(), On: change.State.IsConnected(),
		Member: r.memberName(change.Server),
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

// noteAnswer notes an answer to a request of a life.
func (r *evidenceRecorder) noteAnswer(v *sessionLife, a judge.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addAnswer(v, a)
}

// addAnswer keeps an answer, in place of an earlier one of the same kind and part of the timeout. The caller holds the
// lock.
func (r *evidenceRecorder) addAnswer(v *sessionLife, a judge.Answer) {
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

// noteOpening notes a new life.
func (r *evidenceRecorder) noteOpening(v *sessionLife) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives[v] = true
}

// noteEnd notes the end of a life: how its client ended it, unless a server has.
func (r *evidenceRecorder) noteEnd(v *sessionLife, how judge.How) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.rec.Ended == judge.Lives {
		v.rec.Ended, v.rec.EndedAt = how, r.sinceStartMillis()
	}
	if r.lives[v] {
		delete(r.lives, v)
		r.keepSession(v)
	}
}

// keepSession keeps the record of a session. Its node stays known to the observers. The caller holds the lock.
func (r *evidenceRecorder) keepSession(v *sessionLife) {
	if v.rec.ID != "" {
		keepRecord(r, &r.evidence.Sessions, maxSessions, judge.KindSessions, v.rec)
	}
}

// noteSession sets what is known of a session once it is open.
func (r *evidenceRecorder) noteSession(v *sessionLife, id string, timeout result.Millis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.ID, v.rec.Timeout, v.rec.Opened, v.timeout = id, timeout, r.sinceStartMillis(), timeout
	r.evidence.Load.Sessions++
}

// noteNodeCreated notes the ephemeral node of a session, and noteNodeMissing that it is gone although the session lives.
func (r *evidenceRecorder) noteNodeCreated(v *sessionLife, path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.Node = &judge.Ephemeral{Path: path, Created: r.sinceStartMillis()}
	if len(r.nodesByName)+len(r.goneByName) < maxSessions {
		r.nodesByName[nameOf(path)] = v.rec.Node
	}
}

func (r *evidenceRecorder) noteNodeMissing(v *sessionLife) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if v.rec.Node.Missing == 0 {
		v.rec.Node.Missing = r.sinceStartMillis()
	}
}

// noteProbe notes an answer to a prober's request, or its failure.
func (r *evidenceRecorder) noteProbe(member, kind string, answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.meters[meterKey{member, kind}]
	if m == nil {
		m = &gapMeter{gap: result.Gap{Member: member, Kind: kind}}
		r.meters[meterKey{member, kind}] = m
	}
	if answered {
		m.noteReply(r.sinceStartMillis())
	} else {
		m.gap.Failed++
	}
}

// noteWrite notes a write to a key.
func (r *evidenceRecorder) noteWrite(k *judge.Key, p judge.Put) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence.Load.Writes++
	switch p.Outcome {
	case judge.Acked:
		k.Acked++
		k.Last = p
	case judge.Unknown:
		k.Unknown++
	case judge.Failed:
	}
	if r.puts >= maxPuts {
		r.evidence.Dropped[judge.KindWrites]++
		return
	}
	r.puts++
	k.Puts = append(k.Puts, p)
}

// lastValue returns the last value of a key that was acknowledged, if its session wrote it. If session is "", any may
// have.
func (r *evidenceRecorder) lastValue(k *judge.Key, session string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if session != "" && k.Last.Session != session {
		return 0
	}
	return k.Last.Value
}

func (r *evidenceRecorder) noteCreate(c judge.Create) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence.Load.Writes++
	keepRecord(r, &r.evidence.Creates, maxCreates, judge.KindCreates, c)
}

// mayCreate reports whether one more create is kept. A create that is not kept could not be judged, so it is not sent.
func (r *evidenceRecorder) mayCreate() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.evidence.Creates) < maxCreates
}

func (r *evidenceRecorder) noteRead(read judge.Read) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence.Load.Reads++
	keepRecord(r, &r.evidence.Reads, maxReads, judge.KindReads, read)
}

func (r *evidenceRecorder) noteStep(s judge.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.At = r.sinceStartMillis()
	if s.Kind == judge.Event {
		r.evidence.Load.Events++
	}
	keepRecord(r, &r.evidence.Watches, maxSteps, judge.KindWatches, s)
}

func (r *evidenceRecorder) noteHold(h judge.Hold) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evidence.Load.Locks++
	keepRecord(r, &r.evidence.Holds, maxHolds, judge.KindHolds, h)
}

// notePause notes that the present session of a client was paused.
func (r *evidenceRecorder) notePause(s *clientSlot, i result.Interval) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.lives {
		if v.slot == s {
			v.rec.Paused = append(v.rec.Paused, i)
		}
	}
}

// finish returns the collected evidence. Nothing is recorded after that.
func (r *evidenceRecorder) finish(keys ...[]*judge.Key) *judge.Evidence {
	r.mu.Lock()
	defer r.mu.Unlock()
	for v := range r.lives { // those that could not end in time
		r.keepSession(v)
	}
	r.evidence.End = r.sinceStartMillis()
	for _, k := range slices.Concat(keys...) {
		r.evidence.Keys = append(r.evidence.Keys, *k)
	}
	for _, m := range r.meters {
		r.evidence.Gaps = append(r.evidence.Gaps, m.finalGap(r.stopped))
	}
	slices.SortFunc(r.evidence.Gaps, func(a, b result.Gap) int {
		return cmp.Or(cmp.Compare(a.Member, b.Member), cmp.Compare(a.Kind, b.Kind))
	})
	slices.SortStableFunc(r.evidence.Sessions, func(a, b judge.Session) int { return cmp.Compare(a.Opened, b.Opened) })
	return &r.evidence
}

// stopMeters ends the measurement of gaps.
func (r *evidenceRecorder) stopMeters() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = r.sinceStartMillis()
}

// nameOf returns the last part of a path.
func nameOf(p string) string { return path.Base(p) }

// noteMoves notes that the client of a session leaves members by itself.
func (r *evidenceRecorder) noteMoves(v *sessionLife) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v.rec.Moves = true
}
