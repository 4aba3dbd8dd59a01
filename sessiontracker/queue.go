package sessiontracker

import (
	"bytes"
	"time"

	"rollcall/jute"
)

const (
	ringSize = 64  // number of buckets that the ring can tell apart; the longest default timeout, 20 ticks, needs 22
	slabSize = 256 // slots in a slab: 8 KiB, so that a small ensemble's table stays small

	// Besides a bucket's place in the ring, a slot may be filed in one of these.
	dueFile     = ringSize     // due, and waiting for Take to decide
	closingFile = ringSize + 1 // being closed: Take has decided
	freeFile    = ringSize + 2 // holds no session

	touchesPerPass = 64 // places, then slots, that are read together: more than a processor can have outstanding at once
)

// ExpiryQueue holds sessions in buckets one tick wide. Bucket b falls due at b ticks and holds the
// sessions whose deadline lies in the tick before: deadlines are rounded strictly up, as ZooKeeper
// does. All times are table time.
//
// A touch is O(1), writes only the record's deadline, and does not allocate. When a bucket falls
// due, the sessions in it that were touched are filed again. A bucket is not a list: one byte for
// each slot says where the slot is filed, and a bucket's sessions are found by searching these
// bytes. That takes about a microsecond for some ten thousand.
//
// A session takes 32 bytes of slab, 1 byte of file and 11 to 21 bytes of index, without a pointer.
// Memory is freed only with the whole queue. Make one with NewExpiryQueue. It is not safe for
// concurrent use.
type ExpiryQueue struct {
	tick  time.Duration
	next  int64             // first bucket that has not been polled; nothing is filed before it
	index index             // id → slot
	slabs []*[slabSize]slot // never moved
	filed []uint8           // for each slot ever used: its bucket's place in the ring, or one of the files above
	free  uint32            // first free slot; 0: none

	sifting int64 // first polled bucket that has not been sifted
	sifted  int   // slots that have been searched for that bucket
	due     int   // slots in dueFile
	taken   int   // slots that have been searched for due ones
}

// slot holds one session. Slot 0 is never used.
type slot struct {
	id       jute.SessionID
	deadline time.Duration // greatest touch + timeout; the slot may be filed in an earlier bucket. In a free slot: the next free one
	since    uint64
	timeout  uint32 // milliseconds
	member   uint32
}

// touch is one session that was heard from, with the hash of its id.
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

// Put adds s, or replaces what the queue has for it. The session is then live and due at deadline.
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

// Touch makes id due timeout after heard, unless it is due later already: only Put lowers a
// deadline. A timeout longer than the session's own counts as the session's own: the session was
// heard on a connection older than the one that Put knows of. If member is not 0, the session must
// be owned by it. Touch reports false, and changes nothing, if id is unknown, being closed, or
// owned by another member.
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

// touchAll calls Touch for many sessions, and appends to refused those for which it is false. It
// reads all places of the index that it needs, then all slots, so that the processor waits for many
// reads at once.
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
			if q.slot(i).id != t.id { // another id of the same hash comes first, or none
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
// starts at cursor (0: at the first session) and returns the cursor for the next call, or 0 if
// there are no more. It leaves out sessions that are being closed.
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

// Expiry is a session and the table time at which it falls due if it is not heard from again.
type Expiry struct {
	ID jute.SessionID
	At time.Duration
}

// Has reports whether the queue holds id.
func (q *ExpiryQueue) Has(id jute.SessionID) bool {
	_, i := q.find(id, hash(id))
	return i != 0
}

// Len returns how many sessions the queue holds, including those being closed.
func (q *ExpiryQueue) Len() int { return q.index.held }

// Poll hands the next bucket to Sift if that bucket is due at now, and reports whether it was.
// However late Poll is called, it skips no bucket.
func (q *ExpiryQueue) Poll(now time.Duration) bool {
	if now < time.Duration(q.next)*q.tick {
		return false
	}
	q.next++
	if q.next-q.sifting > ringSize { // all places of the ring are polled; the oldest one is used again by a later bucket
		q.sifting, q.sifted = q.sifting+1, 0
	}
	return true
}

// Sift looks at up to limit sessions of polled buckets. It files those that were touched in their
// later bucket; the others are now due. It reports whether there may be more to look at.
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

// Due reports whether there are sessions that Sift found due and that Take has not decided.
func (q *ExpiryQueue) Due() bool { return q.due > 0 }

// Take looks at up to limit due sessions. It files those that were touched since in their later
// bucket. The others are being closed from now on: it appends them to dst, which it returns.
func (q *ExpiryQueue) Take(dst []Overdue, limit int) []Overdue {
	var buffer [touchesPerPass]filedSlot
	polled := q.polled()
	for limit > 0 && q.due > 0 {
		found, next := q.gather(buffer[:min(limit, len(buffer))], dueFile, q.taken)
		if q.taken = next; len(found) == 0 { // more sessions fell due in slots before this place
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

// filedSlot is a slot that gather found, with its deadline.
type filedSlot struct {
	slot     uint32
	deadline time.Duration
}

// gather writes into buffer the slots that are filed in file, starting at slot from, until buffer
// is full. It returns the slots found and the slot at which to continue. It reads all deadlines
// after all files, so that the processor waits for many reads at once.
func (q *ExpiryQueue) gather(buffer []filedSlot, file uint8, from int) (found []filedSlot, next int) {
	n := 0
	for ; n < len(buffer) && from < len(q.filed); n++ {
		if q.filed[from] != file { // skip the search if possible: usually most slots of a bucket are side by side
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

// removeAll calls Remove for at most touchesPerPass ids, whose hashes are given. It reads all
// places of the index and all slots before it removes any, so that the processor waits for many
// reads at once.
func (q *ExpiryQueue) removeAll(ids []jute.SessionID, hashes []uint32) {
	var slots [touchesPerPass]uint32
	q.index.fetch(hashes, &slots)
	for k, id := range ids {
		if q.slot(slots[k]).id != id { // another id of the same hash comes first, or none
			_, slots[k] = q.find(id, hashes[k])
		}
	}
	for k, h := range hashes {
		if slots[k] != 0 {
			q.release(h, slots[k])
		}
	}
}

// release frees slot i, which held an id of hash h. It does nothing if the slot is free already.
func (q *ExpiryQueue) release(h, i uint32) {
	if !q.index.remove(h, i) {
		return
	}
	q.set(i, freeFile)
	*q.slot(i) = slot{deadline: time.Duration(q.free)}
	q.free = i
}

// polled returns the least deadline that lies in a bucket that has not been polled.
func (q *ExpiryQueue) polled() time.Duration { return time.Duration(q.next-1) * q.tick }

// bucket returns the bucket that a deadline lies in.
func (q *ExpiryQueue) bucket(deadline time.Duration) int64 { return int64(deadline/q.tick) + 1 }

// file puts slot i into its bucket. Buckets that are a whole ring apart share a place: when the
// earlier one is polled, the sessions of the later one are filed again.
func (q *ExpiryQueue) file(i uint32) {
	q.set(i, uint8(max(q.bucket(q.slot(i).deadline), q.next)%ringSize))
}

// set files slot i, and keeps the count of due slots.
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

// use returns a slot that holds no session, a free one if there is one.
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

// find returns the place in the index and the slot of id, whose hash is h. The slot is 0 if there
// is none.
func (q *ExpiryQueue) find(id jute.SessionID, h uint32) (place, slot uint32) {
	for place, slot = q.index.seek(h, h); slot != 0; place, slot = q.index.seek(h, place+1) {
		if q.slot(slot).id == id {
			break
		}
	}
	return place, slot
}
