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
// their later bucket, the others are due. It reports whether there may be more to look at.
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

// Due reports whether there are sessions that Sift found due and Take has not decided.
func (q *ExpiryQueue) Due() bool { return q.due > 0 }

// Take looks at up to limit due sessions. Those touched since go to their later bucket;
// the others are being closed from here on, and are appended to dst.
func (q *ExpiryQueue) Take(dst []Overdue, limit int) []Overdue {
	var buffer [touchesPerPass]filedSlot
	polled := q.polled()
	for limit > 0 && q.due > 0 {
		found, next := q.gather(buffer[:min(limit, len(buffer))], dueFile, q.taken)
		if q.taken = next; len(found) == 0 { // others fell due behind those that were searched
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

// filedSlot is a slot that was found where it was looked for.
type filedSlot struct {
	slot     uint32
	deadline time.Duration
}

// gather writes into buffer the first slots from one on that are filed there, as many as it
// has room for, and says where to go on. It reads all deadlines behind all files, so that
// the processor waits for many of them at once.
func (q *ExpiryQueue) gather(buffer []filedSlot, file uint8, from int) (found []filedSlot, next int) {
	n := 0
	for ; n < len(buffer) && from < len(q.filed); n++ {
		if q.filed[from] != file { // else there is nothing to search: as a rule most of a bucket lie side by side
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

// removeAll is Remove of touchesPerPass ids at most, whose hashes are given. It reads all
// places of the index and all slots before it removes any, so that the processor waits
// for many of them at once.
func (q *ExpiryQueue) removeAll(ids []jute.SessionID, hashes []uint32) {
	var slots [touchesPerPass]uint32
	q.index.fetch(hashes, &slots)
	for k, id := range ids {
		if q.slot(slots[k]).id != id { // another id comes first there, or none
			_, slots[k] = q.find(id, hashes[k])
		}
	}
	for k, h := range hashes {
		if slots[k] != 0 {
			q.release(h, slots[k])
		}
	}
}

// release gives back slot i, which held an id of hash h. If it was given back already it
// does nothing.
func (q *ExpiryQueue) release(h, i uint32) {
	if !q.index.remove(h, i) {
		return
	}
	q.set(i, freeFile)
	*q.slot(i) = slot{deadline: time.Duration(q.free)}
	q.free = i
}

// polled is the first deadline that lies in a bucket that has not been polled, if one has.
func (q *ExpiryQueue) polled() time.Duration { return time.Duration(q.next-1) * q.tick }

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
