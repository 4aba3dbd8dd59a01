// Package sessiontracker keeps time for client sessions. Which sessions exist is
// replicated state and lives elsewhere; here is who was heard, and when:
//
//   - GlobalTable: when each session is due, and whether it is being closed. The
//     leader's, for one term: filled with full timeouts when the term's TermStart has
//     applied, and fed by apply from then on.
//   - ExpiryQueue: its buckets, one tick wide.
//   - TouchMap: who was heard here and not yet acknowledged by the leader. Every
//     member's; what a crash loses, nobody vouched for.
//   - IDGenerator: ids of new sessions, counted up from a base that is passed in.
//
// # Time
//
// Nothing here reads a clock or starts a goroutine: callers pass now. A session falls
// due once its timeout has passed since the last touch the leader knows of, and at
// most a tick later. Table time may lag behind the clock, never run ahead of it.
package sessiontracker

import (
	"iter"
	"sync"
	"time"

	"rollcall/jute"
)

// Limits on how long the table's lock is held, in sessions looked at. Touches and apply
// wait for it.
const (
	touchesPerLock = 64   // a few microseconds
	recordsPerLock = 1024 // of a due bucket: some tens of microseconds if all miss the caches
)

// GlobalTable knows when each session of the ensemble is due. It lives for one term, on
// the leader. Safe for concurrent use, but Advance and Decide are for one caller at a
// time.
//
// Its time starts at 0 and moves in steps of half a tick, one for each Advance, however
// late that is: a leader that stood still for a minute has heard nobody meanwhile, and
// must not count that minute against them. Between steps it runs with the clock.
type GlobalTable struct {
	step time.Duration

	mu    sync.Mutex
	queue *ExpiryQueue
	base  time.Time     // when the last step was due; or taken, if that was late
	now   time.Duration // table time at base, a whole number of steps
}

// Seed is a session as the table needs to know it.
type Seed struct {
	ID      jute.SessionID
	Timeout time.Duration // granted; kept in milliseconds
	Member  uint32        // the owner's: only its batches touch the session
	Since   uint64        // log index at which the owner was set
}

// Overdue is a session that no touch has saved.
type Overdue struct {
	Seed
	Heard time.Duration // table time of the last touch, or of what counted as one; 0: when the term began
}

// NewGlobalTable returns a table of sessions that are all due one full timeout from now,
// in buckets one tick wide.
func NewGlobalTable(now time.Time, tick time.Duration, sessions iter.Seq[Seed]) *GlobalTable {
	step := tick / 2
	t := &GlobalTable{step: step, queue: NewExpiryQueue(2 * step), base: now}
	for s := range sessions {
		t.queue.Put(s, s.Timeout)
	}
	return t
}

// Open adds a session that was created, with a full timeout. One that is there already
// keeps what it has, and one that is being closed is not saved by it.
func (t *GlobalTable) Open(s Seed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.queue.Has(s.ID) {
		t.queue.Put(s, t.at(now)+s.Timeout)
	}
}

// Attach sets a session's owner and timeout, and makes it due one such timeout from now,
// be that earlier than before. A session that is being closed lives again: the log has
// the attach, and an expiry that comes behind it is void.
func (t *GlobalTable) Attach(s Seed, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Put(s, t.at(now)+s.Timeout)
}

// Remove forgets a session that was closed.
func (t *GlobalTable) Remove(id jute.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue.Remove(id)
}

// Touch makes a session due timeout after at, or its own timeout if that is shorter now;
// or later if it was. It reports false, and changes nothing, if the session is unknown or
// being closed.
func (t *GlobalTable) Touch(id jute.SessionID, at time.Time, timeout time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Touch(id, 0, t.at(at), timeout)
}

// TouchAll touches what a member heard at the given time: ids, with a timeout each. It
// appends to refused, and returns, the ids that are unknown, being closed, or owned by
// another member.
func (t *GlobalTable) TouchAll(member uint32, at time.Time, ids []int64, timeoutsMs []uint32, refused []int64) []int64 {
	for len(ids) > 0 {
		n := min(len(ids), touchesPerLock)
		refused = t.touchSome(member, at, ids[:n], timeoutsMs[:n], refused)
		ids, timeoutsMs = ids[n:], timeoutsMs[n:]
	}
	return refused
}

func (t *GlobalTable) touchSome(member uint32, at time.Time, ids []int64, timeoutsMs []uint32, refused []int64) []int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	heard := t.at(at)
	for i, id := range ids {
		timeout := time.Duration(timeoutsMs[i]) * time.Millisecond
		if !t.queue.Touch(jute.SessionID(id), member, heard, timeout) {
			refused = append(refused, id)
		}
	}
	return refused
}

// Wait says how long after now the next Advance is due; never negative.
func (t *GlobalTable) Wait(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.base.Add(t.step).Sub(now))
}

// Advance moves table time on by one step, if the next one is due at now. If all earlier
// due sessions have been decided, those that are due at the new time become due. It
// reports whether it came more than a quarter tick late; the time lost is then lost to
// the table for good, and the touches of the living may still be on their way.
func (t *GlobalTable) Advance(now time.Time) (late bool) {
	late, polled := t.advance(now)
	for polled {
		polled = t.sift()
	}
	return late
}

func (t *GlobalTable) advance(now time.Time) (late, polled bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	behind := now.Sub(t.base) - t.step
	if behind < 0 {
		return false, false
	}
	late = behind > t.slack()
	t.now += t.step
	t.base = t.base.Add(t.step)
	if late {
		t.base = now
	}
	if t.queue.Due() {
		return late, false // one bucket after the other: these have their answer coming
	}
	for t.queue.Poll(t.now) {
		polled = true
	}
	return late, polled
}

func (t *GlobalTable) sift() (more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Sift(recordsPerLock)
}

// Due reports whether sessions have fallen due and are not yet decided.
func (t *GlobalTable) Due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Due()
}

// Decide appends to dst, and returns, up to limit of the due sessions that no touch has
// saved since they fell due. From here on they are being closed: touches are refused
// until Attach or Remove. Due is false when none are left.
func (t *GlobalTable) Decide(dst []Overdue, limit int) []Overdue {
	want := len(dst) + limit
	for more := true; more && len(dst) < want; {
		dst, more = t.decide(dst, min(want-len(dst), recordsPerLock))
	}
	return dst
}

func (t *GlobalTable) decide(dst []Overdue, limit int) (_ []Overdue, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dst = t.queue.Take(dst, limit)
	return dst, t.queue.Due()
}

// Expiries yields all sessions but those being closed, in no order, each with the table
// time at which its bucket falls due. The lock is held for a part of them at a time, and
// not while it yields: a session may be missed, or have moved, if it changed meanwhile.
func (t *GlobalTable) Expiries() iter.Seq[Expiry] {
	return func(yield func(Expiry) bool) {
		part := make([]Expiry, 0, recordsPerLock)
		for cursor := uint32(0); ; {
			if part, cursor = t.expiries(part[:0], cursor); !yieldAll(part, yield) || cursor == 0 {
				return
			}
		}
	}
}

func (t *GlobalTable) expiries(part []Expiry, cursor uint32) ([]Expiry, uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Buckets(part, cursor, recordsPerLock)
}

func yieldAll(part []Expiry, yield func(Expiry) bool) bool {
	for _, e := range part {
		if !yield(e) {
			return false
		}
	}
	return true
}

// Now returns table time at a moment of the clock.
func (t *GlobalTable) Now(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(now)
}

// Len returns how many sessions the table holds, those being closed included.
func (t *GlobalTable) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.queue.Len()
}

// at is table time at a moment of the clock. Before base it runs as fast as the clock: a
// touch that was under way for a while counts from its own time. Behind the last moment
// at which the next step is in time it stands still.
func (t *GlobalTable) at(now time.Time) time.Duration {
	return t.now + min(now.Sub(t.base), t.step+t.slack())
}

// slack is how late a step may be without losing time: a quarter tick.
func (t *GlobalTable) slack() time.Duration { return t.step / 2 }
