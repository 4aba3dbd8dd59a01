package sessiontracker

import (
	"bytes"
	"math"
	"time"

	"rollcall/zk/jute"
)

const (
	bucketRingSize = 64  // 20 ticks, the longest timeout by default, need 42 buckets
	slabSize       = 256 // 8 KiB, so that a small ensemble's table stays small

	// Values of slotBuckets for slots in no bucket. Lower values are places in the ring.
	dueBucket     = bucketRingSize     // until TakeOverdue
	closingBucket = bucketRingSize + 1 // being closed
	freeBucket    = bucketRingSize + 2 // no session

	touchesPerPass = 64 // read in one pass: more than a processor fetches at once
)

// ExpiryQueue holds sessions in buckets of one width. Bucket b falls due at b times the width. It holds the sessions
// whose deadlines are in the time before that: a deadline is rounded up, even if it is a whole number of
// widths, as in ZooKeeper. Times are table time.
//
// A touch takes constant time, writes only the deadline of its record, and allocates nothing. When a bucket
// falls due, the sessions that were touched meanwhile are moved to later buckets. A bucket is not a list:
// slotBuckets has one byte for each slot, with its bucket. To find the sessions of a bucket, the queue
// searches these bytes, some ten thousand in a microsecond.
//
// A session takes 32 bytes of slab, 1 byte of slotBuckets and 11 to 21 bytes of index, and no pointer. The
// memory is freed with the queue. Make a queue with NewExpiryQueue. It is not safe for concurrent use.
type ExpiryQueue struct {
	width       time.Duration
	nextBucket  int64                    // the first that has not been polled; nothing is filed before it
	index       slotIndex                // id → slot
	slabs       []*[slabSize]sessionSlot // never moved
	slotBuckets []uint8                  // of each slot ever used: a place in the ring, or dueBucket and so on
	firstFree   uint32                   // to be used again; 0 if there is none

	siftBucket    int64 // the first polled bucket that has not been sifted
	siftedSlots   int   // searched for siftBucket
	dueCount      int   // slots in dueBucket
	searchedSlots int   // searched by TakeOverdue
}

// sessionSlot is the record of one session. There is no slot 0.
type sessionSlot struct {
	id         jute.SessionID
	deadline   time.Duration // greatest touch + timeout, maybe after its bucket; in a free slot, the next free slot
	ownerIndex uint64
	timeoutMs  uint32
	member     uint8 // ids of members are at most 255
	unheard    bool  // see PutUnheard
	// uncounted is the part of the session's silence that its deadline does not count, in units of uncountedUnit: the time
	// without a leader, and what makes up the least rest of a timeout.
	uncounted uint16
}

// uncountedUnit lets sessionSlot.uncounted count up to 109 minutes.
const uncountedUnit = 100 * time.Millisecond

func (s *sessionSlot) timeout() time.Duration { return time.Duration(s.timeoutMs) * time.Millisecond }

// lastHeard returns the time of the last touch, or of an event that counts as one. It may be before time 0.
func (s *sessionSlot) lastHeard() time.Duration {
	return s.deadline - s.timeout() - time.Duration(s.uncounted)*uncountedUnit
}

// touch is one touch of a session, with the hash of its id.
type touch struct {
	id        jute.SessionID
	hash      uint32
	timeoutMs uint32
	heard     time.Duration
}

// NewExpiryQueue returns an empty queue of buckets of the given width, at time 0.
func NewExpiryQueue(width time.Duration) *ExpiryQueue {
	q := &ExpiryQueue{width: width, nextBucket: 1, siftBucket: 1}
	q.index.doubleSize()
	q.allocateSlot()
	return q
}

// Put adds s, or replaces its record. The session is alive, and due at deadline.
func (q *ExpiryQueue) Put(s TrackedSession, deadline time.Duration) { q.put(s, deadline, false) }

// PutUnheard is Put for a session of an earlier term: until CountSilence or Touch, its deadline is not based on anything
// that was heard.
func (q *ExpiryQueue) PutUnheard(s TrackedSession, deadline time.Duration) { q.put(s, deadline, true) }

func (q *ExpiryQueue) put(s TrackedSession, deadline time.Duration, unheard bool) {
	_, i := q.findSlot(s.ID, hashID(s.ID))
	if i == 0 {
		i = q.allocateSlot()
		q.index.addSlot(hashID(s.ID), i)
	}
	*q.slotAt(i) = sessionSlot{
		id: s.ID, deadline: deadline, ownerIndex: s.OwnerIndex, timeoutMs: uint32(s.Timeout.Milliseconds()),
		member: uint8(s.OwnerMember), unheard: unheard,
	}
	q.fileByDeadline(i)
}

// CountSilence sets the deadline of a session that was not heard since PutUnheard, by what its owner knows at time now: it
// has been silent for silent, and for gap besides, which does not count. At least a third of its timeout is left. CountSilence
// changes nothing unless member owns the session, and knew at index applied that it does.
func (q *ExpiryQueue) CountSilence(id jute.SessionID, member uint32, applied uint64, now, silent, gap time.Duration) {
	_, i := q.findSlot(id, hashID(id))
	r := q.slotAt(i)
	if i == 0 || !r.unheard || q.slotBuckets[i] >= dueBucket || uint32(r.member) != member || r.ownerIndex > applied {
		return
	}
	q.countSilence(i, now, silent, gap)
	r.unheard = false
}

// CountLost sets the deadlines of the sessions that were not heard since PutUnheard, and whose members were lost, among up
// to limit slots from cursor on. Their members may still say more: CountSilence. It returns the next cursor, or 0 at the end.
func (q *ExpiryQueue) CountLost(now time.Duration, lost *[256]LostMember, cursor uint32, limit int) (next uint32) {
	used := uint32(len(q.slotBuckets))
	i := max(cursor, 1)
	for ; limit > 0 && i < used; i, limit = i+1, limit-1 {
		r := q.slotAt(i)
		if q.slotBuckets[i] >= dueBucket || !r.unheard {
			continue
		}
		switch m := &lost[r.member]; {
		case r.ownerIndex <= m.EndedThrough:
			q.countSilence(i, now, m.EndedSilent, 0)
		case r.ownerIndex <= m.Through:
			q.countSilence(i, now, m.Silent, 0)
		}
	}
	if i == used {
		i = 0
	}
	return i
}

func (q *ExpiryQueue) countSilence(i uint32, now, silent, gap time.Duration) {
	r := q.slotAt(i)
	timeout := r.timeout()
	left := max(timeout-silent, timeout/leastRestShare)
	r.deadline = now + left
	r.uncounted = uint16(min((gap+silent-(timeout-left))/uncountedUnit, math.MaxUint16))
	q.fileByDeadline(i)
}

// leastRestShare is the share of its timeout that a session has left when a leader learns that it was silent: a third. A client
// sends a request in each third, and one that its member had not read yet, because its process was paused, comes sooner.
const leastRestShare = 3

// Touch makes id due timeout after heard, unless it is due later already: only Put makes a deadline earlier.
// A timeout longer than the session's own is cut to that, because the touch comes from a connection before
// the one that Put knows. If member is not 0, it must own the session. Touch returns false, and changes
// nothing, if id is unknown, being closed, or owned by another member.
func (q *ExpiryQueue) Touch(id jute.SessionID, member uint32, heard, timeout time.Duration) bool {
	_, i := q.findSlot(id, hashID(id))
	return q.touchSlot(i, member, heard, timeout)
}

func (q *ExpiryQueue) touchSlot(i, member uint32, heard, timeout time.Duration) bool {
	r := q.slotAt(i)
	if i == 0 || q.slotBuckets[i] == closingBucket || member != 0 && member != uint32(r.member) {
		return false
	}
	timeout = min(timeout, r.timeout())
	r.unheard = false
	if d := heard + timeout; d > r.deadline {
		r.deadline, r.uncounted = d, 0
	}
	return true
}

// touchAll touches many sessions, and appends to rejected the ids for which Touch would return false. It
// first reads the places of all ids in the index, and then all their slots, so that the processor waits for
// many of them at once.
func (q *ExpiryQueue) touchAll(touches []touch, member uint32, rejected []int64) []int64 {
	var entries [touchesPerPass]uint64
	var slots [touchesPerPass]uint32
	for len(touches) > 0 {
		n := min(len(touches), touchesPerPass)
		for k, t := range touches[:n] {
			_, entries[k] = q.index.firstPlace(t.hash)
		}
		for k, t := range touches[:n] {
			slots[k] = uint32(entries[k])
			if uint32(entries[k]>>32) != t.hash {
				_, slots[k] = q.index.seekHash(t.hash, t.hash)
			}
		}
		for k, t := range touches[:n] {
			i := slots[k]
			if q.slotAt(i).id != t.id { // another id with the same hash, or none
				_, i = q.findSlot(t.id, t.hash)
			}
			if !q.touchSlot(i, member, t.heard, time.Duration(t.timeoutMs)*time.Millisecond) {
				rejected = append(rejected, int64(t.id))
			}
		}
		touches = touches[n:]
	}
	return rejected
}

// AppendExpiries appends to dst up to limit sessions, each with the time at which its bucket falls due,
// without those that are being closed. It begins at cursor, which is 0 for the first call, and returns the
// cursor for the next call, or 0 at the end.
func (q *ExpiryQueue) AppendExpiries(dst []Expiry, cursor uint32, limit int) (_ []Expiry, next uint32) {
	used := uint32(len(q.slotBuckets))
	i := max(cursor, 1)
	for ; limit > 0 && i < used; i, limit = i+1, limit-1 {
		if f := q.slotBuckets[i]; f != closingBucket && f != freeBucket {
			s := q.slotAt(i)
			dst = append(dst, Expiry{s.id, time.Duration(max(q.bucketOf(s.deadline), q.nextBucket)) * q.width})
		}
	}
	if i == used {
		i = 0
	}
	return dst, i
}

// Expiry is a session with the table time at which it falls due if it is not touched.
type Expiry struct {
	ID jute.SessionID
	At time.Duration
}

// Deadline returns the time at which id's timeout ends if it is not touched, and the time at which it was last heard. It
// returns false if id is unknown or being closed.
func (q *ExpiryQueue) Deadline(id jute.SessionID) (deadline, heard time.Duration, ok bool) {
	_, i := q.findSlot(id, hashID(id))
	if i == 0 || q.slotBuckets[i] == closingBucket {
		return 0, 0, false
	}
	s := q.slotAt(i)
	return s.deadline, s.lastHeard(), true
}

// Has reports whether the queue holds id.
func (q *ExpiryQueue) Has(id jute.SessionID) bool {
	_, i := q.findSlot(id, hashID(id))
	return i != 0
}

// Len returns the number of sessions, including those that are being closed.
func (q *ExpiryQueue) Len() int { return q.index.entryCount }

// PollDueBucket hands the next bucket to SiftPolled if it is due at now, and reports whether it was. It never
// skips a bucket, however late it is called.
func (q *ExpiryQueue) PollDueBucket(now time.Duration) bool {
	if now < time.Duration(q.nextBucket)*q.width {
		return false
	}
	q.nextBucket++
	// If the ring is full, the first of these buckets shares its place with the next one.
	if q.nextBucket-q.siftBucket > bucketRingSize {
		q.siftBucket, q.siftedSlots = q.siftBucket+1, 0
	}
	return true
}

// SiftPolled checks up to limit sessions of the polled buckets. Those that were touched meanwhile move to
// their later buckets, and the others are due. It reports whether there may be more to check.
func (q *ExpiryQueue) SiftPolled(limit int) (more bool) {
	var buffer [touchesPerPass]foundSlot
	polled := q.firstUnpolledDeadline()
	for q.siftBucket < q.nextBucket {
		if limit == 0 {
			return true
		}
		found, next := q.gatherBucketSlots(buffer[:min(limit, len(buffer))], uint8(q.siftBucket%bucketRingSize),
			q.siftedSlots)
		if len(found) == 0 {
			q.siftBucket, q.siftedSlots = q.siftBucket+1, 0
			continue
		}
		limit -= len(found)
		q.siftedSlots = next
		for _, f := range found {
			if f.deadline >= polled {
				q.fileByDeadline(f.slot)
			} else {
				q.setBucket(f.slot, dueBucket)
			}
		}
	}
	return false
}

// HasDue reports whether sessions are due and not yet handled by TakeOverdue.
func (q *ExpiryQueue) HasDue() bool { return q.dueCount > 0 }

// TakeOverdue checks up to limit due sessions. Those that were touched since move to their later buckets. The
// others are being closed from now on, and are appended to dst.
func (q *ExpiryQueue) TakeOverdue(dst []OverdueSession, limit int) []OverdueSession {
	var buffer [touchesPerPass]foundSlot
	polled := q.firstUnpolledDeadline()
	for limit > 0 && q.dueCount > 0 {
		found, next := q.gatherBucketSlots(buffer[:min(limit, len(buffer))], dueBucket, q.searchedSlots)
		if q.searchedSlots = next; len(found) == 0 { // others may have fallen due among the searched slots
			q.searchedSlots = 0
		}
		limit -= len(found)
		for _, f := range found {
			if f.deadline >= polled {
				q.fileByDeadline(f.slot)
				continue
			}
			q.setBucket(f.slot, closingBucket)
			r := q.slotAt(f.slot)
			dst = append(dst, OverdueSession{
				TrackedSession: TrackedSession{
					ID: r.id, Timeout: r.timeout(), OwnerMember: uint32(r.member), OwnerIndex: r.ownerIndex,
				},
				LastHeard: r.lastHeard(), Deadline: r.deadline,
			})
		}
	}
	return dst
}

type foundSlot struct {
	slot     uint32
	deadline time.Duration
}

// gatherBucketSlots fills buffer with slots of the given bucket, from number from on, and returns them with the
// number to continue with. It reads all deadlines after all buckets, so that the processor waits for many of
// them at once.
func (q *ExpiryQueue) gatherBucketSlots(buffer []foundSlot, file uint8, from int) (found []foundSlot, next int) {
	n := 0
	for ; n < len(buffer) && from < len(q.slotBuckets); n++ {
		if q.slotBuckets[from] != file { // usually this slot is in the bucket, too
			i := bytes.IndexByte(q.slotBuckets[from:], file)
			if i < 0 {
				from = len(q.slotBuckets)
				break
			}
			from += i
		}
		buffer[n].slot = uint32(from)
		from++
	}
	found = buffer[:n]
	for k := range found {
		found[k].deadline = q.slotAt(found[k].slot).deadline
	}
	return found, from
}

// Remove forgets id, if the queue holds it.
func (q *ExpiryQueue) Remove(id jute.SessionID) {
	h := hashID(id)
	if _, i := q.findSlot(id, h); i != 0 {
		q.releaseSlot(h, i)
	}
}

// removeAll removes at most touchesPerPass ids, with these hashes. It reads all places of the index and all
// slots before it removes any, so that the processor waits for many of them at once.
func (q *ExpiryQueue) removeAll(ids []jute.SessionID, hashes []uint32) {
	var slots [touchesPerPass]uint32
	q.index.prefetchSlots(hashes, &slots)
	for k, id := range ids {
		if q.slotAt(slots[k]).id != id { // another id with the same hash comes first, or there is none
			_, slots[k] = q.findSlot(id, hashes[k])
		}
	}
	for k, h := range hashes {
		if slots[k] != 0 {
			q.releaseSlot(h, slots[k])
		}
	}
}

// releaseSlot frees slot i, which held an id of hash h, unless it is free already.
func (q *ExpiryQueue) releaseSlot(h, i uint32) {
	if !q.index.removeSlot(h, i) {
		return
	}
	q.setBucket(i, freeBucket)
	*q.slotAt(i) = sessionSlot{deadline: time.Duration(q.firstFree)}
	q.firstFree = i
}

// firstUnpolledDeadline returns the earliest deadline in a bucket that has not been polled.
func (q *ExpiryQueue) firstUnpolledDeadline() time.Duration {
	return time.Duration(q.nextBucket-1) * q.width
}

// bucketOf returns the number of the bucket for a deadline.
func (q *ExpiryQueue) bucketOf(deadline time.Duration) int64 { return int64(deadline/q.width) + 1 }

// fileByDeadline puts slot i into its bucket. Buckets that are bucketRingSize apart share a place in the ring. When
// the earlier one is polled, the sessions of the later one are filed again.
func (q *ExpiryQueue) fileByDeadline(i uint32) {
	q.setBucket(i, uint8(max(q.bucketOf(q.slotAt(i).deadline), q.nextBucket)%bucketRingSize))
}

// setBucket also counts the due slots.
func (q *ExpiryQueue) setBucket(i uint32, file uint8) {
	if q.slotBuckets[i] == dueBucket {
		q.dueCount--
	}
	if file == dueBucket {
		q.dueCount++
	}
	q.slotBuckets[i] = file
}

func (q *ExpiryQueue) slotAt(i uint32) *sessionSlot { return &q.slabs[i/slabSize][i%slabSize] }

func (q *ExpiryQueue) allocateSlot() uint32 {
	if i := q.firstFree; i != 0 {
		q.firstFree = uint32(q.slotAt(i).deadline)
		return i
	}
	i := uint32(len(q.slotBuckets))
	if i%slabSize == 0 {
		q.slabs = append(q.slabs, new([slabSize]sessionSlot))
	}
	q.slotBuckets = append(q.slotBuckets, freeBucket)
	return i
}

// findSlot returns the place of id in the index, and its slot, or 0. h is the hash of id.
func (q *ExpiryQueue) findSlot(id jute.SessionID, h uint32) (place, slot uint32) {
	for place, slot = q.index.seekHash(h, h); slot != 0; place, slot = q.index.seekHash(h, place+1) {
		if q.slotAt(slot).id == id {
			break
		}
	}
	return place, slot
}
