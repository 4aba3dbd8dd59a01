package sessiontracker

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/jute"
)

// What may wait for an acknowledgement. Past either, neighbouring batches become one:
// newer touches wait for nothing, and a session that was touched twice is sent once.
const (
	maxBatches = 64      // more than a default timeout's worth of pings, 40
	maxTouches = 1 << 20 // about 40 MB; one batch may hold more, a touch for each session
)

// TouchMap remembers the sessions a member heard from until the leader has acknowledged
// them. The zero value is ready. Safe for concurrent use.
type TouchMap struct {
	mu      sync.Mutex
	touched map[jute.SessionID]time.Duration // since the last Flush: session → granted timeout
	longest time.Duration                    // of the timeouts in touched
	unacked []Batch                          // oldest first
	waiting int                              // touches in unacked
	number  uint64                           // of the newest batch
	flushed time.Time                        // the last Flush
}

// Batch is what was touched between two flushes. Nobody writes to it any more.
type Batch struct {
	Number  uint64 // counts up from 1
	Sent    time.Time
	Longest time.Duration // of the timeouts
	Touched map[jute.SessionID]time.Duration
}

// Touch notes that id was heard, on a connection that was granted timeout.
func (m *TouchMap) Touch(id jute.SessionID, timeout time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.touched == nil {
		m.touched = make(map[jute.SessionID]time.Duration)
	}
	m.touched[id] = timeout
	m.longest = max(m.longest, timeout)
}

// Flush makes a batch of what was touched since the last Flush, if anything was, and
// returns all that wait for an acknowledgement, oldest first. Those too old to renew
// anything are dropped: the leader has expired their sessions, or will without them.
func (m *TouchMap) Flush(now time.Time) []Batch {
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
		m.touched, m.longest = nil, 0
	}
	return slices.Clone(m.unacked)
}

// halve makes one batch of every two neighbours. It counts from when the older was sent:
// a touch may seem older by the time between two flushes, never newer. What it names was
// sent with the right age before.
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

// join returns what a and the newer b hold, in memory of its own.
func (a Batch) join(b Batch) Batch {
	touched := maps.Clone(a.Touched)
	maps.Copy(touched, b.Touched)
	return Batch{Number: b.Number, Sent: a.Sent, Longest: max(a.Longest, b.Longest), Touched: touched}
}

// FlushedBefore reports whether the last Flush was before a time.
func (m *TouchMap) FlushedBefore(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flushed.Before(t)
}

// Waiting yields the sessions in batches that were sent before a time and are not
// acknowledged; one may come more than once.
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

// Holds reports whether the batch has a touch of a session.
func (a Batch) Holds(id jute.SessionID) bool {
	_, ok := a.Touched[id]
	return ok
}

// Through returns the batches up to a number, oldest first.
func (m *TouchMap) Through(number uint64) []Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unacked[:m.through(number)])
}

// through counts them.
func (m *TouchMap) through(number uint64) (n int) {
	for n < len(m.unacked) && m.unacked[n].Number <= number {
		n++
	}
	return n
}

// Ack forgets the batches up to a number, and returns them, oldest first.
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
