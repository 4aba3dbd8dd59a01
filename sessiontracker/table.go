// Package sessiontracker keeps time for client sessions. Which sessions exist is replicated state, and is
// kept elsewhere. This package has the times of their last touches:
//
//   - GlobalTable, on the leader: when each session is due, and whether it is being closed. It lives for one
//     term. When the term's TermStart is applied, every session gets a full timeout, and is unheard. From then on
//     apply keeps the table up to date, and members say for how long they have not heard their sessions.
//   - ExpiryQueue: the table's buckets, half a tick wide. Each shard of the table has a queue.
//   - TouchMap, on every member: the sessions that were heard here, until the leader has acknowledged them. A
//     crash loses these touches, but no reply has relied on them.
//   - IDGenerator: ids of new sessions, counted up from a base that the caller passes.
//
// # Nothing that was heard expires
//
// A deadline is lowered only while nothing was heard in the term, and only by the session's owner, by all it has heard, or, if that
// is lost, by what a majority knows of it. Everything else raises a deadline, and no time without a leader counts.
//
// Only the owner's process can hear a session, and the log says which one that is: it speaks of sessions that it owned at the
// index that it had applied, so a session that has moved meanwhile keeps its timeout. A lost process cannot speak, but a touch that
// was acknowledged is one that a majority knows to be no older than the process was last heard.
//
// # Time
//
// Nothing here reads a clock or starts a goroutine: callers pass now. A session falls due at most half a tick
// after its timeout has passed since its last touch, which counts from when a member heard it and not from when
// the leader received that. Table time may lag behind the clock, but never runs ahead of it.
package sessiontracker

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/internal/lockwatch"
	"rollcall/zk/jute"
)

const (
	// shardCount is about the number of goroutines that can touch at once without waiting.
	shardCount = 1 << shardBits
	shardBits  = 4

	// These limit how long a shard's lock is held, in sessions. Touches and apply wait for the lock.
	touchesPerSort = 1024 // of a batch; usually some 64 are in one shard, which takes a few microseconds
	recordsPerLock = 1024 // of a due bucket: some tens of microseconds if all miss the caches
)

// GlobalTable has the due time of each session of the ensemble. It lives on the leader, for one term. It is
// safe for concurrent use, but only one caller at a time may be in AdvanceIfDue or TakeOverdue.
//
// Table time starts at 0 and moves by half a tick with each AdvanceIfDue, however late that is. A leader that
// was paused for a minute has heard no client meanwhile, and must not count that minute against the sessions.
// Between two steps table time runs with the clock.
//
// The sessions are spread over shards with a lock each, so goroutines that touch at the same time seldom wait
// for each other. No goroutine holds two of these locks at a time.
type GlobalTable struct {
	step   time.Duration
	clock  atomic.Pointer[tableClock] // written by AdvanceIfDue
	shards [shardCount]shard          // by the top bits of the ids' hashes
}

type shard struct {
	mu    sync.Mutex
	queue *ExpiryQueue
	_     [64 - 16]byte // pads the shard to a cache line
}

// tableClock relates table time to the clock. A goroutine that still uses the previous clock behaves as if it
// had come before AdvanceIfDue.
type tableClock struct {
	lastStepAt time.Time     // the time at which the last step was due, or was taken if it was late
	tableTime  time.Duration // at lastStepAt, a whole number of steps
}

// TrackedSession is the table's part of a session's record.
type TrackedSession struct {
	ID          jute.SessionID
	Timeout     time.Duration // granted; kept in milliseconds
	OwnerMember uint32        // only its batches touch the session
	OwnerIndex  uint64        // log index at which the owner was set
}

// OverdueSession is a session that is due and was not touched.
type OverdueSession struct {
	TrackedSession
	LastHeard time.Duration // table time of the last touch, or an event that counts as one; 0 is the term's start
	Deadline  time.Duration // LastHeard, the timeout, and the silence that did not count
}

// NewGlobalTable returns a table of sessions, each due one full timeout from now. The buckets are half a tick
// wide, as often as table time moves: so a session ends at most a tick late, even if the last ping before that has to
// wait for half a tick.
func NewGlobalTable(now time.Time, tick time.Duration, sessions iter.Seq[TrackedSession]) *GlobalTable {
	step := tick / 2
	t := &GlobalTable{step: step}
	t.clock.Store(&tableClock{lastStepAt: now})
	for i := range t.shards {
		t.shards[i].queue = NewExpiryQueue(step)
	}
	for s := range sessions {
		t.shardOf(s.ID).queue.PutUnheard(s, s.Timeout)
	}
	return t
}

func (t *GlobalTable) shardOf(id jute.SessionID) *shard { return &t.shards[hashID(id)>>(32-shardBits)] }

// AddIfMissing adds a new session, with a full timeout. It changes nothing if the table has the session
// already, even if that is being closed.
func (t *GlobalTable) AddIfMissing(s TrackedSession, now time.Time) {
	p := t.shardOf(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.queue.Has(s.ID) {
		p.queue.Put(s, t.TableTime(now)+s.Timeout)
	}
}

// AttachSession sets a session's owner and timeout, and makes it due one timeout from now, even if it was due
// later before. A session that is being closed is alive again: an expire that follows the attach in the log
// is void.
func (t *GlobalTable) AttachSession(s TrackedSession, now time.Time) {
	p := t.shardOf(s.ID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Put(s, t.TableTime(now)+s.Timeout)
}

// RemoveSession removes a session that was closed.
func (t *GlobalTable) RemoveSession(id jute.SessionID) {
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.Remove(id)
}

// RemoveSessions removes sessions that were closed. For neighbouring ids of one shard, as TakeOverdue returns
// them, it takes half as long per session as RemoveSession. For ids in any other order, such as that of
// clients' closes, it takes about as long.
func (t *GlobalTable) RemoveSessions(ids []jute.SessionID) {
	for len(ids) > 0 {
		n := 1
		if len(ids) > 1 && t.shardOf(ids[0]) == t.shardOf(ids[1]) {
			n = t.removeSameShardPrefix(ids[:min(len(ids), touchesPerPass)])
		} else {
			t.RemoveSession(ids[0])
		}
		ids = ids[n:]
	}
}

// removeSameShardPrefix removes the first of ids and those of the same shard that follow it, at most
// touchesPerPass, and returns their number.
func (t *GlobalTable) removeSameShardPrefix(ids []jute.SessionID) (n int) {
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

// Touch makes a session due timeout after at, unless it is due later already. If the session's own timeout is
// shorter now, that counts instead. Touch returns false, and changes nothing, if the session is unknown or
// being closed.
func (t *GlobalTable) Touch(id jute.SessionID, at time.Time, timeout time.Duration) bool {
	heard := t.TableTime(at)
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Touch(id, 0, heard, timeout)
}

// Touches are sessions that a member heard, each with a timeout and a time of its own. The slices have the same length.
type Touches struct {
	First      time.Time // the time from which AfterMs counts
	IDs        []int64
	TimeoutsMs []uint32
	AfterMs    []uint32
}

func (b *Touches) split(n int) (first, rest Touches) {
	return Touches{b.First, b.IDs[:n], b.TimeoutsMs[:n], b.AfterMs[:n]},
		Touches{b.First, b.IDs[n:], b.TimeoutsMs[n:], b.AfterMs[n:]}
}

// TouchAll touches the sessions that a member heard. It appends to rejected the ids that are unknown, being closed, or
// owned by another member, in no order.
func (t *GlobalTable) TouchAll(member uint32, b Touches, rejected []int64) []int64 {
	var sorted [touchesPerSort]touch
	for len(b.IDs) > 0 {
		var part Touches
		part, b = b.split(min(len(b.IDs), touchesPerSort))
		for i, touches := range t.groupByShard(&sorted, &part) {
			rejected = t.shards[i].touchAll(member, touches, rejected)
		}
	}
	return rejected
}

// groupByShard sorts touches by shard into sorted, and returns the part of each shard.
func (t *GlobalTable) groupByShard(sorted *[touchesPerSort]touch, b *Touches) (parts [shardCount][]touch) {
	var hashes [touchesPerSort]uint32
	var at [shardCount]int
	for i, id := range b.IDs {
		hashes[i] = hashID(jute.SessionID(id))
		at[hashes[i]>>(32-shardBits)]++
	}
	c, from := t.clock.Load(), 0
	first, most := b.First.Sub(c.lastStepAt), t.step+t.lateAllowance() // as in TableTime
	for i, n := range at {
		parts[i], at[i], from = sorted[from:from+n], from, from+n
	}
	for i, id := range b.IDs {
		next := &at[hashes[i]>>(32-shardBits)]
		heard := c.tableTime + min(first+time.Duration(b.AfterMs[i])*time.Millisecond, most)
		sorted[*next] = touch{jute.SessionID(id), hashes[i], b.TimeoutsMs[i], heard}
		*next++
	}
	return parts
}

func (p *shard) touchAll(member uint32, touches []touch, rejected []int64) []int64 {
	if len(touches) == 0 {
		return rejected
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.touchAll(touches, member, rejected)
}

// Silences are for how long a member has not heard its sessions, each without the time that does not count, and that time.
// The slices have the same length.
type Silences struct {
	IDs      []int64
	SilentMs []uint32
	GapMs    []uint32
}

// CountSilences sets the deadlines of sessions of earlier terms by what their member knows at now, if it has applied the log
// up to the given index: see ExpiryQueue.CountSilence. It takes up to 1 µs for each session.
func (t *GlobalTable) CountSilences(member uint32, applied uint64, now time.Time, s Silences) {
	at := t.TableTime(now)
	for i, id := range s.IDs {
		silent, gap := time.Duration(s.SilentMs[i])*time.Millisecond, time.Duration(s.GapMs[i])*time.Millisecond
		t.shardOf(jute.SessionID(id)).countSilence(jute.SessionID(id), member, applied, at, silent, gap)
	}
}

func (p *shard) countSilence(id jute.SessionID, member uint32, applied uint64, at, silent, gap time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.CountSilence(id, member, applied, at, silent, gap)
}

// LostMember is a member that was not heard for a time, so that its sessions have at least that silence.
type LostMember struct {
	Member       uint32
	Silent       time.Duration // its present process
	Through      uint64        // Silent is of its sessions whose owners were set up to this index; 0: of none
	EndedSilent  time.Duration // the process before that
	EndedThrough uint64        // likewise
}

// CountLost sets the deadlines of sessions of earlier terms that nobody has heard since: they have what is left of their timeouts
// after the silences of their members at now, and at least a third. It visits all sessions, some ten thousand in a millisecond,
// and holds a lock for a part of them at a time.
func (t *GlobalTable) CountLost(now time.Time, lost []LostMember) {
	var byMember [256]LostMember
	for _, m := range lost {
		byMember[uint8(m.Member)] = m
	}
	for i := range t.shards {
		for cursor, more := uint32(0), true; more; more = cursor != 0 {
			cursor = t.shards[i].countLost(t.TableTime(now), &byMember, cursor)
		}
	}
}

func (p *shard) countLost(at time.Duration, lost *[256]LostMember, cursor uint32) (next uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.CountLost(at, lost, cursor, recordsPerLock)
}

// UntilAdvance returns the time until the next AdvanceIfDue is due, or 0 if it is late.
func (t *GlobalTable) UntilAdvance(now time.Time) time.Duration {
	return max(0, t.clock.Load().lastStepAt.Add(t.step).Sub(now))
}

// AdvanceIfDue advances table time by one step, if that is due at now. If all sessions that were due before
// have been handled, those that are due at the new time fall due. It reports whether it came more than a
// quarter tick late. Table time then stays behind by that delay for good, and touches of live sessions may
// still be on their way.
func (t *GlobalTable) AdvanceIfDue(now time.Time) (late bool) {
	c := *t.clock.Load()
	behind := now.Sub(c.lastStepAt) - t.step
	if behind < 0 {
		return false
	}
	late = behind > t.lateAllowance()
	c.tableTime += t.step
	c.lastStepAt = c.lastStepAt.Add(t.step)
	if late {
		c.lastStepAt = now
	}
	t.clock.Store(&c)
	if t.HasDue() {
		return late // the next bucket waits until these are handled
	}
	for i := range t.shards {
		for p := &t.shards[i]; p.pollAndSift(c.tableTime); {
		}
	}
	return late
}

// pollAndSift checks some of the sessions that may be due at now, and reports whether there are more.
func (p *shard) pollAndSift(now time.Duration) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.queue.PollDueBucket(now) {
	}
	return p.queue.SiftPolled(recordsPerLock)
}

// HasDue reports whether sessions are due and not yet handled by TakeOverdue.
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

// TakeOverdue appends to dst up to limit of the due sessions that have not been touched since they fell due.
// These sessions are being closed from now on: touches are rejected until AttachSession or RemoveSession.
// When no due session is left, HasDue returns false.
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

// Expiries yields all sessions except those that are being closed, in no order, with the table time at which
// each one's bucket falls due. It holds no lock while it yields, and a lock only for a part of the sessions
// at a time. A session that changes meanwhile may be missed, or may have moved.
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

// LastHeard is the leader's knowledge of a session's last touch.
type LastHeard struct {
	Ago      time.Duration // since the last touch, or an event that counts as one: the term's start, or a connect
	TimeLeft time.Duration // until its timeout ends if it is not heard; it is closed up to a tick later
}

// LastHeard returns false if the session is unknown or being closed.
func (t *GlobalTable) LastHeard(id jute.SessionID, now time.Time) (LastHeard, bool) {
	at := t.TableTime(now)
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	deadline, heard, ok := p.queue.Deadline(id)
	if !ok {
		return LastHeard{}, false
	}
	return LastHeard{Ago: max(0, at-heard), TimeLeft: max(0, deadline-at)}, true
}

// Has reports whether the session is known, even if it is being closed.
func (t *GlobalTable) Has(id jute.SessionID) bool {
	p := t.shardOf(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.Has(id)
}

// Len returns the number of sessions, including those that are being closed.
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

// TableTime converts a time of the clock. Before tableClock.lastStepAt, table time runs as fast as the clock, so
// that a touch that was on its way for a while counts from the time when it was made. When the next step is
// late, table time stops.
func (t *GlobalTable) TableTime(now time.Time) time.Duration {
	c := t.clock.Load()
	return c.tableTime + min(now.Sub(c.lastStepAt), t.step+t.lateAllowance())
}

// lateAllowance is the delay of a step that loses no time: a quarter tick.
func (t *GlobalTable) lateAllowance() time.Duration { return t.step / 2 }

// Locks returns the locks of the shards.
func (t *GlobalTable) Locks() (all []lockwatch.Lock) {
	for i := range t.shards {
		all = append(all, lockwatch.Lock{Name: "sessiontracker.shard.mu", Locker: &t.shards[i].mu})
	}
	return all
}
