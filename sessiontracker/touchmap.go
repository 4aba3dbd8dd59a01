package sessiontracker

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/zk/jute"
)

// These limit the batches that wait for an acknowledgement. Above either limit, every two
// neighbouring batches are joined. New touches never wait, and a session that was touched twice is
// sent once.
const (
	maxBatches = 64      // more than the pings of a default timeout, 40
	maxTouches = 1 << 20 // about 40 MB; a single batch may hold more, one touch for each session
)

// TouchMap remembers the sessions that a member heard from, until the leader has acknowledged them.
// The zero value is ready for use. It is safe for concurrent use.
type TouchMap struct {
	mu      sync.Mutex
	touched map[jute.SessionID]time.Duration // since the last Flush: session → granted timeout; nil before the first
	longest time.Duration                    // the longest timeout in touched
	unacked []Batch                          // oldest first
	waiting int                              // touches in unacked
	number  uint64                           // the newest batch's number
	flushed time.Time                        // when Flush was called last
}

// Batch is a set of touches, from between two flushes. It does not change once it is made.
type Batch struct {
	Number  uint64 // counts up from 1
	Sent    time.Time
	Longest time.Duration // the longest timeout in Touched
	Touched map[jute.SessionID]time.Duration
}

// Touch notes that id was heard, on a connection that was granted this timeout.
func (m *TouchMap) Touch(id jute.SessionID, timeout time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.touched == nil {
		m.touched = make(map[jute.SessionID]time.Duration)
	}
	m.touched[id] = timeout
	m.longest = max(m.longest, timeout)
}

// Flush makes a batch of the touches since the last Flush, if there are any. It returns all batches
// that wait for an acknowledgement, oldest first. It drops
// batches whose touches are too old to save a session.
func (m *TouchMap) Flush(now time.Time) []Batch {
	next := m.emptyMap()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.flushed = now
	m.unacked = slices.DeleteFunc(m.unacked, func(b Batch) bool {
		old := now.Sub(b.Sent) > b.Longest
		if old {
			m.waiting -= len(b.Touched)
		}
		return old
	})
	if len(m.touched) > 0 {
		for len(m.unacked) >= maxBatches || m.waiting >= maxTouches && len(m.unacked) > 1 {
			m.halve()
		}
		m.number++
		m.unacked = append(m.unacked, Batch{Number: m.number, Sent: now, Longest: m.longest, Touched: m.touched})
		m.waiting += len(m.touched)
		m.touched, m.longest = next, 0
	}
	return slices.Clone(m.unacked)
}

// emptyMap returns a map with room for as many touches as there are now: about as many come until the
// next Flush. It is made without the lock. Otherwise it would grow while Touch holds the lock, and leave
// as much garbage as it has memory in the end.
func (m *TouchMap) emptyMap() map[jute.SessionID]time.Duration {
	m.mu.Lock()
	n := len(m.touched)
	m.mu.Unlock()
	return make(map[jute.SessionID]time.Duration, n)
}

// halve joins every two neighbouring batches. The joined batch counts from when the older one was
// sent, so a touch may seem older than it is by the time between two flushes, but never newer. Each
// touch has been sent before, with its right age.
func (m *TouchMap) halve() {
	var halved []Batch
	m.waiting = 0
	for pair := range slices.Chunk(m.unacked, 2) {
		b := pair[0]
		if len(pair) == 2 {
			b = pair[0].join(pair[1])
		}
		halved = append(halved, b)
		m.waiting += len(b.Touched)
	}
	m.unacked = halved
}

// join returns the touches of a and of b, which is newer, in memory of its own.
func (a Batch) join(b Batch) Batch {
	touched := maps.Clone(a.Touched)
	maps.Copy(touched, b.Touched)
	return Batch{Number: b.Number, Sent: a.Sent, Longest: max(a.Longest, b.Longest), Touched: touched}
}

// Unacknowledged returns how many touches are not acknowledged. A session that was touched again after a
// flush counts again.
func (m *TouchMap) Unacknowledged() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting + len(m.touched)
}

// FlushedBefore reports whether the last Flush was before t.
func (m *TouchMap) FlushedBefore(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flushed.Before(t)
}

// Waiting yields the sessions of the batches that were sent before since and are not acknowledged.
// It may yield a session more than once.
func (m *TouchMap) Waiting(since time.Time) iter.Seq[jute.SessionID] {
	m.mu.Lock()
	batches := slices.Clone(m.unacked)
	m.mu.Unlock()
	return func(yield func(jute.SessionID) bool) {
		for _, b := range batches {
			if !b.Sent.Before(since) {
				return
			}
			for id := range b.Touched {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// Holds reports whether the batch has a touch of the session.
func (a Batch) Holds(id jute.SessionID) bool {
	_, ok := a.Touched[id]
	return ok
}

// Through returns the batches with numbers up to number, oldest first.
func (m *TouchMap) Through(number uint64) []Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unacked[:m.through(number)])
}

// through returns how many batches have numbers up to number.
func (m *TouchMap) through(number uint64) (n int) {
	for n < len(m.unacked) && m.unacked[n].Number <= number {
		n++
	}
	return n
}

// Ack forgets the batches with numbers up to number, and returns them, oldest first.
func (m *TouchMap) Ack(number uint64) []Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.through(number)
	acked := slices.Clone(m.unacked[:n])
	for _, b := range acked {
		m.waiting -= len(b.Touched)
	}
	m.unacked = slices.Delete(m.unacked, 0, n)
	return acked
}
