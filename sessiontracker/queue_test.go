package sessiontracker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rollcall/zk/jute"
)

const ms = time.Millisecond

// poll drains the queue of one bucket that is due at now, and returns its sessions in order of id.
func poll(q *ExpiryQueue, now time.Duration) (ids []jute.SessionID, polled bool) {
	polled = q.PollDueBucket(now)
	for q.SiftPolled(3) { // a small number, so that every test stops and continues here
	}
	for q.HasDue() {
		for _, s := range q.TakeOverdue(nil, 3) {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids, polled
}

// Deadlines are rounded as in ZooKeeper: up to the next check, even if they are at a check.
func TestBucketArithmetic(t *testing.T) {
	tests := []struct{ tick, now, timeout, due time.Duration }{
		{2, 0, 10, 12},
		{3000, 0, 6000, 9000},
		{3000, 1, 5999, 9000},
		{3000, 2999, 6000, 9000},
		{3000, 1000, 5900, 9000},
		{3000, 1000, 6500, 9000},
		{2000, 500, 4000, 6000},
	}
	for _, tt := range tests {
		q := NewExpiryQueue(tt.tick)
		q.Put(TrackedSession{ID: 1}, tt.now+tt.timeout)
		if got := time.Duration(q.bucketOf(tt.now+tt.timeout)) * tt.tick; got != tt.due {
			t.Errorf("tick %d: %d+%d is due at %d, want %d", tt.tick, tt.now, tt.timeout, got, tt.due)
		}
		for at := tt.tick; at <= tt.due; at += tt.tick {
			ids, polled := poll(q, at)
			if !polled || (len(ids) == 1) != (at == tt.due) {
				t.Errorf("tick %d: %d+%d: poll at %d = %v, %t; want it at %d", tt.tick, tt.now, tt.timeout, at, ids, polled, tt.due)
			}
		}
	}
}

func TestBucketIsAfterDeadlineByATickAtMost(t *testing.T) {
	r := rand.New(rand.NewPCG(37, 1))
	for range 100_000 {
		tick := time.Duration(r.Int64N(10_000)+1) * ms
		deadline := time.Duration(r.Int64N(1e15))
		due := time.Duration((&ExpiryQueue{width: tick}).bucketOf(deadline)) * tick
		if due <= deadline || due > deadline+tick || due%tick != 0 {
			t.Fatalf("tick %v: deadline %v is due at %v", tick, deadline, due)
		}
	}
}

func TestQueueMoves(t *testing.T) {
	tests := []struct {
		name   string
		change func(q *ExpiryQueue)
		due    time.Duration // when session 1 is due; its first deadline is 25, and the tick is 10
	}{
		{"untouched", func(*ExpiryQueue) {}, 30},
		{"touched within its bucket", func(q *ExpiryQueue) { q.Touch(1, 0, 29, 0) }, 30},
		{"touched into a later one", func(q *ExpiryQueue) { q.Touch(1, 0, 30, 0) }, 40},
		{"touched twice, the second time for less", func(q *ExpiryQueue) { q.Touch(1, 0, 55, 0); q.Touch(1, 0, 31, 0) }, 60},
		{"touched for less", func(q *ExpiryQueue) { q.Touch(1, 0, 1, 0) }, 30},
		{"put lower", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 5) }, 10},
		{"put higher", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 45) }, 50},
		{"put higher, then lower", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 45); q.Put(TrackedSession{ID: 1}, 15) }, 20},
		{"put before the first bucket", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, -100) }, 10},
		{"put beyond the ring", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 10*bucketRingSize*7+5) }, 10*bucketRingSize*7 + 10},
		{"put at the end of the ring", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 10*bucketRingSize-1) }, 10 * bucketRingSize},
		{"put right behind the ring", func(q *ExpiryQueue) { q.Put(TrackedSession{ID: 1}, 10*bucketRingSize) }, 10 * (bucketRingSize + 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewExpiryQueue(10)
			q.Put(TrackedSession{ID: 1}, 25)
			tt.change(q)
			for now := time.Duration(10); now <= 10*bucketRingSize*8; now += 10 {
				ids, _ := poll(q, now)
				if (len(ids) == 1) != (now == tt.due) {
					t.Fatalf("poll(%d) = %v, want session 1 at %d", now, ids, tt.due)
				}
				check(t, q)
			}
		})
	}
}

func TestPollTakesOneBucketAfterTheOther(t *testing.T) {
	q := NewExpiryQueue(10)
	for id, deadline := range []time.Duration{1, 2, 12, 33, 39, 45} {
		q.Put(TrackedSession{ID: jute.SessionID(id + 1)}, deadline)
	}
	if _, polled := poll(q, 9); polled {
		t.Error("Poll(9) took a bucket that is due at 10")
	}
	// The clock jumps by five ticks. No bucket is skipped, not even the empty one.
	for _, want := range [][]jute.SessionID{{1, 2}, {3}, nil, {4, 5}, {6}} {
		if ids, polled := poll(q, 50); !polled || !slices.Equal(ids, want) {
			t.Errorf("poll(50) = %v, %t; want %v", ids, polled, want)
		}
	}
	if _, polled := poll(q, 59); polled {
		t.Error("Poll(59) took a bucket that is due at 60")
	}
}

func TestClosingStaysClosing(t *testing.T) {
	q := NewExpiryQueue(10)
	q.Put(TrackedSession{ID: 1, OwnerMember: 2}, 5)
	if ids, _ := poll(q, 10); len(ids) != 1 {
		t.Fatalf("poll = %v", ids)
	}
	if q.Touch(1, 0, 100, 0) || q.Touch(1, 2, 100, 0) {
		t.Error("Touch of a closing session: true")
	}
	for now := time.Duration(20); now < 2000; now += 10 {
		if ids, _ := poll(q, now); len(ids) != 0 {
			t.Fatalf("poll(%d) = %v: closed twice", now, ids)
		}
	}
	if !q.Has(1) || q.Len() != 1 {
		t.Error("a closing session is held until it is removed")
	}
	q.Remove(1)
	q.Remove(1)
	if q.Has(1) || q.Len() != 0 || q.Touch(1, 0, 100, 0) {
		t.Error("a removed session is still there")
	}
	check(t, q)
}

func TestQueueFindsWhatItHolds(t *testing.T) {
	q := NewExpiryQueue(10)
	held := map[jute.SessionID]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		id := jute.SessionID(uint64(r.IntN(200)+1)<<56 | uint64(r.IntN(150))) // 200 members, the same counts
		if held[id] && r.IntN(2) == 0 {
			q.Remove(id)
			delete(held, id)
		} else {
			q.Put(TrackedSession{ID: id}, time.Duration(r.IntN(1000)))
			held[id] = true
		}
	}
	check(t, q)
	if q.Len() != len(held) {
		t.Errorf("Len = %d, want %d", q.Len(), len(held))
	}
	for id := range held {
		if !q.Has(id) {
			t.Fatalf("%s is lost", id)
		}
	}
	// Slots of removed sessions are used again.
	if used := len(q.slotBuckets) - 1; used > 30_000 {
		t.Errorf("%d slots for at most 30,000 sessions at a time", used)
	}
	// By Knuth, linear probing in a table that is three quarters full reads 2.5 places to find an
	// entry.
	if probes := probes(&q.index); probes > 2.6 {
		t.Errorf("%.1f places are read to find an id: the hash does not spread ids", probes)
	}
}

// probes returns how many places of an index are read for each id in it.
func probes(x *slotIndex) float64 {
	read := 0
	for place, e := range x.entries {
		if e != 0 {
			home := int(e>>32) % len(x.entries)
			read += 1 + (place-home+len(x.entries))%len(x.entries)
		}
	}
	return float64(read) / float64(x.entryCount)
}

// The ids that members have counted up for a million sessions are spread evenly over the shards,
// and are found with few probes.
func TestHashSpreadsCounts(t *testing.T) {
	const n = 1_000_000
	table := NewGlobalTable(start, tick, million(n))
	for i := range table.shards {
		q := table.shards[i].queue
		if q.Len() < n/shardCount*9/10 || q.Len() > n/shardCount*11/10 {
			t.Errorf("%d of %d sessions in shard %d of %d", q.Len(), n, i, shardCount)
		}
		if probes := probes(&q.index); probes > 2.6 {
			t.Errorf("shard %d: %.1f places are read to find an id", i, probes)
		}
	}
}

// Removing an entry leaves no hole between another entry's first place and its own.
func TestIndexAgainstMap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	var x slotIndex
	x.doubleSize()
	model := map[uint32]uint32{} // hash → slot
	for slot := uint32(1); slot < 50_000; slot++ {
		h := r.Uint32N(40) << 20 // few first places, so that many collide
		h |= r.Uint32N(80)
		if _, ok := model[h]; !ok {
			x.addSlot(h, slot)
			model[h] = slot
		}
		for h := range model {
			if len(model) > 40+int(slot)%90 {
				if _, at := x.seekHash(h, h); !x.removeSlot(h, at) || x.removeSlot(h, at) {
					t.Fatalf("slot %d of %#x is not removed once", at, h)
				}
				delete(model, h)
			}
		}
		for h, want := range model {
			if _, got := x.seekHash(h, h); got != want {
				t.Fatalf("seek(%#x) = %d, want %d", h, got, want)
			}
		}
		if x.entryCount != len(model) {
			t.Fatalf("%d held, want %d", x.entryCount, len(model))
		}
	}
}

// Two ids with the same hash are two sessions.
func TestIdsOfOneHash(t *testing.T) {
	byHash := map[uint32]jute.SessionID{}
	a, b := jute.SessionID(0), jute.SessionID(0)
	for id := jute.SessionID(1); a == 0; id++ {
		if other, ok := byHash[hashID(id)]; ok {
			a, b = other, id
		}
		byHash[hashID(id)] = id
	}
	for _, first := range []jute.SessionID{a, b} {
		q := NewExpiryQueue(10)
		q.Put(TrackedSession{ID: a, Timeout: 100 * ms}, 5)
		q.Put(TrackedSession{ID: b, Timeout: 100 * ms}, 5)
		refused := q.touchAll([]touch{{b, hashID(b), 20, 0}, {a, hashID(a), 10, 0}}, 0, nil)
		if len(refused) != 0 || q.deadline(a) != 10*ms || q.deadline(b) != 20*ms {
			t.Errorf("refused %v, due at %v and %v; want 10ms and 20ms", refused, q.deadline(a), q.deadline(b))
		}
		q.Remove(first)
		if other := a + b - first; q.Has(first) || !q.Has(other) || q.Touch(first, 0, 0, 0) || !q.Touch(other, 0, 0, 0) {
			t.Errorf("removed %d: has it %t, the other one %t", first, q.Has(first), q.Has(other))
		}
		check(t, q)
		q.removeAll([]jute.SessionID{first, a, b, a}, []uint32{hashID(first), hashID(a), hashID(b), hashID(a)})
		if q.Len() != 0 {
			t.Errorf("%d are left of all that were removed", q.Len())
		}
		check(t, q)
	}
}

func (q *ExpiryQueue) deadline(id jute.SessionID) time.Duration {
	_, i := q.findSlot(id, hashID(id))
	return q.slotAt(i).deadline
}

// A session that is touched until exactly the end of its bucket is in the next one: it is not due yet.
func TestTouchedUntilTheCheck(t *testing.T) {
	const tick = 10 * ms
	q := NewExpiryQueue(tick)
	q.Put(TrackedSession{ID: 1, Timeout: tick}, tick-1)
	if !q.Touch(1, 0, 0, tick) {
		t.Fatal("unknown")
	}
	if polled := q.PollDueBucket(tick); !polled || q.SiftPolled(3) || q.HasDue() {
		t.Errorf("at its deadline: polled %t, due %t", polled, q.HasDue())
	}
	check(t, q)
	if ids, _ := poll(q, 2*tick); !slices.Equal(ids, []jute.SessionID{1}) {
		t.Errorf("a tick later: due %v", ids)
	}
}

// A queue that is not sifted while its ring turns twice misses no session, and expires none early.
func TestPollsWithoutSift(t *testing.T) {
	q := NewExpiryQueue(10)
	var want []jute.SessionID
	for id := jute.SessionID(1); id <= 4*bucketRingSize; id++ {
		q.Put(TrackedSession{ID: id}, time.Duration(10*id-1)) // bucket id
		if id <= 2*bucketRingSize+9 {
			want = append(want, id)
		}
	}
	q.SiftPolled(1)
	for q.nextBucket <= 2*bucketRingSize+9 {
		q.PollDueBucket(1 << 40)
	}
	check(t, q)
	for q.SiftPolled(5) {
	}
	var got []jute.SessionID
	for _, s := range q.TakeOverdue(nil, 1000) {
		got = append(got, s.ID)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v are due, want 1 to %d", got, len(want))
	}
	check(t, q)
}

// check verifies filed: every live session is due, or in a bucket that has not been polled or
// sifted, and the index has it.
func check(t *testing.T, q *ExpiryQueue) {
	t.Helper()
	if q.siftBucket > q.nextBucket || q.nextBucket-q.siftBucket > bucketRingSize {
		t.Fatalf("buckets %d to %d are to be sifted: more than there are places", q.siftBucket, q.nextBucket)
	}
	held, due, free := 0, 0, 0
	for i, f := range q.slotBuckets {
		s := q.slotAt(uint32(i))
		if f == freeBucket {
			free++
			continue
		}
		held++
		if _, at := q.findSlot(s.id, hashID(s.id)); at != uint32(i) {
			t.Fatalf("index has slot %d for %s, want %d", at, s.id, i)
		}
		switch {
		case f == dueBucket:
			due++
		case f < bucketRingSize:
			b := q.siftBucket + (int64(f)-q.siftBucket%bucketRingSize+bucketRingSize)%bucketRingSize
			if own := q.bucketOf(s.deadline); b > max(own, q.nextBucket) {
				t.Fatalf("%s of bucket %d is filed in %d", s.id, own, b)
			}
		case f != closingBucket:
			t.Fatalf("slot %d is filed in %d", i, f)
		}
	}
	if held != q.Len() || due != q.dueCount {
		t.Fatalf("%d sessions and %d due, want %d and %d", held, due, q.Len(), q.dueCount)
	}
	for i := q.firstFree; i != 0; i = uint32(q.slotAt(i).deadline) {
		free--
	}
	if free != 1 { // slot 0
		t.Fatalf("%d free slots are lost", free-1)
	}
}
