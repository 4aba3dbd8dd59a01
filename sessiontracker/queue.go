package sessiontracker

import (
	"bytes"
	"time"

	"rollcall/jute"
)

const (
	ringSize = 64  // buckets told apart; 20 ticks, the longest timeout by default, need 22
	slabSize = 256 // slots; 8 KiB, so that a small ensemble's table stays small

	// Beside the places of buckets in the ring, where a slot may be filed.
	dueFile     = ringSize     // to be decided by Take
	closingFile = ringSize + 1 // decided
	freeFile    = ringSize + 2 // no session

	touchesPerPass = 64 // places, then slots, that are read at a time: more than a processor waits for at once
)

// ExpiryQueue holds sessions in buckets one tick wide. Bucket b falls due at b ticks, and
// holds those whose deadline lies in the tick before: deadlines are rounded up, strictly,
// as ZooKeeper does. Times are table time.
//
// A touch is O(1), writes the record's deadline and nothing else, and does not allocate:
// the bucket, when it falls due, files those again that were touched. A bucket is no list:
// one byte for each slot says where it is filed, and who wants a bucket searches them all,
// which takes a millionth of a second for some ten thousand. A session takes 32 bytes of
// slab, 1 of file and 11 to 21 of index, without a pointer; memory is given back with the
// queue. Make one with NewExpiryQueue. Not safe for concurrent use.
type ExpiryQueue struct {
	tick  time.Duration
	next  int64             // first bucket that has not been polled; nothing is filed before it
	index index             // id → slot
	slabs []*[slabSize]slot // never moved
	filed []uint8           // for each slot ever used, the place of its bucket in the ring, or a file
	free  uint32            // first slot to be used again; 0: none

	sifting int64 // first polled bucket that has not been sifted
	sifted  int   // slots that have been searched for it
	due     int   // slots in dueFile
	taken   int   // slots that have been searched for those
}

// slot is one session. Slot 0 is none.
type slot struct {
	id       jute.SessionID
	deadline time.Duration // greatest touch + timeout: it may be filed in an earlier bucket. Of a free slot: the next free one
	since    uint64
	timeout  uint32 // milliseconds
	member   uint32
}

// touch is one session heard, with the hash of its id.
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

// Put adds s or replaces what the queue knows of it, alive, due at deadline.
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

// Touch makes id due timeout after heard, or later if it was: only Put lowers a deadline.
// Of a timeout beyond the session's own only that counts: it was heard on a connection
// before the one that Put knows of. Touch reports false, and changes nothing, if id is
// unknown, being closed, or not owned by member (0: whoever owns it).
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

// touchAll is Touch of many, and appends to refused those for which that is false. It
// reads what it needs of all places of the index, then of all slots, so that the
// processor waits for many of them at once.
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
			if q.slot(i).id != t.id { // another id of the same hash, or none
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

// Buckets appends to dst up to limit sessions, from cursor (0: the first) on, each with the
// time its bucket falls due, and returns where to go on; 0: that was all. Sessions being
// closed are left out.
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

// Expiry is a session and the table time at which it falls due if nobody is heard.
type Expiry struct {
	ID jute.SessionID
	At time.Duration
}

// Has reports whether the queue holds id.
func (q *ExpiryQueue) Has(id jute.SessionID) bool {
	_, i := q.find(id, hash(id))
	return i != 0
}

// Len returns how many sessions the queue holds, those being closed included.
func (q *ExpiryQueue) Len() int { return q.index.held }

// Poll hands the next bucket to Sift if it is due at now, and reports whether it was.
// However late Poll comes, no bucket is skipped.
func (q *ExpiryQueue) Poll(now time.Duration) bool {
	if now < time.Duration(q.next)*q.tick {
		return false
	}
	q.next++
	if q.next-q.sifting > ringSize { // all places of the ring; the first of these is again behind them
		q.sifting, q.sifted = q.sifting+1, 0
	}
	return true
}

// Sift looks at up to limit sessions of polled buckets: those touched meanwhile go to
// their later bucket, the others are due. It reports whether there are more to look at.
func (q *ExpiryQueue) Sift(limit int) (more bool) {
	for q.sifting < q.next {
		for i := q.search(uint8(q.sifting%ringSize), q.sifted); i > 0; i = q.search(uint8(q.sifting%ringSize), q.sifted) {
			if limit == 0 {
				return true
			}
			limit--
			q.sifted = i + 1
			if q.touched(uint32(i)) {
				q.file(uint32(i))
			} else {
				q.set(uint32(i), dueFile)
			}
		}
		q.sifting, q.sifted = q.sifting+1, 0
	}
	return false
}

// Due reports whether there are sessions that Sift found due and Take has not decided.
func (q *ExpiryQueue) Due() bool { return q.due > 0 }

// Take looks at up to limit due sessions. Those touched since go to their later bucket;
// the others are being closed from here on, and are appended to dst.
func (q *ExpiryQueue) Take(dst []Overdue, limit int) []Overdue {
	for ; limit > 0 && q.due > 0; limit-- {
		i := q.search(dueFile, q.taken)
		if i < 0 { // the others fell due behind those that were searched
			i = q.search(dueFile, 0)
		}
		q.taken = i + 1
		if q.touched(uint32(i)) {
			q.file(uint32(i))
			continue
		}
		q.set(uint32(i), closingFile)
		r := q.slot(uint32(i))
		timeout := time.Duration(r.timeout) * time.Millisecond
		dst = append(dst, Overdue{
			Seed: Seed{ID: r.id, Timeout: timeout, Member: r.member, Since: r.since}, Heard: r.deadline - timeout,
		})
	}
	return dst
}

// Remove forgets id, if the queue holds it.
func (q *ExpiryQueue) Remove(id jute.SessionID) {
	place, i := q.find(id, hash(id))
	if i == 0 {
		return
	}
	q.index.remove(place)
	q.set(i, freeFile)
	*q.slot(i) = slot{deadline: time.Duration(q.free)}
	q.free = i
}

// touched reports whether slot i belongs to a bucket that has not been polled.
func (q *ExpiryQueue) touched(i uint32) bool { return q.bucket(q.slot(i).deadline) >= q.next }

// bucket is the one that a deadline lies in.
func (q *ExpiryQueue) bucket(deadline time.Duration) int64 { return int64(deadline/q.tick) + 1 }

// file puts slot i into its bucket. Buckets a ring apart share a place: when the first is
// polled, what belongs to a later one is filed again.
func (q *ExpiryQueue) file(i uint32) {
	q.set(i, uint8(max(q.bucket(q.slot(i).deadline), q.next)%ringSize))
}

// set files slot i, and counts those that are due.
func (q *ExpiryQueue) set(i uint32, file uint8) {
	if q.filed[i] == dueFile {
		q.due--
	}
	if file == dueFile {
		q.due++
	}
	q.filed[i] = file
}

// search returns the first slot from one on that is filed there, or -1.
func (q *ExpiryQueue) search(file uint8, from int) int {
	i := bytes.IndexByte(q.filed[from:], file)
	if i < 0 {
		return -1
	}
	return from + i
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

// find returns the place in the index and the slot of id, whose hash is h; slot 0: none.
func (q *ExpiryQueue) find(id jute.SessionID, h uint32) (place, slot uint32) {
	for place, slot = q.index.seek(h, h); slot != 0; place, slot = q.index.seek(h, place+1) {
		if q.slot(slot).id == id {
			break
		}
	}
	return place, slot
}
