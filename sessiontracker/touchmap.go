package sessiontracker

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/internal/lockwatch"
	"rollcall/zk/jute"
)

// These limit the batches that wait for an acknowledgement. Above either limit, every two neighbouring
// batches are joined. New touches never wait, and a session that was touched twice is sent once.
const (
	maxBatches        = 64      // more than the pings of a default timeout, 40
	maxUnackedTouches = 1 << 20 // about 40 MB; a single batch may hold more, one touch for each session
)

// TouchMap keeps the sessions that a member heard from, until the leader has acknowledged them. The zero
// value is ready for use. It is safe for concurrent use.
type TouchMap struct {
	mu             sync.Mutex
	touched        map[jute.SessionID]LastTouch // since the last Flush; nil if there are none
	firstTouch     time.Time                    // in touched
	longestTimeout time.Duration                // in touched
	unackedBatches []TouchBatch                 // oldest first
	unackedTouches int                          // in unackedBatches
	lastNumber     uint64                       // of the newest batch
	lastFlush      time.Time
}

// LastTouch is the last touch of a session in a batch. It takes 8 bytes.
type LastTouch struct {
	TimeoutMs uint32 // granted to the connection
	AfterMs   uint32 // after TouchBatch.FirstTouch, rounded up: a touch never seems older than it is
}

// TouchBatch is an immutable set of touches from between two flushes.
type TouchBatch struct {
	Number         uint64 // from 1
	SentAt         time.Time
	FirstTouch     time.Time     // not after any touch
	LongestTimeout time.Duration // in Touches
	Touches        map[jute.SessionID]LastTouch
}

// HeardAt returns the time of a touch of the batch.
func (a TouchBatch) HeardAt(t LastTouch) time.Time {
	return a.FirstTouch.Add(time.Duration(t.AfterMs) * time.Millisecond)
}

// Touch records that id was heard now, on a connection that was granted this timeout.
func (m *TouchMap) Touch(id jute.SessionID, timeout time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.touched) == 0 {
		m.firstTouch = now
		if m.touched == nil {
			m.touched = make(map[jute.SessionID]LastTouch)
		}
	}
	m.touched[id] = LastTouch{uint32(timeout.Milliseconds()), ceilMillis(now.Sub(m.firstTouch))}
	m.longestTimeout = max(m.longestTimeout, timeout)
}

// ceilMillis returns d in milliseconds, rounded up, and at least 0. A member flushes every tick, so d never comes near
// the 49 days that fit.
func ceilMillis(d time.Duration) uint32 {
	return uint32(max(0, (d+time.Millisecond-1)/time.Millisecond))
}

// Flush makes a batch of the touches since the last Flush, if there are any, and drops batches whose touches
// are too old to save a session. It returns all unacknowledged batches, oldest first.
func (m *TouchMap) Flush(now time.Time) []TouchBatch {
	next := m.emptyMap()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lastFlush = now
	m.unackedBatches = slices.DeleteFunc(m.unackedBatches, func(b TouchBatch) bool {
		old := now.Sub(b.SentAt) > b.LongestTimeout
		if old {
			m.unackedTouches -= len(b.Touches)
		}
		return old
	})
	if len(m.touched) > 0 {
		for len(m.unackedBatches) >= maxBatches || m.unackedTouches >= maxUnackedTouches && len(m.unackedBatches) > 1 {
			m.joinPairs()
		}
		m.lastNumber++
		m.unackedBatches = append(m.unackedBatches, TouchBatch{
			Number: m.lastNumber, SentAt: now, FirstTouch: m.firstTouch, LongestTimeout: m.longestTimeout, Touches: m.touched,
		})
		m.unackedTouches += len(m.touched)
		m.touched, m.longestTimeout = next, 0
	}
	return slices.Clone(m.unackedBatches)
}

// emptyMap returns a map for as many touches as there are now, because about as many come until the next
// Flush. It is made without the lock. Otherwise it would grow while Touch holds the lock, and leave as much
// garbage as it has memory in the end.
func (m *TouchMap) emptyMap() map[jute.SessionID]LastTouch {
	m.mu.Lock()
	n := len(m.touched)
	m.mu.Unlock()
	return make(map[jute.SessionID]LastTouch, n)
}

// joinPairs joins every two neighbouring batches. The joined batch counts as sent when the older one was. The times of
// its touches stay.
func (m *TouchMap) joinPairs() {
	var halved []TouchBatch
	m.unackedTouches = 0
	for pair := range slices.Chunk(m.unackedBatches, 2) {
		b := pair[0]
		if len(pair) == 2 {
			b = pair[0].joinWith(pair[1])
		}
		halved = append(halved, b)
		m.unackedTouches += len(b.Touches)
	}
	m.unackedBatches = halved
}

// joinWith returns the touches of a and of the newer b, in memory of its own.
func (a TouchBatch) joinWith(b TouchBatch) TouchBatch {
	touched := maps.Clone(a.Touches)
	later := ceilMillis(b.FirstTouch.Sub(a.FirstTouch))
	for id, t := range b.Touches {
		t.AfterMs += later
		touched[id] = t
	}
	longest := max(a.LongestTimeout, b.LongestTimeout)
	return TouchBatch{Number: b.Number, SentAt: a.SentAt, FirstTouch: a.FirstTouch, LongestTimeout: longest, Touches: touched}
}

// UnackedTouchCount returns the number of unacknowledged touches. A session that was touched again after a flush
// counts again.
func (m *TouchMap) UnackedTouchCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unackedTouches + len(m.touched)
}

// FlushedBefore reports whether the last Flush was before t.
func (m *TouchMap) FlushedBefore(t time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastFlush.Before(t)
}

// UnackedSessionsBefore yields the sessions of the unacknowledged batches that were sent before since. It may yield a
// session more than once.
func (m *TouchMap) UnackedSessionsBefore(since time.Time) iter.Seq[jute.SessionID] {
	m.mu.Lock()
	batches := slices.Clone(m.unackedBatches)
	m.mu.Unlock()
	return func(yield func(jute.SessionID) bool) {
		for _, b := range batches {
			if !b.SentAt.Before(since) {
				return
			}
			for id := range b.Touches {
				if !yield(id) {
					return
				}
			}
		}
	}
}

// HasTouch reports whether the batch has a touch of the session.
func (a TouchBatch) HasTouch(id jute.SessionID) bool {
	_, ok := a.Touches[id]
	return ok
}

// BatchesThrough returns the batches with numbers up to number, oldest first.
func (m *TouchMap) BatchesThrough(number uint64) []TouchBatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unackedBatches[:m.countThrough(number)])
}

func (m *TouchMap) countThrough(number uint64) (n int) {
	for n < len(m.unackedBatches) && m.unackedBatches[n].Number <= number {
		n++
	}
	return n
}

// AckThrough removes the batches with numbers up to number, and returns them, oldest first.
func (m *TouchMap) AckThrough(number uint64) []TouchBatch {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.countThrough(number)
	acked := slices.Clone(m.unackedBatches[:n])
	for _, b := range acked {
		m.unackedTouches -= len(b.Touches)
	}
	m.unackedBatches = slices.Delete(m.unackedBatches, 0, n)
	return acked
}

// Locks returns the lock of the map.
func (m *TouchMap) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "sessiontracker.TouchMap.mu", Locker: &m.mu}}
}
