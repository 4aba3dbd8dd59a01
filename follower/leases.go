package follower

import (
	"sync"
	"time"

	"rollcall/jute"
)

// perLock is how many touches of an acknowledged batch are counted at a time: a few tens
// of microseconds, for which connections and apply may have to wait.
const perLock = 256

// leases says until when this member may speak for the sessions that its connections
// hold. Make one with newLeases. Safe for concurrent use; nothing blocks.
type leases struct {
	base time.Time // its times count from here

	mu      sync.Mutex
	held    map[jute.SessionID]lease
	fresh   []jute.SessionID                // taken in the entry that is being applied
	waiting map[jute.SessionID]*expectation // who wants to be vouched for and is not
}

// lease is what one connection holds.
type lease struct {
	conn    uint64
	timeout time.Duration // granted
	until   time.Duration // vouched for, through this moment
	begun   time.Duration // the entry that made it has been applied; 0: not all of it
	late    bool          // applied when it was vouched for no more, and not asked about since
	closing bool          // the connection has asked to close the session
}

// expectation is shared by all who wait for one session.
type expectation struct {
	done chan struct{} // closed when err is final
	err  error
	n    int // who wait
}

func newLeases(now time.Time) *leases {
	return &leases{
		base:    now.Add(-1), // so that begun is never 0
		held:    make(map[jute.SessionID]lease),
		waiting: make(map[jute.SessionID]*expectation),
	}
}

// span is how long after a touch was sent a session is vouched for. The rest of its
// timeout allows for clocks that run apart.
func span(timeout time.Duration) time.Duration { return timeout - timeout/10 }

// take gives a session to a connection whose create or attach was first sent at sent.
func (s *leases) take(id jute.SessionID, conn uint64, timeout time.Duration, sent time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	until := sent.Sub(s.base) + span(timeout)
	s.held[id] = lease{conn: conn, timeout: timeout, until: until, late: time.Since(s.base) > until}
	s.fresh = append(s.fresh, id)
}

// settle is called when an entry has been applied: what is touched from here on is
// flushed with an applied index that covers the new leases.
func (s *leases) settle(now time.Time) {
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

// end ends the lease of a session if conn holds it.
func (s *leases) end(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.held[id]; ok && l.conn == conn {
		s.remove(id, errNotHeld)
	}
}

// closing notes that conn, which may hold the session, has asked to close it.
func (s *leases) closing(id jute.SessionID, conn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.held[id]; ok && l.conn == conn {
		l.closing = true
		s.held[id] = l
	}
}

// close ends the lease of a session that is no more.
func (s *leases) close(id jute.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id, ErrRefused)
}

// all returns the sessions that connections hold, and those connections.
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

// finish tells those who wait for id.
func (s *leases) finish(id jute.SessionID, err error) {
	if e := s.waiting[id]; e != nil {
		delete(s.waiting, id)
		e.err = err
		close(e.done)
	}
}

// vouched reports whether a connection holds id and may be told so at now.
func (s *leases) vouched(id jute.SessionID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.held[id]
	return ok && now.Sub(s.base) <= l.until
}

// lapse ends the lease of a session that is vouched for no more at now. It returns the
// connection that held it, and whether there was one.
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

// expect returns what a Vouch of id waits for; nil if nothing is to be waited for,
// because id is vouched for or, with the error, because no connection holds it.
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

// late reports, once, whether a session was created or attached so late that its lease had
// ended by then, and the timeout granted to it.
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

// leave ends one wait for e.
func (s *leases) leave(id jute.SessionID, e *expectation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.n--
	if e.n == 0 && s.waiting[id] == e {
		delete(s.waiting, id)
	}
}

// renew counts an acknowledged batch that was first sent at sent, without the sessions
// that were refused. A touch whose connection was granted another timeout than the
// present one counts with the shorter.
func (s *leases) renew(touched map[jute.SessionID]time.Duration, sent time.Time, refused map[jute.SessionID]bool) {
	at := sent.Sub(s.base)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for id, timeout := range touched {
		if n++; n%perLock == 0 {
			s.mu.Unlock() // others first
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
		if len(s.waiting) > 0 && time.Since(s.base) <= l.until { // as a rule nobody waits
			s.finish(id, nil)
		}
	}
}

// refuse ends the lease of a session that the leader refused. It returns the connection
// that held it, and whether that is to be cut. Nothing ends if the lease is no older than
// the first batch that may be meant, because then the session may have come back to this
// member since; and one that has asked to close its session hears what came of it: that may
// be why the leader refused.
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
