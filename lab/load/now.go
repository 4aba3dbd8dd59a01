package load

import (
	"time"

	"rollcall/lab/judge"
	"rollcall/lab/result"
)

// Now is the state of the load while it runs.
type Now struct {
	At        result.Millis
	Connected map[string]int // sessions by member
	Suspended int            // sessions whose client has no connection
	Expired   int            // in all so far
	MemberNow                // of the prober that may use any member
	Members   map[string]MemberNow
	Load      result.Load
}

// MemberNow has the times since the last answers to one prober.
type MemberNow struct{ Write, Read result.Millis }

// Now returns the state at this moment. It does not block.
func (l *Load) Now() Now {
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.sinceStartMillis()
	count := r.countSessions()
	n := Now{
		At: now, Connected: count.Connected, Suspended: count.Suspended, Expired: count.Expired,
		Members: map[string]MemberNow{}, Load: r.evidence.Load,
	}
	for key, m := range r.meters {
		member := n.Members[key.member]
		if key.kind == string(judge.Write) {
			member.Write = m.sinceLast(now)
		} else {
			member.Read = m.sinceLast(now)
		}
		n.Members[key.member] = member
	}
	n.MemberNow = n.Members[""]
	delete(n.Members, "")
	return n
}

// StayedFor returns for how long silent sessions may live from now on, after these faults: judge.Evidence.StayedUntil. It
// does not block.
func (l *Load) StayedFor(faults []judge.Fault) time.Duration {
	r := l.recorder
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.sinceStartMillis()
	e := judge.Evidence{Tick: r.evidence.Tick, End: now, Faults: faults, Sessions: r.evidence.Sessions, Reads: r.evidence.Reads, Dropped: r.evidence.Dropped}
	for _, m := range r.meters {
		e.Gaps = append(e.Gaps, m.gap)
	}
	return time.Duration(max(0, e.StayedUntil()-now) * result.Millis(time.Millisecond))
}

// countSessions counts the sessions that live. The caller holds the lock.
func (r *evidenceRecorder) countSessions() result.SessionCount {
	c := result.SessionCount{At: r.sinceStartMillis(), Connected: map[string]int{}, Expired: r.expired}
	for v := range r.lives {
		switch {
		case v.state.On:
			c.Connected[v.state.Member]++
		case v.state.Name == "suspended":
			c.Suspended++
		}
	}
	return c
}

// sampleEvery is the time between two samples of the sessions: the report's axis of time shows no more.
const sampleEvery = 250 * time.Millisecond

// sampleCounts keeps the numbers of sessions until the load stops.
func (l *Load) sampleCounts() {
	for ; !l.isStopping(); l.sleepWhileRunning(sampleEvery) {
		l.recorder.mu.Lock()
		if len(l.recorder.evidence.Counts) < maxCounts {
			l.recorder.evidence.Counts = append(l.recorder.evidence.Counts, l.recorder.countSessions())
		}
		l.recorder.mu.Unlock()
	}
}
