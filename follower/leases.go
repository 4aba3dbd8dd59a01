package follower

import (
	"sync"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/zk/jute"
)

// perLock is how many touches of an acknowledged batch are handled under one hold of the lock. That
// takes a few tens of microseconds, for which connections and apply may have to wait.
const perLock = 256

// leases knows until when this member may speak for the sessions that its connections hold. Make
// one with newLeases. It is safe for concurrent use, and nothing blocks.
type leases struct {
	clock monotonic.Clock
	base  time.Time // all times below count from here, by clock

	mu      sync.Mutex
	held    map[jute.SessionID]lease
	fresh   []jute.SessionID                // leases made by the entry that is being applied
	waiting map[jute.SessionID]*expectation // sessions for which a Vouch waits, because their leases are not valid
}

// lease is one connection's lease of a session.
type lease struct {
	conn    uint64
	timeout time.Duration // granted
	until   time.Duration // the last moment at which the lease is valid
	begun   time.Duration // when the entry that made the lease had been applied; 0: it is still being applied
	late    bool          // the lease had run out when it was made, and late has not reported that yet
	closing bool          // the connection has asked to close the session
}

// expectation is shared by all Vouch calls that wait for one session.
type expectation struct {
	done chan struct{} // closed when err is final
	err  error
	n    int // number of waiting calls
}

func newLeases(clock monotonic.Clock) *leases {
	return &leases{
		clock:   clock,
		base:    clock.Now().Add(-1), // so that begun is never 0
		held:    make(map[jute.SessionID]lease),
		waiting: make(map[jute.SessionID]*expectation),
	}
}

// span returns for how long after a touch was sent a lease is valid. The rest of the timeout allows
// for clocks that run at different speeds.
func span(timeout time.Duration) time.Duration { return timeout - timeout/10 }

// take gives a session to a connection whose create or attach was first sent at sent.
func (s *leases) take(id jute.SessionID, conn uint64, timeout time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := sent.Sub(s.base) + span(timeout)
	s.held[id] = lease{conn: conn, timeout: timeout, until: until, late: s.clock.Now().Sub(s.base) > until}
	s.fresh = append(s.fresh, id)
}

// entryApplied is called when an entry has been applied. Touches made from now on are flushed with
// an applied index that covers the new leases.
func (s *leases) entryApplied(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.fresh {
		if l, ok := s.held[id]; ok && l.begun == 0 {
			l.begun = now.Sub(s.base)
			s.held[id] = l
		}
	}
	s.fresh = s.fresh[:0]
}

// release ends the lease of a session if conn holds it.
func (s *leases) release(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.held[id]; ok && l.conn == conn {
		s.remove(id, errNotHeld)
	}
}

// closing records that conn, if it holds the session, has asked to close it.
func (s *leases) closing(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.held[id]; ok && l.conn == conn {
		l.closing = true
		s.held[id] = l
	}
}

// sessionClosed ends the lease of a session that no longer exists.
func (s *leases) sessionClosed(id jute.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id, ErrRefused)
}

// all returns the sessions that connections hold, each with its connection.
func (s *leases) all() map[jute.SessionID]uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := make(map[jute.SessionID]uint64, len(s.held))
	for id, l := range s.held {
		held[id] = l.conn
	}
	return held
}

// clear ends all leases.
func (s *leases) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.held {
		s.remove(id, errNotHeld)
	}
	s.fresh = nil
}

func (s *leases) remove(id jute.SessionID, err error) {
	delete(s.held, id)
	s.finish(id, err)
}

// finish ends all waits for id, with err.
func (s *leases) finish(id jute.SessionID, err error) {
	if e := s.waiting[id]; e != nil {
		delete(s.waiting, id)
		e.err = err
		close(e.done)
	}
}

// vouched reports whether a connection holds id and its lease is valid at now.
func (s *leases) vouched(id jute.SessionID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	return ok && now.Sub(s.base) <= l.until
}

// lapse ends the lease of id if it is not valid at now. It returns the connection that held it, and
// whether it ended a lease.
func (s *leases) lapse(id jute.SessionID, now time.Time) (conn uint64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	if !ok || now.Sub(s.base) <= l.until {
		return 0, false
	}
	s.remove(id, ErrNotVouched)
	return l.conn, true
}

// expect returns the expectation that a Vouch of id must wait for. It returns nil if there is no
// need to wait: the lease is valid or, with the error, no connection holds id.
func (s *leases) expect(id jute.SessionID, now time.Time) (*expectation, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	if !ok {
		return nil, errNotHeld
	}
	if now.Sub(s.base) <= l.until {
		return nil, nil
	}
	e := s.waiting[id]
	if e == nil {
		e = &expectation{done: make(chan struct{})}
		s.waiting[id] = e
	}
	e.n++
	return e, nil
}

// late reports, only once, whether a session was created or attached so late that its lease had
// already run out. It also returns the timeout granted to it.
func (s *leases) late(id jute.SessionID) (timeout time.Duration, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.held[id]
	if l.late {
		timeout, late = l.timeout, true
		l.late = false
		s.held[id] = l
	}
	return timeout, late
}

// stopWaiting ends one wait for e.
func (s *leases) stopWaiting(id jute.SessionID, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.n--
	if e.n == 0 && s.waiting[id] == e {
		delete(s.waiting, id)
	}
}

// renew renews leases by an acknowledged batch that was first sent at sent, except for the sessions
// that were refused. If a touch's connection was granted another timeout than the present one, the
// shorter of the two counts.
func (s *leases) renew(touched map[jute.SessionID]time.Duration, sent time.Time, refused map[jute.SessionID]bool) {
	at := sent.Sub(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for id, timeout := range touched {
		if n++; n%perLock == 0 {
			s.mu.Unlock() // let others take the lock
			s.mu.Lock()
		}
		l, ok := s.held[id]
		if !ok || refused[id] {
			continue
		}
		if until := at + span(min(timeout, l.timeout)); until > l.until {
			l.until = until
			s.held[id] = l
		}
		if len(s.waiting) > 0 && s.clock.Now().Sub(s.base) <= l.until { // usually nothing waits
			s.finish(id, nil)
		}
	}
}

// refuse ends the lease of a session that the leader refused. It returns the connection that held
// it, and whether that connection is to be cut. sent is when the first batch that names the session
// was sent. If the lease began after that, the refusal may be about an earlier lease: the session may
// have left this member and come back. Then refuse does nothing. A connection that has asked to close
// its session is not cut, because it still gets the reply: the close may be why the leader refused.
func (s *leases) refuse(id jute.SessionID, sent time.Time) (conn uint64, cut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	if !ok || l.begun == 0 || sent.Sub(s.base) <= l.begun {
		return 0, false
	}
	s.remove(id, ErrRefused)
	return l.conn, !l.closing
}
