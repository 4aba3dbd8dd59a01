package wire

import (
	"container/list"
	"net/netip"
	"time"
)

// tokenRate is the refill rate and the capacity of a bucket.
type tokenRate struct {
	perToken time.Duration // refill time
	burst    int           // capacity; 1 or more
}

// logTimes has the time of the last log line of each kind.
type logTimes[K comparable] map[K]time.Time

// allowLine reports whether a line of a kind may be logged, at most one per refusalInterval, and counts it as logged.
func (t logTimes[K]) allowLine(kind K) bool {
	if last := t[kind]; !last.IsZero() && time.Since(last) < refusalInterval {
		return false
	}
	t[kind] = time.Now()
	return true
}

// bucket holds tokens. The zero bucket is full.
type bucket struct {
	fullAt time.Time // if no more tokens are taken
}

func (b *bucket) hasToken(r tokenRate, now time.Time) bool {
	return b.fullAt.Sub(now) <= time.Duration(r.burst-1)*r.perToken
}

// takeToken requires that the bucket has a token.
func (b *bucket) takeToken(r tokenRate, now time.Time) {
	if b.fullAt.Before(now) {
		b.fullAt = now
	}
	b.fullAt = b.fullAt.Add(r.perToken)
}

// addressBuckets has the buckets of the most recently used addresses. An evicted address has a full bucket
// again.
type addressBuckets struct {
	rate         tokenRate
	maxBuckets   int
	byAddress    map[netip.Addr]*list.Element
	recentlyUsed list.List // of *addressBucket, most recent first
}

type addressBucket struct {
	bucket
	addr netip.Addr
}

func newAddressBuckets(r tokenRate, most int) *addressBuckets {
	return &addressBuckets{rate: r, maxBuckets: most, byAddress: map[netip.Addr]*list.Element{}}
}

// hasToken does not count as a use of the bucket.
func (b *addressBuckets) hasToken(addr netip.Addr, now time.Time) bool {
	e := b.byAddress[addr]
	return e == nil || e.Value.(*addressBucket).hasToken(b.rate, now)
}

// takeToken requires that the address's bucket has a token.
func (b *addressBuckets) takeToken(addr netip.Addr, now time.Time) {
	e := b.byAddress[addr]
	if e == nil {
		if len(b.byAddress) >= b.maxBuckets {
			oldest := b.recentlyUsed.Back()
			delete(b.byAddress, b.recentlyUsed.Remove(oldest).(*addressBucket).addr)
		}
		e = b.recentlyUsed.PushFront(&addressBucket{addr: addr})
		b.byAddress[addr] = e
	} else {
		b.recentlyUsed.MoveToFront(e)
	}
	e.Value.(*addressBucket).takeToken(b.rate, now)
}
