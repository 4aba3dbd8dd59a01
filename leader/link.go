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
	id        uint32
	workReady chan struct{} // a ping may be due; capacity 1

	mu            sync.Mutex
	repliedPing   uint64    // newest ping with a complete reply
	lastHeard     time.Time // when the member last sent anything, or got a new deadline
	outOfReach    bool      // or stopped; it has been logged
	heardInTerm   bool      // the member has sent something in this term
	heardOnStream bool      // the member has sent something on the open stream
	commitAtOpen  uint64    // the commit index when the stream was opened
	caughtUp      bool      // the member has applied commitAtOpen
	pendingAcks   []ack     // oldest first; at most one for each of three rounds: done, under way, next
	closeStream   context.CancelFunc
	reachableAt   time.Time     // when the member last reported that it can reach this leader, or got a new deadline
	redialAt      time.Time     // when the connection is closed unless the member sends something
	redialAfter   time.Duration // the next such time
	leftAt        time.Time     // when the member was first missing from raft's configuration, or zero
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

// resetForStream records that a stream is being opened. The member sends again the touches that were not acknowledged
// on the old one.
func (m *link) resetForStream(cut context.CancelFunc, now time.Time, commit uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closeStream, m.pendingAcks = cut, nil
	m.heardOnStream, m.caughtUp, m.commitAtOpen = false, false, commit
	if m.lastHeard.IsZero() {
		m.lastHeard = now
	}
}

// heardFrom records a pong, and reports whether the member had been out of reach.
func (m *link) heardFrom(now time.Time, pong *proto.Pong, tick time.Duration) (back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heardInTerm, m.heardOnStream, m.caughtUp = true, true, m.caughtUp || pong.Applied >= m.commitAtOpen
	m.redialAfter, m.redialAt = tick, now.Add(tick)
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

// addAck queues an acknowledgement. Each reply has all touches that are not acknowledged, so a later acknowledgement
// for the same proof replaces the earlier one.
func (m *link) addAck(a ack) {
	slices.Sort(a.refusedSessions)
	a.refusedSessions = slices.Compact(a.refusedSessions)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.pendingAcks); n > 0 && m.pendingAcks[n-1].proof == a.proof {
		m.pendingAcks = m.pendingAcks[:n-1]
	}
	m.pendingAcks = append(m.pendingAcks, a)
}

// takeAck removes and returns the next acknowledgement whose proof is done, or nil.
func (m *link) takeAck(done uint64) *proto.Ack {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pendingAcks) == 0 || m.pendingAcks[0].proof > done {
		return nil
	}
	a := &m.pendingAcks[0]
	if len(a.refusedSessions) > maxRefused {
		part := &proto.Ack{Boot: a.boot, Refused: a.refusedSessions[:maxRefused]}
		a.refusedSessions = a.refusedSessions[maxRefused:]
		return part
	}
	whole := &proto.Ack{Boot: a.boot, Through: a.through, Refused: a.refusedSessions}
	m.pendingAcks = slices.Delete(m.pendingAcks, 0, 1)
	return whole
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

// redialDue reports whether to close the member's connection now.
func (m *link) redialDue(now time.Time, tick time.Duration, syncLimit int, late bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case late:
		m.redialAt = now.Add(tick)
		return false
	case now.Before(m.redialAt):
		return false
	}
	m.redialAfter = min(2*m.redialAfter, time.Duration(syncLimit)*tick)
	m.redialAt = now.Add(m.redialAfter)
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
