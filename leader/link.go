package leader

import (
	"context"
	"slices"
	"sync"
	"time"

	"rollcall/proto"
)

// maxRefused is how many refused ids go into one acknowledgement: 0.8 MB, below gRPC's 4 MiB.
// The rest goes into further ones, and only the last says which batches it acknowledges.
const maxRefused = 100_000

// link is the leader's side of one member's pings.
type link struct {
	id   uint32
	wake chan struct{} // there may be something to send; capacity 1

	mu       sync.Mutex
	answered uint64    // newest ping that was answered in full
	heard    time.Time // when the member last sent anything, or got a new deadline
	lost     bool      // it is out of reach or has stopped, which has been logged
	met      bool      // it has sent something in this term
	linked   bool      // it has sent something on the open stream
	behind   uint64    // the commit index when the stream was opened
	synced   bool      // it has applied that much since
	acks     []ack     // oldest first; at most one for each of three rounds: done, under way, next
	cut      context.CancelFunc
	fineAt   time.Time     // when it last answered and said that it can reach this leader, or got a new deadline
	redial   time.Time     // when its connection is closed unless it sends something
	patience time.Duration // how long it gets after that
	left     time.Time     // when it was seen that it has left raft's configuration; zero: it has not
}

// ack is an acknowledgement that waits for its proof.
type ack struct {
	proof   uint64
	boot    uint64
	through uint64
	refused []int64
}

// lose records that the member is lost, if it was there before in this term, or must be by now. It
// reports whether that is new.
func (m *link) lose(must bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lost || !m.met && !must {
		return false
	}
	m.lost = true
	return true
}

// streamOpened records that a stream is being opened. Touches that were to be acknowledged on the
// old one will be sent again.
func (m *link) streamOpened(cut context.CancelFunc, now time.Time, commit uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut, m.acks = cut, nil
	m.linked, m.synced, m.behind = false, false, commit
	if m.heard.IsZero() {
		m.heard = now
	}
}

// heardFrom records that the member sent something, how far it has applied the log and whether it
// can reach this leader. It reports whether the member had been out of reach.
func (m *link) heardFrom(now time.Time, pong *proto.Pong, tick time.Duration) (back bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.met, m.linked, m.synced = true, true, m.synced || pong.Applied >= m.behind
	m.patience, m.redial = tick, now.Add(tick)
	if pong.Number != 0 && !pong.Unlinked {
		m.fineAt = now
	}
	back = m.lost
	m.heard, m.lost = now, false
	return back
}

func (m *link) answer(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answered = max(m.answered, number)
}

// addAck queues an acknowledgement. An answer holds all that is not acknowledged, so a later
// acknowledgement for the same proof replaces the earlier one.
func (m *link) addAck(a ack) {
	slices.Sort(a.refused)
	a.refused = slices.Compact(a.refused)
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.acks); n > 0 && m.acks[n-1].proof == a.proof {
		m.acks = m.acks[:n-1]
	}
	m.acks = append(m.acks, a)
}

// takeAck removes and returns the next acknowledgement whose proof is done, or nil.
func (m *link) takeAck(done uint64) *proto.Ack {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.acks) == 0 || m.acks[0].proof > done {
		return nil
	}
	a := &m.acks[0]
	if len(a.refused) > maxRefused {
		part := &proto.Ack{Boot: a.boot, Refused: a.refused[:maxRefused]}
		a.refused = a.refused[maxRefused:]
		return part
	}
	whole := &proto.Ack{Boot: a.boot, Through: a.through, Refused: a.refused}
	m.acks = slices.Delete(m.acks, 0, 1)
	return whole
}

// leave records that the member is not in raft's configuration any more, and returns since when.
func (m *link) leave(now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left.IsZero() {
		m.left = now
	}
	return m.left
}

// parts reports whether the member has left raft's configuration.
func (m *link) parts() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.left.IsZero()
}

// redialDue reports whether the member's connection is to be closed.
func (m *link) redialDue(now time.Time, tick time.Duration, syncLimit int, late bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case late:
		m.redial = now.Add(tick)
		return false
	case now.Before(m.redial):
		return false
	}
	m.patience = min(2*m.patience, time.Duration(syncLimit)*tick)
	m.redial = now.Add(m.patience)
	return true
}

// deaf returns how long ago the member last said that it can reach this leader.
func (m *link) deaf(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Sub(m.fineAt)
}

func (m *link) excuse(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fineAt = now
}

// state reports whether the member has sent something on the open stream, and whether it has since applied
// what was committed when it opened.
func (m *link) state() (linked, synced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.linked, m.synced
}
