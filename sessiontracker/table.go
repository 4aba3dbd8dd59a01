// Package sessiontracker keeps time for client sessions. Which sessions exist is replicated state,
// and is kept elsewhere. This package knows which sessions were heard, and when:
//
//   - GlobalTable, on the leader: when each session is due, and whether it is being closed. It lives for
//     one term. When the term's TermStart is applied, every session gets a full timeout; from then on
//     apply keeps the table up to date.
//   - ExpiryQueue: the table's buckets, one tick wide. Each shard of the table has a queue.
//   - TouchMap, on every member: the sessions that were heard here, until the leader has acknowledged
//     that. A crash loses these touches, but no reply has relied on them.
//   - IDGenerator: ids of new sessions, counted up from a base that the caller passes.
//
// # Time
//
// Nothing here reads a clock or starts a goroutine: callers pass now. A session falls due when its
// timeout has passed since the last touch that the leader knows of, and at most a tick later. Table
// time may lag behind the clock, but never runs ahead of it.
package sessiontracker

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
)

const (
	// shardCount is how many parts the table has, each with a lock. About so many
	// goroutines can touch at once without waiting.
	shardCount = 1 << shardBits
	shardBits  = 4

	// These limit how long a shard's lock is held, in sessions that are looked at. Touches and
	// apply wait for the lock.
	touchesPerSort = 1024 // touches of a batch. At worst all are in one shard; usually some 64 are, which takes a few microseconds
	recordsPerLock = 1024 // sessions of a due bucket: some tens of microseconds if all miss the caches
)

// GlobalTable knows when each session of the ensemble is due. It lives on the leader, for one term.
// It is safe for concurrent use, but only one caller at a time may be in Advance or Decide.
//
// Table time starts at 0 and moves by half a tick with each Advance, however late that is. A leader
// that was paused for a minute has heard no client meanwhile, and must not count that minute
// against the sessions. Between two steps table time runs with the clock.
//
// The sessions are spread over shards, and each shard has a lock. Goroutines that touch at the same
// time therefore seldom wait for each other. No goroutine
// holds two of these locks at a time.
type GlobalTable struct {
	step   time.Duration
	clock  atomic.Pointer[tableClock] // written by Advance
	shards [shardCount]shard          // by the top bits of the ids' hashes
}

// shard holds a part of the sessions.
type shard struct {
	mu    sync.Mutex
	queue *ExpiryQueue
	_     [64 - 16]byte // a line of the cache for each
}

// tableClock relates table time to the clock. A goroutine may go on using the clock that it has read for
// a while after Advance has set another one. That is the same as if the goroutine had come before
// Advance.
type tableClock struct {
	stepDue   time.Time     // when the last step was due, or when it was taken if it was late
	tableTime time.Duration // table time at base, a whole number of steps
}

// TrackedSession is what the table has to know of a session.
type TrackedSession struct {
	ID          jute.SessionID
	Timeout     time.Duration // granted; kept in milliseconds
	OwnerMember uint32        // the owner: only its batches touch the session
	OwnerIndex  uint64        // log index at which the owner was set
}

// OverdueSession is a session that is due and was not touched.
type OverdueSession struct {
	TrackedSession
	LastHeard time.Duration // table time of the last touch, or of an event that counted as one; 0: when the term began
}

// NewGlobalTable returns a table of sessions. Each of them is due one full timeout from now. The
// buckets are one tick wide.
func NewGlobalTable(now time.Time, tick time.Duration, sessions iter.Seq[TrackedSession]) *GlobalTable {
	step := tick / 2
	t := &GlobalTable{step: step}
	t.clock.Store(&tableClock{stepDue: now})
	for i := range t.shards {
		t.shards[i].queue = NewExpiryQueue(2 * step)
	}
	for s := range sessions {
		t.shardOf(s.ID).queue.Put(s, s.Timeout)
	}
	return t
}

func (t *GlobalTable) shardOf(id jute.SessionID) *shard { return &t.shards[hashID(id)>>(32-shardBits)] }

// AddSession adds a session that was created, with a full timeout. If the table has the session already,
// Open changes nothing, even if the session is being closed.
func (t *GlobalTable) AddSession(s TrackedSession, now time.Time) {
	p := t.shardOf(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.queue.Has(s.ID) {
		p.queue.Put(s, t.TableTime(now)+s.Timeout)
	}
}

// AttachSession sets a session's owner and timeout, and makes it due one such timeout from now, even if it
// was due later before. A session that is being closed is alive again: an expire that follows the
// attach in the log is void.
func (t *GlobalTable) AttachSession(s TrackedSession, now time.Time) {
	p := t.shardOf(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Put(s, t.TableTime(now)+s.Timeout)
}

// RemoveSession forgets a session that was closed.
func (t *GlobalTable) RemoveSession(id jute.SessionID) {
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Remove(id)
}

// RemoveSessions forgets sessions that were closed. For neighbouring ids of one shard, as Decide returns
// them, it takes half as long per session as Remove. For ids in any other order, such as that in
// which clients close them, it takes about as long.
func (t *GlobalTable) RemoveSessions(ids []jute.SessionID) {
	for len(ids) > 0 {
		n := 1
		if len(ids) > 1 && t.shardOf(ids[0]) == t.shardOf(ids[1]) {
			n = t.removeRun(ids[:min(len(ids), touchesPerPass)])
		} else {
			t.RemoveSession(ids[0])
		}
		ids = ids[n:]
	}
}

// removeRun removes the first of ids, and those of the same shard that follow it, at most
// touchesPerPass. It returns how many it removed.
func (t *GlobalTable) removeRun(ids []jute.SessionID) (n int) {
	var hashes [touchesPerPass]uint32
	for n < len(ids) {
		hashes[n] = hashID(ids[n])
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

// Touch makes a session due timeout after at, unless it is due later already. If the session's own
// timeout is shorter now, that counts instead. Touch reports false, and changes nothing, if the
// session is unknown or being closed.
func (t *GlobalTable) Touch(id jute.SessionID, at time.Time, timeout time.Duration) bool {
	heard := t.TableTime(at)
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Touch(id, 0, heard, timeout)
}

// TouchAll touches the sessions that a member heard at the given time. Each id has a timeout of its
// own. TouchAll appends to refused the ids that are unknown, being closed, or owned by another
// member, in no order, and returns refused.
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
func sortTouches(sorted *[touchesPerSort]touch, ids []int64, timeoutsMs []uint32) (parts [shardCount][]touch) {
	var hashes [touchesPerSort]uint32
	var at [shardCount]int
	for i, id := range ids {
		hashes[i] = hashID(jute.SessionID(id))
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
	heard := t.TableTime(at)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.touchAll(touches, member, heard, refused)
}

// UntilAdvance returns how long after now the next Advance is due. It is never negative.
func (t *GlobalTable) UntilAdvance(now time.Time) time.Duration {
	return max(0, t.clock.Load().stepDue.Add(t.step).Sub(now))
}

// AdvanceStep moves table time on by one step, if the next step is due at now. If all sessions that
// were due before have been decided, those that are due at the new time fall due. Advance reports
// whether it came more than a quarter tick late. Table time then stays behind by that delay for
// good, and touches of live sessions may still be on their way.
func (t *GlobalTable) AdvanceStep(now time.Time) (late bool) {
	c := *t.clock.Load()
	behind := now.Sub(c.stepDue) - t.step
	if behind < 0 {
		return false
	}
	late = behind > t.lateAllowance()
	c.tableTime += t.step
	c.stepDue = c.stepDue.Add(t.step)
	if late {
		c.stepDue = now
	}
	t.clock.Store(&c)
	if t.HasDue() {
		return late // the next bucket waits until these are decided
	}
	for i := range t.shards {
		for p := &t.shards[i]; p.siftBatch(c.tableTime); {
		}
	}
	return late
}

// siftBatch looks at some of the sessions that may be due at now. It reports whether there are more.
func (p *shard) siftBatch(now time.Duration) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.queue.PollBucket(now) {
	}
	return p.queue.SiftPolled(recordsPerLock)
}

// HasDue reports whether there are sessions that have fallen due and are not decided yet.
func (t *GlobalTable) HasDue() bool {
	for i := range t.shards {
		if t.shards[i].hasDue() {
			return true
		}
	}
	return false
}

func (p *shard) hasDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.HasDue()
}

// TakeOverdue appends to dst up to limit of the due sessions that have not been touched since they fell
// due, and returns dst. These sessions are being closed from now on: touches are refused until
// Attach or Remove. When no due session is left, Due returns false.
func (t *GlobalTable) TakeOverdue(dst []OverdueSession, limit int) []OverdueSession {
	want := len(dst) + limit
	for i := range t.shards {
		for more := true; more && len(dst) < want; {
			dst, more = t.shards[i].takeOverdue(dst, min(want-len(dst), recordsPerLock))
		}
	}
	return dst
}

func (p *shard) takeOverdue(dst []OverdueSession, limit int) (_ []OverdueSession, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = p.queue.TakeOverdue(dst, limit)
	return dst, p.queue.HasDue()
}

// Expiries yields all sessions except those that are being closed, in no order. With each it yields
// the table time at which the session's bucket falls due. It holds no lock while it yields, and a
// lock only for a part of the sessions at a time. A session that changes meanwhile may be missed,
// or may have moved.
func (t *GlobalTable) Expiries() iter.Seq[Expiry] {
	return func(yield func(Expiry) bool) {
		part := make([]Expiry, 0, recordsPerLock)
		for i := range t.shards {
			for cursor, more := uint32(0), true; more; more = cursor != 0 {
				if part, cursor = t.shards[i].appendExpiries(part[:0], cursor); !yieldAll(part, yield) {
					return
				}
			}
		}
	}
}

func (p *shard) appendExpiries(part []Expiry, cursor uint32) ([]Expiry, uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.AppendExpiries(part, cursor, recordsPerLock)
}

func yieldAll(part []Expiry, yield func(Expiry) bool) bool {
	for _, e := range part {
		if !yield(e) {
			return false
		}
	}
	return true
}

// LastHeard says when a session was last heard, as its leader knows.
type LastHeard struct {
	Ago      time.Duration // since the last touch, or since what counted as one: the term began, or a connect
	TimeLeft time.Duration // until its timeout is over if it is not heard again; it is closed up to a tick later
}

// LastHeard returns what the table knows of a session at now. It returns false if the session is unknown or
// being closed.
func (t *GlobalTable) LastHeard(id jute.SessionID, now time.Time) (LastHeard, bool) {
	at := t.TableTime(now)
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline, timeout, ok := p.queue.Deadline(id)
	if !ok {
		return LastHeard{}, false
	}
	return LastHeard{Ago: max(0, at-(deadline-timeout)), TimeLeft: max(0, deadline-at)}, true
}

// Len returns how many sessions the table holds, including those that are being closed.
func (t *GlobalTable) Len() (n int) {
	for i := range t.shards {
		n += t.shards[i].sessionCount()
	}
	return n
}

func (p *shard) sessionCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Len()
}

// TableTime returns table time at a moment of the clock. Before the clock's base, table time runs as fast
// as the clock, so that a touch that was on its way for a while counts from the time when it was
// made. When the next step is late, table time stops.
func (t *GlobalTable) TableTime(now time.Time) time.Duration {
	c := t.clock.Load()
	return c.tableTime + min(now.Sub(c.stepDue), t.step+t.lateAllowance())
}

// lateAllowance returns how late a step may be without losing time: a quarter tick.
func (t *GlobalTable) lateAllowance() time.Duration { return t.step / 2 }
