// Package sessiontracker keeps time for client sessions. Which sessions exist is replicated state
// and lives elsewhere. This package knows which of them were heard from, and when:
//
//   - GlobalTable: when each session is due, and whether it is being closed. The leader has one
//     for its term. It is filled with full timeouts when the term's TermStart has been applied,
//     and applying the log keeps it up to date from then on.
//   - ExpiryQueue: the buckets of the table, one tick wide. Each shard of the table has one.
//   - TouchMap: the sessions that were heard from here, until the leader has acknowledged them.
//     Every member has one. If a crash loses it, no session had a lease that depended on it.
//   - IDGenerator: the ids of new sessions, counted up from a base that is passed in.
//
// # Time
//
// Nothing here reads a clock or starts a goroutine: callers pass now. A session falls due when its
// timeout has passed since the last touch that the leader knows of, or at most a tick later. Table
// time may lag behind the clock but never runs ahead of it.
package sessiontracker

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/jute"
)

const (
	// The table has this many shards, each with a lock: about as many goroutines as may touch
	// sessions at once without waiting.
	shards    = 1 << shardBits
	shardBits = 4

	// These limit for how many sessions a shard's lock is held at a time. Touches, and applying
	// entries, wait for that lock.
	touchesPerSort = 1024 // touches of a batch. In the worst case all are of one shard; usually some 64 are, which takes a few microseconds
	recordsPerLock = 1024 // sessions of a due bucket: some tens of microseconds if every read misses the caches
)

// GlobalTable knows when each session of the ensemble is due. It lives for one term, on the leader.
// It is safe for concurrent use, except that only one goroutine at a time may call Advance and
// Decide.
//
// Its time starts at 0. Each call of Advance moves it by one step of half a tick, however late the
// call is: a leader that was paused for a minute heard from no session meanwhile, and must not
// count that minute against them. Between steps table time runs with the clock.
//
// The sessions are spread over shards, each with its own lock, so goroutines that touch sessions at
// the same time seldom wait for each other. No two of these locks are held together.
type GlobalTable struct {
	step   time.Duration
	clock  atomic.Pointer[clock] // written by Advance
	shards [shards]shard         // by the top bits of the ids' hashes
}

// shard holds a part of the sessions, with their lock.
type shard struct {
	mu    sync.Mutex
	queue *ExpiryQueue
	_     [64 - 16]byte // fills a cache line
}

// clock relates table time to the clock. A goroutine that has read it may use it for a while after
// Advance has stored the next one: the effect is the same as if Advance had come later.
type clock struct {
	base time.Time     // when the last step was due, or when it was taken if it was late
	now  time.Duration // table time at base, a whole number of steps
}

// Seed is a session as the table needs to know it.
type Seed struct {
	ID      jute.SessionID
	Timeout time.Duration // granted; kept in milliseconds
	Member  uint32        // the owner's: only its batches touch the session
	Since   uint64        // log index at which the owner was set
}

// Overdue is a session that was not touched in time.
type Overdue struct {
	Seed
	Heard time.Duration // table time of the last touch, or of an event that counted as one; 0: the start of the term
}

// NewGlobalTable returns a table of sessions that are all due one full timeout from now, in buckets
// one tick wide.
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

// Open adds a newly created session with a full timeout. If the table has the session already it
// changes nothing; in particular it does not save a session that is being closed.
func (t *GlobalTable) Open(s Seed, now time.Time) {
	p := t.shard(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.queue.Has(s.ID) {
		p.queue.Put(s, t.Now(now)+s.Timeout)
	}
}

// Attach sets a session's owner and timeout, and makes it due one such timeout from now, even if
// that is earlier than before. A session that was being closed lives again: the log has the attach,
// and an expiry that comes after it in the log has no effect.
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

// RemoveAll forgets sessions that were closed. Sessions of one shard that are next to each other in
// ids, as Decide returns them, cost half as much each as with Remove. In other orders, such as that
// in which clients close sessions, they cost about as much.
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

// removeRun removes the leading ids that share the shard of the first one, at most touchesPerPass,
// and returns how many it removed.
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

// Touch makes a session due timeout after at, or its own timeout after at if that is shorter now.
// It never makes it due earlier. It reports false, and changes nothing, if the session is unknown
// or being closed.
func (t *GlobalTable) Touch(id jute.SessionID, at time.Time, timeout time.Duration) bool {
	heard := t.Now(at)
	p := t.shard(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Touch(id, 0, heard, timeout)
}

// TouchAll touches the sessions ids that member heard from at the given time, each with its own
// timeout. It appends to refused, and returns, the ids that are unknown, being closed, or owned by
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

// sortTouches sorts touches by shard into sorted, and returns the part of each shard.
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

// Wait returns how long after now the next Advance is due. It is never negative.
func (t *GlobalTable) Wait(now time.Time) time.Duration {
	return max(0, t.clock.Load().base.Add(t.step).Sub(now))
}

// Advance moves table time by one step if the next step is due at now. If all sessions that were
// due before have been decided, those that are due at the new time become due. Advance reports
// whether it came more than a quarter tick late. In that case the table has lost that time for
// good, and touches of live sessions may still be on their way.
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
		return late // buckets are decided one after the other: this one is not decided yet
	}
	for i := range t.shards {
		for p := &t.shards[i]; p.sift(c.now); {
		}
	}
	return late
}

// sift makes sessions due that are due at now, or some of them, and reports whether there are more.
func (p *shard) sift(now time.Duration) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.queue.Poll(now) {
	}
	return p.queue.Sift(recordsPerLock)
}

// Due reports whether any sessions have fallen due and are not yet decided.
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

// Decide appends to dst, and returns, up to limit of the due sessions that were not touched since
// they fell due. From now on these are being closed: touches of them are refused until Attach or
// Remove. When Decide has returned all of them, Due is false.
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

// Expiries yields all sessions that are not being closed, in no order, each with the table time at
// which its bucket falls due. It locks a part of the table at a time, and holds no lock while it
// yields. A session that changes meanwhile may be missed, or its time may be out of date.
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

// Len returns how many sessions the table holds, including those being closed.
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

// Now returns table time at a moment of the clock. Before the clock's base it runs at the speed of
// the clock, so a touch that was under way for a while counts from its own time. It stops at the
// last moment at which the next step would still be in time.
func (t *GlobalTable) Now(now time.Time) time.Duration {
	c := t.clock.Load()
	return c.now + min(now.Sub(c.base), t.step+t.slack())
}

// slack returns how late a step may be without losing time: a quarter tick.
func (t *GlobalTable) slack() time.Duration { return t.step / 2 }
