package follower

import (
	"iter"
	"math"
	"sync"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// renewalsPerLock is the number of touches of an acknowledged batch that are handled while connections and
// apply may have to wait: a few tens of microseconds.
const renewalsPerLock = 256

// leases are the leases of the sessions that this member's connections hold. Make one with newLeases. It is
// safe for concurrent use, and nothing blocks.
type leases struct {
	clock    monotonic.Clock
	timeBase time.Time // the durations of leases count from here, by clock

	mu        sync.Mutex
	bySession map[jute.SessionID]lease
	// lastHeard has the sessions that the state gives to this process, and that no connection here holds any more: when
	// they were last heard, as lease.heard. A session leaves it when it ends, or when its client resumes it.
	lastHeard   map[jute.SessionID]time.Duration
	justGranted []jute.SessionID              // leases made by the entry that is being applied
	vouchWaits  map[jute.SessionID]*vouchWait // of the sessions for which a Vouch waits
}

// lease is one connection's lease of a session.
type lease struct {
	conn       uint64
	validUntil time.Duration // inclusive
	heard      time.Duration // the newest touch that was acknowledged, or that noteHeard has seen
	appliedAt  time.Duration // end of the entry that made the lease; 0 while it is being applied
	timeoutMs  uint32        // granted
	// the lease had expired when it was made, and takeExpiredOnGrant has not returned that yet
	lateUnreported bool
	closeRequested bool
}

func (l *lease) timeout() time.Duration { return time.Duration(l.timeoutMs) * time.Millisecond }

// vouchWait is shared by all Vouch calls that wait for one session.
type vouchWait struct {
	done    chan struct{} // closed when err is final
	err     error
	waiters int
}

func newLeases(clock monotonic.Clock) *leases {
	return &leases{
		clock:      clock,
		timeBase:   clock.Now().Add(-1), // so that appliedAt is never 0
		bySession:  make(map[jute.SessionID]lease),
		lastHeard:  make(map[jute.SessionID]time.Duration),
		vouchWaits: make(map[jute.SessionID]*vouchWait),
	}
}

// leaseSpan returns the duration of a lease, from when the client was heard. The rest of the timeout allows for
// clocks that run at different speeds.
func leaseSpan(timeout time.Duration) time.Duration { return timeout - timeout/10 }

// grantLease gives a session to a connection whose create or attach was first sent at sent.
func (s *leases) grantLease(id jute.SessionID, conn uint64, timeout time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := sent.Sub(s.timeBase)
	until := heard + leaseSpan(timeout)
	s.bySession[id] = lease{
		conn: conn, timeoutMs: uint32(timeout.Milliseconds()), validUntil: until, heard: heard,
		lateUnreported: s.clock.Now().Sub(s.timeBase) > until,
	}
	delete(s.lastHeard, id)
	s.justGranted = append(s.justGranted, id)
}

// recordUnheld records a session that was given to a connection that has ended, whose create or attach was first sent at sent.
func (s *leases) recordUnheld(id jute.SessionID, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastHeard[id] = sent.Sub(s.timeBase)
}

// stampNewLeases is called when an entry has been applied. Touches made from now on are flushed with
// an applied index that covers the new leases.
func (s *leases) stampNewLeases(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.justGranted {
		if l, ok := s.bySession[id]; ok && l.appliedAt == 0 {
			l.appliedAt = now.Sub(s.timeBase)
			s.bySession[id] = l
		}
	}
	s.justGranted = s.justGranted[:0]
}

// endIfHeldBy ends the lease of a session if conn holds it. The session stays this member's.
func (s *leases) endIfHeldBy(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.bySession[id]; ok && l.conn == conn {
		s.endLease(id, errNotHeld)
	}
}

// endMoved forgets a session that conn held, or held last, because the session has another owner.
func (s *leases) endMoved(id jute.SessionID, conn uint64) {
	s.endIfHeldBy(id, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.lastHeard, id)
}

// markClosing records that conn, if it holds the session, has requested to close it.
func (s *leases) markClosing(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.bySession[id]; ok && l.conn == conn {
		l.closeRequested = true
		s.bySession[id] = l
	}
}

// endClosedSession ends the lease of a session that no longer exists.
func (s *leases) endClosedSession(id jute.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLease(id, ErrRefused)
	delete(s.lastHeard, id)
}

// forgetUnheld forgets when sessions were heard that no connection here holds.
func (s *leases) forgetUnheld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.lastHeard)
}

// endAll ends all leases, and returns the connections that held them, by session.
func (s *leases) endAll(err error) map[jute.SessionID]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(map[jute.SessionID]uint64, len(s.bySession))
	for id, l := range s.bySession {
		held[id] = l.conn
		s.endLease(id, err)
	}
	s.justGranted = nil
	return held
}

func (s *leases) endLease(id jute.SessionID, err error) {
	if l, ok := s.bySession[id]; ok {
		s.lastHeard[id] = l.heard
		delete(s.bySession, id)
	}
	s.finishVouchWaits(id, err)
}

func (s *leases) finishVouchWaits(id jute.SessionID, err error) {
	if e := s.vouchWaits[id]; e != nil {
		delete(s.vouchWaits, id)
		e.err = err
		close(e.done)
	}
}

// isValid reports whether a connection holds id and its lease is valid at now.
func (s *leases) isValid(id jute.SessionID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.bySession[id]
	return ok && now.Sub(s.timeBase) <= l.validUntil
}

// endIfExpired ends the lease of id if it is not valid at now. It returns the connection that held it.
func (s *leases) endIfExpired(id jute.SessionID, now time.Time) (conn uint64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.bySession[id]
	if !ok || now.Sub(s.timeBase) <= l.validUntil {
		return 0, false
	}
	s.endLease(id, ErrNotVouched)
	return l.conn, true
}

// startVouchWait returns the vouchWait that a Vouch of id must wait for. It returns nil if the lease is valid,
// and an error if no connection holds id.
func (s *leases) startVouchWait(id jute.SessionID, now time.Time) (*vouchWait, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.bySession[id]
	if !ok {
		return nil, errNotHeld
	}
	if now.Sub(s.timeBase) <= l.validUntil {
		return nil, nil
	}
	e := s.vouchWaits[id]
	if e == nil {
		e = &vouchWait{done: make(chan struct{})}
		s.vouchWaits[id] = e
	}
	e.waiters++
	return e, nil
}

// takeExpiredOnGrant reports, only once, whether a session was created or attached so late that its lease had already
// expired. It also returns the timeout granted to it.
func (s *leases) takeExpiredOnGrant(id jute.SessionID) (timeout time.Duration, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.bySession[id]
	if l.lateUnreported {
		timeout, late = l.timeout(), true
		l.lateUnreported = false
		s.bySession[id] = l
	}
	return timeout, late
}

// stopVouchWait ends one wait for e.
func (s *leases) stopVouchWait(id jute.SessionID, e *vouchWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.waiters--
	if e.waiters == 0 && s.vouchWaits[id] == e {
		delete(s.vouchWaits, id)
	}
}

// renewTouched renews the leases of the sessions in an acknowledged batch, each from its touch, except for refused
// ones. If a touch's connection was granted another timeout than the present one, the shorter one counts.
func (s *leases) renewTouched(b sessiontracker.TouchBatch, refused map[jute.SessionID]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.touchesOf(b) {
		if refused[id] {
			continue
		}
		heard := b.HeardAt(t).Sub(s.timeBase)
		l, ok := s.bySession[id]
		if !ok {
			s.raiseUnheld(id, heard)
			continue
		}
		l.heard = max(l.heard, heard)
		l.validUntil = max(l.validUntil, heard+leaseSpan(min(time.Duration(t.TimeoutMs)*time.Millisecond, l.timeout())))
		s.bySession[id] = l
		if len(s.vouchWaits) > 0 && s.clock.Now().Sub(s.timeBase) <= l.validUntil { // usually nothing waits
			s.finishVouchWaits(id, nil)
		}
	}
}

// touchesOf ranges over a batch. The lock is held, and now and then others get it in between.
func (s *leases) touchesOf(b sessiontracker.TouchBatch) iter.Seq2[jute.SessionID, sessiontracker.LastTouch] {
	return func(yield func(jute.SessionID, sessiontracker.LastTouch) bool) {
		n := 0
		for id, t := range b.Touches {
			if n++; n%renewalsPerLock == 0 {
				s.mu.Unlock()
				s.mu.Lock()
			}
			if !yield(id, t) {
				return
			}
		}
	}
}

// raiseUnheld records a touch of a session that no connection here holds, if the session is this member's.
func (s *leases) raiseUnheld(id jute.SessionID, heard time.Duration) {
	if known, ok := s.lastHeard[id]; ok && heard > known {
		s.lastHeard[id] = heard
	}
}

// noteHeard records when the sessions of a batch were heard that is not acknowledged yet. It renews nothing.
func (s *leases) noteHeard(b sessiontracker.TouchBatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, t := range s.touchesOf(b) {
		heard := b.HeardAt(t).Sub(s.timeBase)
		if l, ok := s.bySession[id]; !ok {
			s.raiseUnheld(id, heard)
		} else if heard > l.heard {
			l.heard = heard
			s.bySession[id] = l
		}
	}
}

// heardSession is when a session was last heard here.
type heardSession struct {
	id jute.SessionID
	at time.Duration // as lease.heard
}

// heardSessions returns when each session of this member was last heard, as far as noteHeard and renewTouched know. It visits
// every session, and takes 16 bytes for each. A session that comes or goes meanwhile may be missing.
func (s *leases) heardSessions() []heardSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]heardSession, 0, len(s.bySession)+len(s.lastHeard))
	add := func(h heardSession) {
		if all = append(all, h); len(all)%renewalsPerLock == 0 {
			s.mu.Unlock() // let others take the lock
			s.mu.Lock()
		}
	}
	for id, l := range s.bySession {
		add(heardSession{id, l.heard})
	}
	for id, heard := range s.lastHeard {
		add(heardSession{id, heard})
	}
	return all
}

// silences returns the times for which sessions have been silent, apart from gaps. The silence is rounded down, so that no session seems
// to have been silent for longer than it was.
func (s *leases) silences(sessions []heardSession, gaps gapList) *proto.Silences {
	m := &proto.Silences{
		Sessions: make([]int64, len(sessions)), SilentMs: make([]uint32, len(sessions)), GapMs: make([]uint32, len(sessions)),
	}
	now := s.clock.Now()
	for i, h := range sessions {
		at := s.timeBase.Add(h.at)
		gap := gaps.since(at)
		m.Sessions[i], m.SilentMs[i], m.GapMs[i] = int64(h.id), clampMillis(now.Sub(at)-gap), clampMillis(gap)
	}
	return m
}

// clampMillis returns d in milliseconds, rounded down, from 0 to 49 days.
func clampMillis(d time.Duration) uint32 {
	return uint32(min(max(0, d.Milliseconds()), math.MaxUint32))
}

// endRefused ends the lease of a session that the leader rejected. It returns the connection that held it, and
// reports whether to close that connection. The first batch with the session was sent at sent. If the lease
// began after that, the leader may have rejected an earlier lease: the session may have left this member and
// come back. Then endRefused does nothing. A connection that has requested to close its session stays open for
// the reply: the leader may have rejected the touch because of the close.
func (s *leases) endRefused(id jute.SessionID, sent time.Time) (conn uint64, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.bySession[id]
	if !ok || l.appliedAt == 0 || sent.Sub(s.timeBase) <= l.appliedAt {
		return 0, false
	}
	s.endLease(id, ErrRefused)
	return l.conn, !l.closeRequested
}
