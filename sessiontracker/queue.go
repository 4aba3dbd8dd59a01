package sessiontracker

import (
	"math/bits"
	"time"

	"rollcall/jute"
)

const (
	ringSize = 64   // lists of buckets; 20 ticks, the longest timeout by default, need 22
	slabSize = 1024 // slots; 48 KiB, so that a small ensemble's table stays small

	polledList = ringSize     // head of the list that Sift has still to look at
	dueList    = ringSize + 1 // head of the list that Take decides
	heads      = ringSize + 2 // slots that are heads of lists
)

// ExpiryQueue holds sessions in buckets one tick wide. Bucket b falls due at b ticks, and
// holds those whose deadline lies in the tick before: deadlines are rounded up, strictly,
// as ZooKeeper does. Times are table time.
//
// A touch is O(1), writes the record's deadline and nothing else, and does not allocate:
// the bucket, when it falls due, files those again that were touched. A session takes 48
// bytes of slab and 4 to 5 of index, without a pointer; memory is given back with the
// queue. Make one with NewExpiryQueue. Not safe for concurrent use.
type ExpiryQueue struct {
	tick  time.Duration
	next  int64             // first bucket that has not been polled; nothing is filed before it
	index []uint32          // hash of an id → first slot of its chain; grows with every session
	slabs []*[slabSize]slot // never moved; the first slots of all are heads
	used  uint32            // slots ever used
	free  uint32            // first slot to be used again, linked by chain
	held  int               // sessions
}

// slot is one session, or the head of a list. The zero index is the head of a bucket, so
// it serves as "none" in chains.
type slot struct {
	id         jute.SessionID
	deadline   time.Duration // greatest touch + timeout; it may be listed in an earlier bucket
	since      uint64
	timeout    uint32 // milliseconds
	member     uint32
	prev, next uint32 // neighbours in its list; itself if it is being closed
	chain      uint32 // next slot with the same hash
	closing    bool
}

// NewExpiryQueue returns an empty queue of buckets one tick wide, at time 0.
func NewExpiryQueue(tick time.Duration) *ExpiryQueue {
	q := &ExpiryQueue{tick: tick, next: 1, index: make([]uint32, 1)}
	for i := range uint32(heads) {
		q.add()
		q.unlink(i)
	}
	return q
}

// Put adds s or replaces what the queue knows of it, alive, due at deadline.
func (q *ExpiryQueue) Put(s Seed, deadline time.Duration) {
	i := q.find(s.ID)
	if i == 0 {
		i = q.insert(s.ID)
	}
	r := q.slot(i)
	r.timeout, r.member, r.since = uint32(s.Timeout.Milliseconds()), s.Member, s.Since
	r.deadline, r.closing = deadline, false
	q.file(i)
}

// Touch makes id due timeout after heard, or later if it was: only Put lowers a deadline.
// Of a timeout beyond the session's own only that counts: it was heard on a connection
// before the one that Put knows of. Touch reports false, and changes nothing, if id is
// unknown, being closed, or not owned by member (0: whoever owns it).
func (q *ExpiryQueue) Touch(id jute.SessionID, member uint32, heard, timeout time.Duration) bool {
	i := q.find(id)
	if i == 0 {
		return false
	}
	r := q.slot(i)
	if r.closing || member != 0 && member != r.member {
		return false
	}
	timeout = min(timeout, time.Duration(r.timeout)*time.Millisecond)
	r.deadline = max(r.deadline, heard+timeout)
	return true
}

// Buckets appends to dst up to limit sessions, from cursor (0: the first) on, each with the
// time its bucket falls due, and returns where to go on; 0: that was all. Sessions being
// closed are left out.
func (q *ExpiryQueue) Buckets(dst []Expiry, cursor uint32, limit int) (_ []Expiry, next uint32) {
	i := max(cursor, heads)
	for ; limit > 0 && i < q.used; i, limit = i+1, limit-1 {
		if s := q.slot(i); s.id != 0 && !s.closing {
			dst = append(dst, Expiry{s.id, time.Duration(max(q.bucket(s.deadline), q.next)) * q.tick})
		}
	}
	if i == q.used {
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
func (q *ExpiryQueue) Has(id jute.SessionID) bool { return q.find(id) != 0 }

// Len returns how many sessions the queue holds, those being closed included.
func (q *ExpiryQueue) Len() int { return q.held }

// Poll hands the next bucket to Sift if it is due at now, and reports whether it was.
// However late Poll comes, no bucket is skipped.
func (q *ExpiryQueue) Poll(now time.Duration) bool {
	if now < time.Duration(q.next)*q.tick {
		return false
	}
	q.splice(uint32(q.next%ringSize), polledList)
	q.next++
	return true
}

// Sift looks at up to limit sessions of polled buckets: those touched meanwhile go to
// their later bucket, the others are due. It reports whether there are more to look at.
func (q *ExpiryQueue) Sift(limit int) (more bool) {
	for range limit {
		i := q.slot(polledList).next
		if i == polledList {
			return false
		}
		if q.touched(i) {
			q.file(i)
		} else {
			q.move(i, dueList)
		}
	}
	return q.slot(polledList).next != polledList
}

// Due reports whether there are sessions that Sift found due and Take has not decided.
func (q *ExpiryQueue) Due() bool { return q.slot(dueList).next != dueList }

// Take looks at up to limit due sessions. Those touched since go to their later bucket;
// the others are being closed from here on, and are appended to dst.
func (q *ExpiryQueue) Take(dst []Overdue, limit int) []Overdue {
	for range limit {
		i := q.slot(dueList).next
		if i == dueList {
			break
		}
		if q.touched(i) {
			q.file(i)
			continue
		}
		r := q.slot(i)
		r.closing = true
		q.unlink(i)
		timeout := time.Duration(r.timeout) * time.Millisecond
		dst = append(dst, Overdue{
			Seed: Seed{ID: r.id, Timeout: timeout, Member: r.member, Since: r.since}, Heard: r.deadline - timeout,
		})
	}
	return dst
}

// Remove forgets id, if the queue holds it.
func (q *ExpiryQueue) Remove(id jute.SessionID) {
	i := q.find(id)
	if i == 0 {
		return
	}
	q.unlink(i)
	link := &q.index[q.hash(id)]
	for *link != i {
		link = &q.slot(*link).chain
	}
	*link = q.slot(i).chain
	*q.slot(i) = slot{chain: q.free}
	q.free = i
	q.held--
}

// touched reports whether slot i belongs to a bucket that has not been polled.
func (q *ExpiryQueue) touched(i uint32) bool { return q.bucket(q.slot(i).deadline) >= q.next }

// bucket is the one that a deadline lies in.
func (q *ExpiryQueue) bucket(deadline time.Duration) int64 { return int64(deadline/q.tick) + 1 }

// file puts slot i into its bucket's list. Buckets a ring apart share one: when the first
// is polled, what belongs to a later one is filed again.
func (q *ExpiryQueue) file(i uint32) {
	q.move(i, uint32(max(q.bucket(q.slot(i).deadline), q.next)%ringSize))
}

// move takes slot i out of its list and appends it to that of head.
func (q *ExpiryQueue) move(i, head uint32) {
	q.unlink(i)
	last := q.slot(head).prev
	q.slot(i).prev, q.slot(i).next = last, head
	q.slot(last).next, q.slot(head).prev = i, i
}

// unlink takes slot i out of its list; it is then a list of its own.
func (q *ExpiryQueue) unlink(i uint32) {
	s := q.slot(i)
	q.slot(s.prev).next, q.slot(s.next).prev = s.next, s.prev
	s.prev, s.next = i, i
}

// splice appends all that is listed at from to the list at to, whatever its length.
func (q *ExpiryQueue) splice(from, to uint32) {
	f, t := q.slot(from), q.slot(to)
	if f.next == from {
		return
	}
	first, last := f.next, f.prev
	q.slot(t.prev).next, q.slot(first).prev = first, t.prev
	q.slot(last).next, t.prev = to, last
	f.next, f.prev = from, from
}

func (q *ExpiryQueue) slot(i uint32) *slot { return &q.slabs[i/slabSize][i%slabSize] }

// add returns a zeroed slot that is in no list and no chain.
func (q *ExpiryQueue) add() uint32 {
	if i := q.free; i != 0 {
		q.free = q.slot(i).chain
		*q.slot(i) = slot{}
		return i
	}
	if q.used%slabSize == 0 {
		q.slabs = append(q.slabs, new([slabSize]slot))
	}
	q.used++
	return q.used - 1
}

// insert adds a session that is in no list yet.
func (q *ExpiryQueue) insert(id jute.SessionID) uint32 {
	if q.held == len(q.index) {
		q.grow()
	}
	i := q.add()
	s, first := q.slot(i), &q.index[q.hash(id)]
	s.id, s.prev, s.next, s.chain = id, i, i, *first
	*first = i
	q.held++
	return i
}

// find returns the slot of id, or 0.
func (q *ExpiryQueue) find(id jute.SessionID) uint32 {
	i := q.index[q.hash(id)]
	for i != 0 {
		s := q.slot(i)
		if s.id == id {
			break
		}
		i = s.chain
	}
	return i
}

// hash returns the place of id in the index, which grows by one place at a time (linear
// hashing): the hash's low bits, one less where that place is not split yet.
func (q *ExpiryQueue) hash(id jute.SessionID) uint32 {
	hi, lo := bits.Mul64(uint64(id), 0x9e3779b97f4a7c15) // ids are counted up, and differ in the top byte
	h := uint32(hi) ^ uint32(lo>>32)
	width := bits.Len32(uint32(len(q.index)))
	if place := h & (1<<width - 1); int(place) < len(q.index) {
		return place
	}
	return h & (1<<(width-1) - 1)
}

// grow adds a place to the index and splits the chain that it takes its ids from. So no
// session waits until a million others have found their new places.
func (q *ExpiryQueue) grow() {
	place := uint32(len(q.index))
	from := place & (1<<(bits.Len32(place)-1) - 1)
	q.index = append(q.index, 0)
	i := q.index[from]
	q.index[from] = 0
	for i != 0 {
		s := q.slot(i)
		following, first := s.chain, &q.index[q.hash(s.id)]
		s.chain, *first = *first, i
		i = following
	}
}
