package sessiontracker

import (
	"bytes"
	"time"

	"rollcall/zk/jute"
)

const (
	ringSize = 64  // buckets told apart; 20 ticks, the longest timeout by default, need 22
	slabSize = 256 // slots; 8 KiB, so that a small ensemble's table stays small

	// Values of filed for slots that are in no bucket. Lower values are places of buckets in the
	// ring.
	dueFile     = ringSize     // due, until Take decides
	closingFile = ringSize + 1 // being closed
	freeFile    = ringSize + 2 // no session

	touchesPerPass = 64 // places of the index, and then slots, that are read in one pass: more than a processor fetches at once
)

// ExpiryQueue holds sessions in buckets one tick wide. Bucket b falls due at b ticks. It holds the
// sessions whose deadlines are in the tick before that: a deadline is rounded up, even if it is a
// whole number of ticks, as in ZooKeeper. Times are table time.
//
// A touch takes constant time, writes only the deadline of its record, and allocates nothing. When
// a bucket falls due, the sessions that were touched meanwhile are filed again. A bucket is not a
// list. filed has one byte for each slot, which says in which bucket it is. To find the sessions of
// a bucket, the queue searches these bytes, some ten thousand in a microsecond.
//
// A session takes 32 bytes of slab, 1 byte of filed and 11 to 21 bytes of index, and no pointer.
// The memory is freed with the queue. Make a queue with NewExpiryQueue. It is not safe for
// concurrent use.
type ExpiryQueue struct {
	tick  time.Duration
	next  int64             // first bucket that has not been polled; nothing is filed before it
	index index             // id → slot
	slabs []*[slabSize]slot // never moved
	filed []uint8           // for each slot ever used: the place of its bucket in the ring, or one of the values above
	free  uint32            // first slot to be used again; 0: none

	sifting int64 // first polled bucket that has not been sifted
	sifted  int   // how many slots have been searched for that bucket
	due     int   // slots in dueFile
	taken   int   // how many slots Take has searched for due ones
}

// slot is one session. There is no slot 0.
type slot struct {
	id       jute.SessionID
	deadline time.Duration // greatest touch + timeout; the slot may be filed in an earlier bucket. In a free slot: the next free slot
	since    uint64
	timeout  uint32 // milliseconds
	member   uint32
}

// touch is one touch of a session, with the hash of its id.
type touch struct {
	id        jute.SessionID
	hash      uint32
	timeoutMs uint32
}

// NewExpiryQueue returns an empty queue of buckets one tick wide, at time 0.
func NewExpiryQueue(tick time.Duration) *ExpiryQueue {
	q := &ExpiryQueue{tick: tick, next: 1, sifting: 1}
	q.index.grow()
	q.use()
	return q
}

// Put adds s or replaces the record of it. The session is alive, and due at deadline.
func (q *ExpiryQueue) Put(s Seed, deadline time.Duration) {
	_, i := q.find(s.ID, hash(s.ID))
	if i == 0 {
		i = q.use()
		q.index.add(hash(s.ID), i)
	}
	*q.slot(i) = slot{
		id: s.ID, deadline: deadline, since: s.Since, timeout: uint32(s.Timeout.Milliseconds()), member: s.Member,
	}
	q.file(i)
}

// Touch makes id due timeout after heard, unless it is due later already: only Put makes a deadline
// earlier. If timeout is longer than the session's own, the session's own counts: the touch comes
// from a connection before the one that Put knows. If member is not 0, it must own the session.
// Touch reports false, and changes nothing, if id is unknown, being closed, or owned by another
// member.
func (q *ExpiryQueue) Touch(id jute.SessionID, member uint32, heard, timeout time.Duration) bool {
	_, i := q.find(id, hash(id))
	return q.touch(i, member, heard, timeout)
}

func (q *ExpiryQueue) touch(i, member uint32, heard, timeout time.Duration) bool {
	r := q.slot(i)
	if i == 0 || q.filed[i] == closingFile || member != 0 && member != r.member {
		return false
	}
	timeout = min(timeout, time.Duration(r.timeout)*time.Millisecond)
	if d := heard + timeout; d > r.deadline {
		r.deadline = d
	}
	return true
}

// touchAll does what Touch does for many sessions, and appends to refused the ids for which Touch
// would return false. It first reads the places of all ids in the index, and then all their slots,
// so that the processor waits for many of them at once.
func (q *ExpiryQueue) touchAll(touches []touch, member uint32, heard time.Duration, refused []int64) []int64 {
	var entries [touchesPerPass]uint64
	var slots [touchesPerPass]uint32
	for len(touches) > 0 {
		n := min(len(touches), touchesPerPass)
		for k, t := range touches[:n] {
			_, entries[k] = q.index.first(t.hash)
		}
		for k, t := range touches[:n] {
			slots[k] = uint32(entries[k])
			if uint32(entries[k]>>32) != t.hash {
				_, slots[k] = q.index.seek(t.hash, t.hash)
			}
		}
		for k, t := range touches[:n] {
			i := slots[k]
			if q.slot(i).id != t.id { // another id with the same hash, or none
				_, i = q.find(t.id, t.hash)
			}
			if !q.touch(i, member, heard, time.Duration(t.timeoutMs)*time.Millisecond) {
				refused = append(refused, int64(t.id))
			}
		}
		touches = touches[n:]
	}
	return refused
}

// Buckets appends to dst up to limit sessions, each with the time at which its bucket falls due. It
// leaves out sessions that are being closed. It begins at cursor, which is 0 for the first call,
// and returns the cursor for the next call, or 0 at the end.
func (q *ExpiryQueue) Buckets(dst []Expiry, cursor uint32, limit int) (_ []Expiry, next uint32) {
	used := uint32(len(q.filed))
	i := max(cursor, 1)
	for ; limit > 0 && i < used; i, limit = i+1, limit-1 {
		if f := q.filed[i]; f != closingFile && f != freeFile {
			s := q.slot(i)
			dst = append(dst, Expiry{s.id, time.Duration(max(q.bucket(s.deadline), q.next)) * q.tick})
		}
	}
	if i == used {
		i = 0
	}
	return dst, i
}

// Expiry is a session with the table time at which it falls due if no touch comes.
type Expiry struct {
	ID jute.SessionID
	At time.Duration
}

// Deadline returns the time at which id's timeout is over if it is not touched again, and the timeout. It
// returns false if id is unknown or being closed.
func (q *ExpiryQueue) Deadline(id jute.SessionID) (deadline, timeout time.Duration, ok bool) {
	_, i := q.find(id, hash(id))
	if i == 0 || q.filed[i] == closingFile {
		return 0, 0, false
	}
	s := q.slot(i)
	return s.deadline, time.Duration(s.timeout) * time.Millisecond, true
}

// Has reports whether the queue holds id.
func (q *ExpiryQueue) Has(id jute.SessionID) bool {
	_, i := q.find(id, hash(id))
	return i != 0
}

// Len returns how many sessions the queue holds, including those that are being closed.
func (q *ExpiryQueue) Len() int { return q.index.held }

// Poll hands the next bucket to Sift if it is due at now, and reports whether it was due. It never
// skips a bucket, however late it is called.
func (q *ExpiryQueue) Poll(now time.Duration) bool {
	if now < time.Duration(q.next)*q.tick {
		return false
	}
	q.next++
	if q.next-q.sifting > ringSize { // all places of the ring wait; the first of these buckets shares its place with the next one
		q.sifting, q.sifted = q.sifting+1, 0
	}
	return true
}

// Sift looks at up to limit sessions of the polled buckets. It moves those that were touched
// meanwhile to their later buckets; the others are due. It reports whether there may be more to
// look at.
func (q *ExpiryQueue) Sift(limit int) (more bool) {
	var buffer [touchesPerPass]filedSlot
	polled := q.polled()
	for q.sifting < q.next {
		if limit == 0 {
			return true
		}
		found, next := q.gather(buffer[:min(limit, len(buffer))], uint8(q.sifting%ringSize), q.sifted)
		if len(found) == 0 {
			q.sifting, q.sifted = q.sifting+1, 0
			continue
		}
		limit -= len(found)
		q.sifted = next
		for _, f := range found {
			if f.deadline >= polled {
				q.file(f.slot)
			} else {
				q.set(f.slot, dueFile)
			}
		}
	}
	return false
}

// Due reports whether there are sessions that Sift found due and Take has not decided yet.
func (q *ExpiryQueue) Due() bool { return q.due > 0 }

// Take looks at up to limit due sessions. It moves those that were touched since to their later
// buckets. The others are being closed from now on, and it appends them to dst.
func (q *ExpiryQueue) Take(dst []Overdue, limit int) []Overdue {
	var buffer [touchesPerPass]filedSlot
	polled := q.polled()
	for limit > 0 && q.due > 0 {
		found, next := q.gather(buffer[:min(limit, len(buffer))], dueFile, q.taken)
		if q.taken = next; len(found) == 0 { // others may have fallen due among the slots that were already searched
			q.taken = 0
		}
		limit -= len(found)
		for _, f := range found {
			if f.deadline >= polled {
				q.file(f.slot)
				continue
			}
			q.set(f.slot, closingFile)
			r := q.slot(f.slot)
			timeout := time.Duration(r.timeout) * time.Millisecond
			dst = append(dst, Overdue{
				Seed: Seed{ID: r.id, Timeout: timeout, Member: r.member, Since: r.since}, Heard: r.deadline - timeout,
			})
		}
	}
	return dst
}

// filedSlot is a slot that gather has found, with its deadline.
type filedSlot struct {
	slot     uint32
	deadline time.Duration
}

// gather writes into buffer the slots from number from on that have the given value in filed, as
// many as buffer has room for. It returns them, and the number to continue with. It reads all
// deadlines after all values, so that the processor waits for many of them at once.
func (q *ExpiryQueue) gather(buffer []filedSlot, file uint8, from int) (found []filedSlot, next int) {
	n := 0
	for ; n < len(buffer) && from < len(q.filed); n++ {
		if q.filed[from] != file { // usually this slot is in the bucket too, and no search is needed
			i := bytes.IndexByte(q.filed[from:], file)
			if i < 0 {
				from = len(q.filed)
				break
			}
			from += i
		}
		buffer[n].slot = uint32(from)
		from++
	}
	found = buffer[:n]
	for k := range found {
		found[k].deadline = q.slot(found[k].slot).deadline
	}
	return found, from
}

// Remove forgets id, if the queue holds it.
func (q *ExpiryQueue) Remove(id jute.SessionID) {
	h := hash(id)
	if _, i := q.find(id, h); i != 0 {
		q.release(h, i)
	}
}

// removeAll removes at most touchesPerPass ids, with these hashes. It reads all places of the index
// and all slots before it removes any, so that the processor waits for many of them at once.
func (q *ExpiryQueue) removeAll(ids []jute.SessionID, hashes []uint32) {
	var slots [touchesPerPass]uint32
	q.index.fetch(hashes, &slots)
	for k, id := range ids {
		if q.slot(slots[k]).id != id { // another id with the same hash comes first, or there is none
			_, slots[k] = q.find(id, hashes[k])
		}
	}
	for k, h := range hashes {
		if slots[k] != 0 {
			q.release(h, slots[k])
		}
	}
}

// release frees slot i, which held an id of hash h. If the slot is free already, it does nothing.
func (q *ExpiryQueue) release(h, i uint32) {
	if !q.index.remove(h, i) {
		return
	}
	q.set(i, freeFile)
	*q.slot(i) = slot{deadline: time.Duration(q.free)}
	q.free = i
}

// polled returns the earliest deadline that is in a bucket that has not been polled.
func (q *ExpiryQueue) polled() time.Duration { return time.Duration(q.next-1) * q.tick }

// bucket returns the number of the bucket for a deadline.
func (q *ExpiryQueue) bucket(deadline time.Duration) int64 { return int64(deadline/q.tick) + 1 }

// file puts slot i into its bucket. Buckets that are ringSize apart share a place in the ring. When
// the earlier one is polled, the sessions of the later one are filed again.
func (q *ExpiryQueue) file(i uint32) {
	q.set(i, uint8(max(q.bucket(q.slot(i).deadline), q.next)%ringSize))
}

// set gives slot i its value in filed, and counts the due slots.
func (q *ExpiryQueue) set(i uint32, file uint8) {
	if q.filed[i] == dueFile {
		q.due--
	}
	if file == dueFile {
		q.due++
	}
	q.filed[i] = file
}

func (q *ExpiryQueue) slot(i uint32) *slot { return &q.slabs[i/slabSize][i%slabSize] }

// use returns a slot that holds no session.
func (q *ExpiryQueue) use() uint32 {
	if i := q.free; i != 0 {
		q.free = uint32(q.slot(i).deadline)
		return i
	}
	i := uint32(len(q.filed))
	if i%slabSize == 0 {
		q.slabs = append(q.slabs, new([slabSize]slot))
	}
	q.filed = append(q.filed, freeFile)
	return i
}

// find returns the place of id in the index, and its slot. h is the hash of id. The slot is 0 if
// the queue does not hold id.
func (q *ExpiryQueue) find(id jute.SessionID, h uint32) (place, slot uint32) {
	for place, slot = q.index.seek(h, h); slot != 0; place, slot = q.index.seek(h, place+1) {
		if q.slot(slot).id == id {
			break
		}
	}
	return place, slot
}
