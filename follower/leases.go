package follower

import (
	"sync"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/zk/jute"
)

// renewalsPerLock is how many touches of an acknowledged batch are handled under one hold of the lock. That
// takes a few tens of microseconds, for which connections and apply may have to wait.
const renewalsPerLock = 256

// leases knows until when this member may speak for the sessions that its connections hold. Make
// one with newLeases. It is safe for concurrent use, and nothing blocks.
type leases struct {
	clock    monotonic.Clock
	timeBase time.Time // all times below count from here, by clock

	mu           sync.Mutex
	bySession    map[jute.SessionID]lease
	justGranted  []jute.SessionID                // leases made by the entry that is being applied
	expectations map[jute.SessionID]*expectation // sessions for which a Vouch waits, because their leases are not valid
}

// lease is one connection's lease of a session.
type lease struct {
	conn           uint64
	timeout        time.Duration // granted
	validUntil     time.Duration // the last moment at which the lease is valid
	appliedAt      time.Duration // when the entry that made the lease had been applied; 0: it is still being applied
	lateUnreported bool          // the lease had run out when it was made, and late has not reported that yet
	closeRequested bool          // the connection has asked to close the session
}

// expectation is shared by all Vouch calls that wait for one session.
type expectation struct {
	done    chan struct{} // closed when err is final
	err     error
	waiters int // number of waiting calls
}

func newLeases(clock monotonic.Clock) *leases {
	return &leases{
		clock:        clock,
		timeBase:     clock.Now().Add(-1), // so that begun is never 0
		bySession:    make(map[jute.SessionID]lease),
		expectations: make(map[jute.SessionID]*expectation),
	}
}

// leaseSpan returns for how long after a touch was sent a lease is valid. The rest of the timeout allows
// for clocks that run at different speeds.
func leaseSpan(timeout time.Duration) time.Duration { return timeout - timeout/10 }

// grantLease gives a session to a connection whose create or attach was first sent at sent.
func (s *leases) grantLease(id jute.SessionID, conn uint64, timeout time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := sent.Sub(s.timeBase) + leaseSpan(timeout)
	s.bySession[id] = lease{conn: conn, timeout: timeout, validUntil: until, lateUnreported: s.clock.Now().Sub(s.timeBase) > until}
	s.justGranted = append(s.justGranted, id)
}

// entryApplied is called when an entry has been applied. Touches made from now on are flushed with
// an applied index that covers the new leases.
func (s *leases) entryApplied(now time.Time) {
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

// endIfHeldBy ends the lease of a session if conn holds it.
func (s *leases) endIfHeldBy(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.bySession[id]; ok && l.conn == conn {
		s.endLease(id, errNotHeld)
	}
}

// markClosing records that conn, if it holds the session, has asked to close it.
func (s *leases) markClosing(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.bySession[id]; ok && l.conn == conn {
		l.closeRequested = true
		s.bySession[id] = l
	}
}

// sessionClosed ends the lease of a session that no longer exists.
func (s *leases) sessionClosed(id jute.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLease(id, ErrRefused)
}

// heldSessions returns the sessions that connections hold, each with its connection.
func (s *leases) heldSessions() map[jute.SessionID]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(map[jute.SessionID]uint64, len(s.bySession))
	for id, l := range s.bySession {
		held[id] = l.conn
	}
	return held
}

// endAll ends all leases.
func (s *leases) endAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.bySession {
		s.endLease(id, errNotHeld)
	}
	s.justGranted = nil
}

func (s *leases) endLease(id jute.SessionID, err error) {
	delete(s.bySession, id)
	s.finishWaits(id, err)
}

// finishWaits ends all waits for id, with err.
func (s *leases) finishWaits(id jute.SessionID, err error) {
	if e := s.expectations[id]; e != nil {
		delete(s.expectations, id)
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

// endIfExpired ends the lease of id if it is not valid at now. It returns the connection that held it, and
// whether it ended a lease.
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

// expectRenewal returns the expectation that a Vouch of id must wait for. It returns nil if there is no
// need to wait: the lease is valid or, with the error, no connection holds id.
func (s *leases) expectRenewal(id jute.SessionID, now time.Time) (*expectation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.bySession[id]
	if !ok {
		return nil, errNotHeld
	}
	if now.Sub(s.timeBase) <= l.validUntil {
		return nil, nil
	}
	e := s.expectations[id]
	if e == nil {
		e = &expectation{done: make(chan struct{})}
		s.expectations[id] = e
	}
	e.waiters++
	return e, nil
}

// takeLate reports, only once, whether a session was created or attached so late that its lease had
// already run out. It also returns the timeout granted to it.
func (s *leases) takeLate(id jute.SessionID) (timeout time.Duration, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.bySession[id]
	if l.lateUnreported {
		timeout, late = l.timeout, true
		l.lateUnreported = false
		s.bySession[id] = l
	}
	return timeout, late
}

// stopWaiting ends one wait for e.
func (s *leases) stopWaiting(id jute.SessionID, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.waiters--
	if e.waiters == 0 && s.expectations[id] == e {
		delete(s.expectations, id)
	}
}

// renewTouched renews leases by an acknowledged batch that was first sent at sent, except for the sessions
// that were refused. If a touch's connection was granted another timeout than the present one, the
// shorter of the two counts.
func (s *leases) renewTouched(touched map[jute.SessionID]time.Duration, sent time.Time, refused map[jute.SessionID]bool) {
	at := sent.Sub(s.timeBase)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for id, timeout := range touched {
		if n++; n%renewalsPerLock == 0 {
			s.mu.Unlock() // let others take the lock
			s.mu.Lock()
		}
		l, ok := s.bySession[id]
		if !ok || refused[id] {
			continue
		}
		if until := at + leaseSpan(min(timeout, l.timeout)); until > l.validUntil {
			l.validUntil = until
			s.bySession[id] = l
		}
		if len(s.expectations) > 0 && s.clock.Now().Sub(s.timeBase) <= l.validUntil { // usually nothing waits
			s.finishWaits(id, nil)
		}
	}
}

// endRefused ends the lease of a session that the leader refused. It returns the connection that held
// it, and whether that connection is to be cut. sent is when the first batch that names the session
// was sent. If the lease began after that, the refusal may be about an earlier lease: the session may
// have left this member and come back. Then refuse does nothing. A connection that has asked to close
// its session is not cut, because it still gets the reply: the close may be why the leader refused.
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
