package leader

import (
	"context"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
)

// maxRefused is the number of refused ids in one acknowledgement: 0.8 MB, below gRPC's 4 MiB. The others go into
// further ones, and only the last one acknowledges batches.
const maxRefused = 100_000

// link is the leader's side of one member's pings.
type link struct {
	id     uint32
	routes []*route // not empty; does not change

	mu            sync.Mutex
	repliedPing   uint64    // newest ping with a complete reply
	lastHeard     time.Time // when the member last sent anything, or got a new deadline
	outOfReach    bool      // or stopped; it has been logged
	heardInTerm   bool      // the member has sent something in this term
	heardOnStream bool      // the member has sent something on an open stream
	commitAtOpen  uint64    // the commit index when the first of the open streams was opened
	caughtUp      bool      // the member has applied commitAtOpen
	silencesKnown bool      // the member has sent the silences of all its sessions in this term
	reachableAt   time.Time // when the member last reported that it can reach this leader, or got a new deadline
	leftAt        time.Time // when the member was first missing from raft's configuration, or zero
}

// route is one of the streams to a member, on a connection of its own. All of them carry the same pings, and
// whatever arrives first counts. A connection on which a packet is lost delivers nothing until it was sent again, which
// may take seconds.
type route struct {
	number    int
	workReady chan struct{} // a ping may be due; capacity 1

	// Guarded by link.mu.
	closeStream context.CancelFunc // nil: no stream is open
	pendingAcks []ack              // oldest first; at most maxPendingAcks
	redialAt    time.Time          // when the connection is closed unless the member sends something
	redialAfter time.Duration      // the next such time
}

// maxPendingAcks is the number of rounds for which acknowledgements wait: done, under way, next. Above it the oldest
// is dropped, as on a stream that stalls: the member has sent its touches again since.
const maxPendingAcks = 3

func newLink(id uint32, routes int, now time.Time, tick time.Duration) *link {
	m := &link{id: id, reachableAt: now}
	for number := range routes {
		m.routes = append(m.routes, &route{
			number: number, workReady: make(chan struct{}, 1), redialAfter: tick, redialAt: now.Add(tick),
		})
	}
	return m
}

// wake wakes the senders of all routes.
func (m *link) wake() {
	for _, r := range m.routes {
		signal(r.workReady)
	}
}

// ack is an acknowledgement that waits for its proof.
type ack struct {
	proof           uint64
	boot            uint64
	through         uint64
	refusedSessions []int64
}

// markUnreachable records that the member is out of reach, if it was heard in this term, or must have been. It
// reports whether that is new.
func (m *link) markUnreachable(must bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outOfReach || !m.heardInTerm && !must {
		return false
	}
	m.outOfReach = true
	return true
}

// openStream records that a stream is being opened, and reports whether it is the member's only one: then the member may be
// another process. The member sends again the touches that were not acknowledged.
func (m *link) openStream(r *route, cut context.CancelFunc, now time.Time, commit uint64) (only bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if only = !m.hasStream(); only {
		m.heardOnStream, m.caughtUp, m.commitAtOpen = false, false, commit
	}
	r.closeStream, r.pendingAcks = cut, nil
	if m.lastHeard.IsZero() {
		m.lastHeard = now
	}
	return only
}

func (m *link) hasStream() bool {
	return slices.ContainsFunc(m.routes, func(r *route) bool { return r.closeStream != nil })
}

// isHeard reports whether the member has a stream, and has sent something within d.
func (m *link) isHeard(now time.Time, d time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hasStream() && now.Sub(m.lastHeard) <= d
}

// endStream records that a route's stream has ended.
func (m *link) endStream(r *route) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.closeStream, r.pendingAcks = nil, nil
}

// closeStreams ends all streams, which are opened again.
func (m *link) closeStreams() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.routes {
		if r.closeStream != nil {
			r.closeStream()
		}
	}
}

// heardFrom records a pong, and reports whether the member had been out of reach.
func (m *link) heardFrom(r *route, now time.Time, pong *proto.Pong, tick time.Duration) (back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heardInTerm, m.heardOnStream, m.caughtUp = true, true, m.caughtUp || pong.Applied >= m.commitAtOpen
	r.redialAfter, r.redialAt = tick, now.Add(tick)
	if pong.Number != 0 && !pong.Unlinked {
		m.reachableAt = now
	}
	back = m.outOfReach
	m.lastHeard, m.outOfReach = now, false
	return back
}

func (m *link) markReplied(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.repliedPing = max(m.repliedPing, number)
}

// addAck queues an acknowledgement on every open stream. Each reply has all touches that are not acknowledged, so a later
// acknowledgement for the same proof replaces the earlier one.
func (m *link) addAck(a ack) {
	slices.Sort(a.refusedSessions)
	a.refusedSessions = slices.Compact(a.refusedSessions)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.routes {
		if r.closeStream == nil {
			continue
		}
		if n := len(r.pendingAcks); n > 0 && r.pendingAcks[n-1].proof == a.proof {
			r.pendingAcks = r.pendingAcks[:n-1]
		} else if n == maxPendingAcks {
			r.pendingAcks = r.pendingAcks[1:]
		}
		r.pendingAcks = append(r.pendingAcks, a)
	}
}

// takeAck removes and returns the next acknowledgement whose proof is done, or nil.
func (m *link) takeAck(r *route, done uint64) *proto.Ack {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(r.pendingAcks) == 0 || r.pendingAcks[0].proof > done {
		return nil
	}
	a := &r.pendingAcks[0]
	if len(a.refusedSessions) > maxRefused {
		part := &proto.Ack{Incarnation: a.boot, Refused: a.refusedSessions[:maxRefused]}
		a.refusedSessions = a.refusedSessions[maxRefused:]
		return part
	}
	whole := &proto.Ack{Incarnation: a.boot, Through: a.through, Refused: a.refusedSessions}
	r.pendingAcks = slices.Delete(r.pendingAcks, 0, 1)
	return whole
}

// asksForSilences reports whether a ping on a route should ask for silences. The routes take turns, so that one of them that
// stalls delays nothing for long, and a long reply is seldom sent twice.
func (m *link) asksForSilences(r *route, number uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.silencesKnown && int(number%uint64(len(m.routes))) == r.number
}

func (m *link) markSilencesKnown() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silencesKnown = true
}

// markLeft records that the member is not in raft's configuration any more, and returns leftAt.
func (m *link) markLeft(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leftAt.IsZero() {
		m.leftAt = now
	}
	return m.leftAt
}

func (m *link) hasLeft() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.leftAt.IsZero()
}

// redialDue reports whether to close a route's connection now.
func (m *link) redialDue(r *route, now time.Time, tick time.Duration, syncLimit int, late bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case late:
		r.redialAt = now.Add(tick)
		return false
	case now.Before(r.redialAt):
		return false
	}
	r.redialAfter = min(2*r.redialAfter, time.Duration(syncLimit)*tick)
	r.redialAt = now.Add(r.redialAfter)
	return true
}

// sinceReachable returns the time since the member last reported that it can reach this leader.
func (m *link) sinceReachable(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.reachableAt)
}

func (m *link) restartReachability(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reachableAt = now
}

func (m *link) syncState() (heardOnStream, caughtUp bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heardOnStream, m.caughtUp
}
