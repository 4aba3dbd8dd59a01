// Package sessiontracker keeps time for client sessions. Which sessions exist is
// replicated state and lives elsewhere; here is who was heard, and when:
//
//   - GlobalTable: when each session is due, and whether it is being closed. The
//     leader's, for one term: filled with full timeouts when the term's TermStart has
//     applied, and fed by apply from then on.
//   - ExpiryQueue: its buckets, one tick wide; one for each shard of the table.
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
	"sync/atomic"
	"time"

	"rollcall/jute"
)

const (
	// shards of the table, each with a lock: as many as touch at once without waiting, more
	// or less.
	shards    = 1 << shardBits
	shardBits = 4

	// Limits on how long a shard's lock is held, in sessions looked at. Touches and apply
	// wait for it.
	touchesPerSort = 1024 // touches of a batch: all of one shard's if it must be, as a rule some 64, a few microseconds
	recordsPerLock = 1024 // of a due bucket: some tens of microseconds if all miss the caches
)

// GlobalTable knows when each session of the ensemble is due. It lives for one term, on
// the leader. Safe for concurrent use, but Advance and Decide are for one caller at a
// time.
//
// Its time starts at 0 and moves in steps of half a tick, one for each Advance, however
// late that is: a leader that stood still for a minute has heard nobody meanwhile, and
// must not count that minute against them. Between steps it runs with the clock.
//
// The sessions are spread over shards, each with a lock of its own: those who touch at the
// same time seldom wait for each other. No two of these locks are held together.
type GlobalTable struct {
	step   time.Duration
	clock  atomic.Pointer[clock] // written by Advance
	shards [shards]shard         // by the top bits of the ids' hashes
}

// shard holds a part of the sessions.
type shard struct {
	mu    sync.Mutex
	queue *ExpiryQueue
	_     [64 - 16]byte // a line of the cache for each
}

// clock relates table time to the clock. Who has read it may go on for a while after
// Advance has set another: it is as if that had come later.
type clock struct {
	base time.Time     // when the last step was due; or taken, if that was late
	now  time.Duration // table time at base, a whole number of steps
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
	t := &GlobalTable{step: step}
	t.clock.Store(&clock{base: now})
	for i := range t.shards {
		t.shards[i].queue = NewExpiryQueue(2 * step)
	}
	for s := range sessions {
		t.shard(s.ID).queue.Put(s, s.Timeout)
	}
	return t
}

func (t *GlobalTable) shard(id jute.SessionID) *shard { return &t.shards[hash(id)>>(32-shardBits)] }

// Open adds a session that was created, with a full timeout. One that is there already
// keeps what it has, and one that is being closed is not saved by it.
func (t *GlobalTable) Open(s Seed, now time.Time) {
	p := t.shard(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.queue.Has(s.ID) {
		p.queue.Put(s, t.Now(now)+s.Timeout)
	}
}

// Attach sets a session's owner and timeout, and makes it due one such timeout from now,
// be that earlier than before. A session that is being closed lives again: the log has
// the attach, and an expiry that comes behind it is void.
func (t *GlobalTable) Attach(s Seed, now time.Time) {
	p := t.shard(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Put(s, t.Now(now)+s.Timeout)
}

// Remove forgets a session that was closed.
func (t *GlobalTable) Remove(id jute.SessionID) {
	p := t.shard(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Remove(id)
}

// RemoveAll forgets sessions that were closed. Those of one shard that stand together, as
// Decide returns them, cost half as much each as with Remove; others, in the order in which
// clients close them, about as much.
func (t *GlobalTable) RemoveAll(ids []jute.SessionID) {
	for len(ids) > 0 {
		n := 1
		if len(ids) > 1 && t.shard(ids[0]) == t.shard(ids[1]) {
			n = t.removeRun(ids[:min(len(ids), touchesPerPass)])
		} else {
			t.Remove(ids[0])
		}
		ids = ids[n:]
	}
}

// removeRun removes the first of ids, touchesPerPass at most, and those of the same shard that
// stand behind it, and returns how many.
func (t *GlobalTable) removeRun(ids []jute.SessionID) (n int) {
	var hashes [touchesPerPass]uint32
	for n < len(ids) {
		hashes[n] = hash(ids[n])
		if hashes[n]>>(32-shardBits) != hashes[0]>>(32-shardBits) {
			break
		}
		n++
	}
	p := &t.shards[hashes[0]>>(32-shardBits)]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.removeAll(ids[:n], hashes[:n])
	return n
}

// Touch makes a session due timeout after at, or its own timeout if that is shorter now;
// or later if it was. It reports false, and changes nothing, if the session is unknown or
// being closed.
func (t *GlobalTable) Touch(id jute.SessionID, at time.Time, timeout time.Duration) bool {
	heard := t.Now(at)
	p := t.shard(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Touch(id, 0, heard, timeout)
}

// TouchAll touches what a member heard at the given time: ids, with a timeout each. It
// appends to refused, and returns, the ids that are unknown, being closed, or owned by
// another member, in no order.
func (t *GlobalTable) TouchAll(member uint32, at time.Time, ids []int64, timeoutsMs []uint32, refused []int64) []int64 {
	var sorted [touchesPerSort]touch
	for len(ids) > 0 {
		n := min(len(ids), touchesPerSort)
		for i, touches := range sortTouches(&sorted, ids[:n], timeoutsMs[:n]) {
			refused = t.touchShard(&t.shards[i], member, at, touches, refused)
		}
		ids, timeoutsMs = ids[n:], timeoutsMs[n:]
	}
	return refused
}

// sortTouches writes touches into sorted, and returns those of each shard.
func sortTouches(sorted *[touchesPerSort]touch, ids []int64, timeoutsMs []uint32) (parts [shards][]touch) {
	var hashes [touchesPerSort]uint32
	var at [shards]int
	for i, id := range ids {
		hashes[i] = hash(jute.SessionID(id))
		at[hashes[i]>>(32-shardBits)]++
	}
	from := 0
	for i, n := range at {
		parts[i], at[i], from = sorted[from:from+n], from, from+n
	}
	for i, id := range ids {
		next := &at[hashes[i]>>(32-shardBits)]
		sorted[*next] = touch{jute.SessionID(id), hashes[i], timeoutsMs[i]}
		*next++
	}
	return parts
}

func (t *GlobalTable) touchShard(p *shard, member uint32, at time.Time, touches []touch, refused []int64) []int64 {
	if len(touches) == 0 {
		return refused
	}
	heard := t.Now(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.touchAll(touches, member, heard, refused)
}

// Wait says how long after now the next Advance is due; never negative.
func (t *GlobalTable) Wait(now time.Time) time.Duration {
	return max(0, t.clock.Load().base.Add(t.step).Sub(now))
}

// Advance moves table time on by one step, if the next one is due at now. If all earlier
// due sessions have been decided, those that are due at the new time become due. It
// reports whether it came more than a quarter tick late; the time lost is then lost to
// the table for good, and the touches of the living may still be on their way.
func (t *GlobalTable) Advance(now time.Time) (late bool) {
	c := *t.clock.Load()
	behind := now.Sub(c.base) - t.step
	if behind < 0 {
		return false
	}
	late = behind > t.slack()
	c.now += t.step
	c.base = c.base.Add(t.step)
	if late {
		c.base = now
	}
	t.clock.Store(&c)
	if t.Due() {
		return late // one bucket after the other: these have their answer coming
	}
	for i := range t.shards {
		for p := &t.shards[i]; p.sift(c.now); {
		}
	}
	return late
}

// sift lets fall due what is due at now, or a part of that, and reports whether there is
// more.
func (p *shard) sift(now time.Duration) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.queue.Poll(now) {
	}
	return p.queue.Sift(recordsPerLock)
}

// Due reports whether sessions have fallen due and are not yet decided.
func (t *GlobalTable) Due() bool {
	for i := range t.shards {
		if t.shards[i].due() {
			return true
		}
	}
	return false
}

func (p *shard) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Due()
}

// Decide appends to dst, and returns, up to limit of the due sessions that no touch has
// saved since they fell due. From here on they are being closed: touches are refused
// until Attach or Remove. Due is false when none are left.
func (t *GlobalTable) Decide(dst []Overdue, limit int) []Overdue {
	want := len(dst) + limit
	for i := range t.shards {
		for more := true; more && len(dst) < want; {
			dst, more = t.shards[i].decide(dst, min(want-len(dst), recordsPerLock))
		}
	}
	return dst
}

func (p *shard) decide(dst []Overdue, limit int) (_ []Overdue, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = p.queue.Take(dst, limit)
	return dst, p.queue.Due()
}

// Expiries yields all sessions but those being closed, in no order, each with the table
// time at which its bucket falls due. No lock is held for more than a part of them at a
// time, nor while it yields: a session may be missed, or have moved, if it changed meanwhile.
func (t *GlobalTable) Expiries() iter.Seq[Expiry] {
	return func(yield func(Expiry) bool) {
		part := make([]Expiry, 0, recordsPerLock)
		for i := range t.shards {
			for cursor, more := uint32(0), true; more; more = cursor != 0 {
				if part, cursor = t.shards[i].expiries(part[:0], cursor); !yieldAll(part, yield) {
					return
				}
			}
		}
	}
}

func (p *shard) expiries(part []Expiry, cursor uint32) ([]Expiry, uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Buckets(part, cursor, recordsPerLock)
}

func yieldAll(part []Expiry, yield func(Expiry) bool) bool {
	for _, e := range part {
		if !yield(e) {
			return false
		}
	}
	return true
}

// Len returns how many sessions the table holds, those being closed included.
func (t *GlobalTable) Len() (n int) {
	for i := range t.shards {
		n += t.shards[i].len()
	}
	return n
}

func (p *shard) len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// Now returns table time at a moment of the clock. Before the clock's base it runs as fast
// as the clock: a touch that was under way for a while counts from its own time. Behind the
// last moment at which the next step is in time it stands still.
func (t *GlobalTable) Now(now time.Time) time.Duration {
	c := t.clock.Load()
	return c.now + min(now.Sub(c.base), t.step+t.slack())
}

// slack is how late a step may be without losing time: a quarter tick.
func (t *GlobalTable) slack() time.Duration { return t.step / 2 }
