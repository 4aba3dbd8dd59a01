// Package stages records where the time of slow requests goes. Each member has a Recorder. It holds the times of the
// newest entries of the log, the requests of its clients that were slow, and pauses of the member that no entry shows.
// Join divides the time of one request into stages, with the records of all members.
//
// # Time
//
// A Time is of one Recorder's monotonic clock. The clocks of two members are compared when one of them requests the
// records of the other: see Records.Clock.
//
// # Cost
//
// An entry takes a slot of a ring, and no allocation. A request that is not slow leaves nothing. A Recorder takes less
// than 2 MiB: see ringSize and maxKept.
//
// All methods of a Recorder are safe for concurrent use, and none waits for more than a short lock. A nil Recorder
// records nothing.
package stages

import (
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"rollcall/internal/lockwatch"
)

const (
	// ringSize is the number of entries whose times a member holds. A member reads those of the other members within
	// joinDelay, in which a fast ensemble writes some hundred entries. The slots take 800 KiB.
	ringSize = 4096
	// MaxMembers limits the members of which an entry has times. More voters are rare.
	MaxMembers = 7
	// maxSealed limits the sealed entries that raft has not stored. A leader has at most 16 under way.
	maxSealed = 32
)

// Time is a time of a Recorder's clock, in nanoseconds. Zero is unknown.
type Time int64

// Recorder is the record of one member. Make one with New.
type Recorder struct {
	started    time.Time
	wallClock  func() time.Time
	thresholds Thresholds
	applying   atomic.Uint64 // see ApplyingIndex

	mu            sync.Mutex
	ring          []Entry // by index modulo ringSize
	sealed        []sealedEntry
	lastCommitted uint64
	causes        causeList

	kept keptRequests
}

// sealedEntry is an entry whose index is not known yet.
type sealedEntry struct {
	data     *byte // where the encoded entry begins
	at       Time
	arrivals [MaxMembers]MemberDelay
}

// New returns an empty Recorder, which keeps requests that take the threshold of their class or longer. wallClock is the
// wall clock of the member.
func New(thresholds Thresholds, wallClock func() time.Time) *Recorder {
	r := &Recorder{started: time.Now(), wallClock: wallClock, thresholds: thresholds, ring: make([]Entry, ringSize)}
	r.kept.arrived = make(chan struct{}, 1)
	return r
}

// Threshold returns the least duration of a request of a class that is kept.
func (r *Recorder) Threshold(of Class) time.Duration { return r.thresholds[of] }

// Now returns the present time of the recorder's clock.
func (r *Recorder) Now() Time {
	if r == nil {
		return 0
	}
	return Time(time.Since(r.started)) + 1 // the first one is not zero
}

// At returns a time of package time as a Time.
func (r *Recorder) At(t time.Time) Time {
	if r == nil || t.IsZero() {
		return 0
	}
	return max(1, Time(t.Sub(r.started))+1)
}

// wallTime returns the wall clock's time at t, as it is set now.
func (r *Recorder) wallTime(t Time) time.Time {
	return r.wallClock().Add(time.Duration(t - r.Now()))
}

// Entry has the times of one entry of the log on one member.
type Entry struct {
	Index    uint64
	Sealed   Time // the leader has made it; zero on other members
	Received Time // this member had it: from the leader, or in the leader's log
	Durable  Time // it was on this member's disk

	Committed  Time // this member knew that it was committed, and on enough disks
	ApplyBegun Time // its turn to be applied had come
	Locked     Time // no reader held the state any more
	Applied    Time

	Arrivals [MaxMembers]MemberDelay // of the oldest transaction of each member at the leader, before Sealed
	Acks     [MaxMembers]MemberDelay // of each follower, after Received
}

// oldestArrival returns the time when the first transaction of the entry came to this member, the leader, or the time when
// the entry came to a follower.
func (e *Entry) oldestArrival() Time {
	oldest := Time(0)
	for _, one := range e.Arrivals {
		oldest = max(oldest, Time(one.Micros)*1000)
	}
	if e.Sealed != 0 {
		return e.Sealed - oldest
	}
	return e.Received
}

// MemberDelay is a time of an entry that concerns another member, as its distance from another time of the entry.
type MemberDelay struct {
	Member uint32 // 0: the element is not used
	Micros uint32
}

func delayOf(member uint32, d Time) MemberDelay {
	return MemberDelay{member, uint32(min(max(0, d)/1000, 1<<32-1))}
}

// findDelay returns the delay of a member.
func findDelay(all *[MaxMembers]MemberDelay, member uint32) (d Time, ok bool) {
	for _, one := range all {
		if one.Member == member && member != 0 {
			return Time(one.Micros) * 1000, true
		}
	}
	return 0, false
}

// addDelay sets the delay of a member that has none yet, if there is a free element.
func addDelay(all *[MaxMembers]MemberDelay, one MemberDelay) {
	for i := range all {
		switch all[i].Member {
		case one.Member:
			return
		case 0:
			all[i] = one
			return
		}
	}
}

// slotFor returns the slot for an entry, empty if it was an earlier one's, or nil if a later one has it. The caller holds mu.
func (r *Recorder) slotFor(index uint64) *Entry {
	e := &r.ring[index%ringSize]
	switch {
	case e.Index > index:
		return nil
	case e.Index < index:
		*e = Entry{Index: index}
	}
	return e
}

// Arrivals are the times at which a leader received the oldest transactions of the members.
type Arrivals struct {
	members [MaxMembers]uint32
	at      [MaxMembers]Time
}

// Add adds a transaction of a member. Only the oldest of each member counts.
func (a *Arrivals) Add(member uint32, at Time) {
	for i := range a.members {
		switch a.members[i] {
		case member:
			return
		case 0:
			a.members[i], a.at[i] = member, at
			return
		}
	}
}

// Sealed records that this member, the leader, has made an entry. Its index follows with Stored.
func (r *Recorder) Sealed(data []byte, arrivals *Arrivals) {
	if r == nil || len(data) == 0 {
		return
	}
	s := sealedEntry{data: unsafe.SliceData(data), at: r.Now()}
	for i, member := range arrivals.members {
		if member != 0 {
			s.arrivals[i] = delayOf(member, s.at-arrivals.at[i])
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.sealed) == maxSealed {
		r.sealed = append(r.sealed[:0], r.sealed[1:]...)
	}
	r.sealed = append(r.sealed, s)
}

// Stored records that this member begins to store an entry, of its own or of another leader.
func (r *Recorder) Stored(index uint64, data []byte) {
	if r == nil {
		return
	}
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.slotFor(index)
	if e == nil {
		return
	}
	for i, s := range r.sealed {
		if len(data) > 0 && s.data == unsafe.SliceData(data) {
			*e = Entry{Index: index, Sealed: s.at, Received: now, Arrivals: s.arrivals}
			r.sealed = append(r.sealed[:0], r.sealed[i+1:]...) // those before it were not stored
			return
		}
	}
	if e.Received == 0 || e.Durable != 0 { // stored again, because another leader replaced it
		*e = Entry{Index: index, Received: now}
	}
}

// Received records that entries came from the leader at a time.
// The caller calls it once the log has accepted the entries, which Stored and Durable have recorded by then: another member
// chooses the indexes of a request that the log rejects.
func (r *Recorder) Received(first, last uint64, at Time) {
	r.stampEntries(first, last, func(e *Entry, _ Time) {
		if e.Received == 0 || e.Received >= at { // otherwise the entry had come before
			e.Received = at
		}
	})
}

// Durable records that a write of entries to this member's disk is done.
func (r *Recorder) Durable(first, last uint64) {
	r.stampEntries(first, last, func(e *Entry, now Time) { e.Durable = now })
}

// Acked records that a follower has confirmed entries to this member, the leader.
func (r *Recorder) Acked(member uint32, first, last uint64) {
	r.stampEntries(first, last, func(e *Entry, now Time) { addDelay(&e.Acks, delayOf(member, now-e.Received)) })
}

// CommitKnown records that this member knows that the entries up to index are committed, and on enough disks to be applied. The log
// has them.
func (r *Recorder) CommitKnown(index uint64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	first := r.lastCommitted + 1
	r.lastCommitted = max(index, r.lastCommitted)
	r.mu.Unlock()
	r.stampEntries(first, index, func(e *Entry, now Time) { e.Committed = now })
}

// stampEntries calls set for the entries from first to last, or for as many of the last ones as the ring has. It counts them,
// at most ringSize, and does not compare their indexes with last: no index is above the greatest number.
func (r *Recorder) stampEntries(first, last uint64, set func(e *Entry, now Time)) {
	if r == nil || first > last {
		return
	}
	now := r.Now()
	if last-first >= ringSize {
		first = last - ringSize + 1
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range last - first + 1 {
		if e := r.slotFor(first + i); e != nil {
			set(e, now)
		}
	}
}

// ApplyBegun records that the turn of an entry to be applied has come.
func (r *Recorder) ApplyBegun(index uint64) {
	r.stampEntries(index, index, func(e *Entry, now Time) { e.ApplyBegun = now })
}

// ApplyLocked records that the entry is about to be applied. The caller holds the state's lock.
func (r *Recorder) ApplyLocked(index uint64) {
	if r == nil {
		return
	}
	r.applying.Store(index)
	r.stampEntries(index, index, func(e *Entry, now Time) { e.Locked = now })
}

// Applied records that an entry was applied.
func (r *Recorder) Applied(index uint64) {
	r.stampEntries(index, index, func(e *Entry, now Time) { e.Applied = now })
}

// ApplyingIndex returns the index of the entry that is being applied. The caller holds the state's lock.
func (r *Recorder) ApplyingIndex() uint64 {
	if r == nil {
		return 0
	}
	return r.applying.Load()
}

// Records holds one member's records of some entries.
type Records struct {
	// Clock is the time of the member's clock when it replied. With the times at which the query left and the reply came,
	// it shows the difference of two clocks.
	Clock   Time
	Entries []Entry
	Causes  []Cause // of the last minutes
}

// Records returns the records of entries, and of the earlier entry that each of them waited for longest. Entries that
// the ring does not have are left out.
func (r *Recorder) Records(indexes []uint64) Records {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := Records{Clock: r.Now(), Causes: r.causes.recentCauses(r.Now())}
	for _, index := range indexes {
		e := r.ring[index%ringSize]
		if e.Index != index || index == 0 {
			continue
		}
		found.Entries = append(found.Entries, e)
		if before := r.longestApplied(index, e.oldestArrival(), e.ApplyBegun); before != 0 {
			found.Entries = append(found.Entries, r.ring[before%ringSize])
		}
	}
	return found
}

// longestApplied returns the entry before index that was being applied for longest between two times, or 0. The caller
// holds mu.
func (r *Recorder) longestApplied(index uint64, from, to Time) (longest uint64) {
	var most Time
	for before := index - 1; before > 0 && index-before < ringSize; before-- {
		e := &r.ring[before%ringSize]
		if e.Index != before || e.Applied != 0 && e.Applied < from {
			break
		}
		if took := min(e.Applied, to) - max(e.ApplyBegun, from); took > most {
			longest, most = before, took
		}
	}
	return longest
}

// Locks returns the locks of the recorder.
func (r *Recorder) Locks() []lockwatch.Lock {
	return []lockwatch.Lock{{Name: "stages.Recorder.mu", Locker: &r.mu}, {Name: "stages.keptRequests.mu", Locker: &r.kept.mu}}
}
