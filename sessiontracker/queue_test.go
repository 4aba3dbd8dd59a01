package sessiontracker

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"rollcall/jute"
)

const ms = time.Millisecond

// poll drains the queue of what is due at now, one bucket, and returns it in order of id.
func poll(q *ExpiryQueue, now time.Duration) (ids []jute.SessionID, polled bool) {
	polled = q.Poll(now)
	for q.Sift(3) { // small, so that stopping and going on is part of every test
	}
	for q.Due() {
		for _, s := range q.Take(nil, 3) {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids, polled
}

// ZooKeeper's arithmetic: up to the next check point, strictly.
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
		q.Put(Seed{ID: 1}, tt.now+tt.timeout)
		if got := time.Duration(q.bucket(tt.now+tt.timeout)) * tt.tick; got != tt.due {
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
		due := time.Duration((&ExpiryQueue{tick: tick}).bucket(deadline)) * tick
		if due <= deadline || due > deadline+tick || due%tick != 0 {
			t.Fatalf("tick %v: deadline %v is due at %v", tick, deadline, due)
		}
	}
}

func TestQueueMoves(t *testing.T) {
	tests := []struct {
		name   string
		change func(q *ExpiryQueue)
		due    time.Duration // of session 1, whose first deadline is 25; the tick is 10
	}{
		{"untouched", func(*ExpiryQueue) {}, 30},
		{"touched within its bucket", func(q *ExpiryQueue) { q.Touch(1, 0, 29, 0) }, 30},
		{"touched into a later one", func(q *ExpiryQueue) { q.Touch(1, 0, 30, 0) }, 40},
		{"touched twice, the second time for less", func(q *ExpiryQueue) { q.Touch(1, 0, 55, 0); q.Touch(1, 0, 31, 0) }, 60},
		{"touched for less", func(q *ExpiryQueue) { q.Touch(1, 0, 1, 0) }, 30},
		{"put lower", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 5) }, 10},
		{"put higher", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 45) }, 50},
		{"put higher, then lower", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 45); q.Put(Seed{ID: 1}, 15) }, 20},
		{"put before the first bucket", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, -100) }, 10},
		{"put beyond the ring", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 10*ringSize*7+5) }, 10*ringSize*7 + 10},
		{"put at the end of the ring", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 10*ringSize-1) }, 10 * ringSize},
		{"put right behind the ring", func(q *ExpiryQueue) { q.Put(Seed{ID: 1}, 10*ringSize) }, 10 * (ringSize + 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := NewExpiryQueue(10)
			q.Put(Seed{ID: 1}, 25)
			tt.change(q)
			for now := time.Duration(10); now <= 10*ringSize*8; now += 10 {
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
		q.Put(Seed{ID: jute.SessionID(id + 1)}, deadline)
	}
	if _, polled := poll(q, 9); polled {
		t.Error("Poll(9) took a bucket that is due at 10")
	}
	// The clock jumps by five ticks: none is skipped, and the empty one counts.
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
	q.Put(Seed{ID: 1, Member: 2}, 5)
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
			q.Put(Seed{ID: id}, time.Duration(r.IntN(1000)))
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
	if used := int(q.used) - heads; used > 30_000 {
		t.Errorf("%d slots for at most 30,000 sessions at a time", used)
	}
	longest := 0
	for _, i := range q.index {
		n := 0
		for ; i != 0; i = q.slot(i).chain {
			n++
		}
		longest = max(longest, n)
	}
	if longest > 12 {
		t.Errorf("a chain of %d: the hash does not spread ids", longest)
	}
}

// check looks for broken lists: every live session is in exactly one, and in none of an
// already polled bucket.
func check(t *testing.T, q *ExpiryQueue) {
	t.Helper()
	listed, closing := 0, 0
	for head := range uint32(heads) {
		for i, prev := q.slot(head).next, head; i != head; prev, i = i, q.slot(i).next {
			s := q.slot(i)
			switch {
			case i < heads || s.prev != prev:
				t.Fatalf("list %d is broken at slot %d", head, i)
			case s.closing:
				t.Fatalf("list %d holds %s, which is closing", head, s.id)
			case q.find(s.id) != i:
				t.Fatalf("index has slot %d for %s, want %d", q.find(s.id), s.id, i)
			}
			if head < ringSize {
				b := q.next + (int64(head)-q.next%ringSize+ringSize)%ringSize
				if own := q.bucket(s.deadline); b > max(own, q.next) {
					t.Fatalf("%s of bucket %d is listed in %d", s.id, own, b)
				}
			}
			listed++
		}
	}
	for _, i := range q.index {
		for ; i != 0; i = q.slot(i).chain {
			if q.slot(i).closing {
				closing++
			}
		}
	}
	if listed+closing != q.Len() {
		t.Fatalf("%d listed and %d closing of %d", listed, closing, q.Len())
	}
}
