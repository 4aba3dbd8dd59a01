package wire

import (
	"container/list"
	"net/netip"
	"time"
)

// rate is how fast the tokens of a bucket come back, and how many it holds.
type rate struct {
	each  time.Duration // for one token
	burst int           // 1 or more
}

// bucket holds tokens. The zero bucket is full.
type bucket struct {
	full time.Time // when it is full again if nothing more is taken
}

// has reports whether a token can be taken.
func (b *bucket) has(r rate, now time.Time) bool {
	return b.full.Sub(now) <= time.Duration(r.burst-1)*r.each
}

// take takes a token. The bucket must have one.
func (b *bucket) take(r rate, now time.Time) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(r.each)
}

// buckets has a bucket for each address, of those that have come lately. An address that is forgotten
// has a full bucket again.
type buckets struct {
	rate rate
	most int
	of   map[netip.Addr]*list.Element
	last list.List // of *addressed, the one that was used last at the front
}

type addressed struct {
	bucket
	addr netip.Addr
}

func newBuckets(r rate, most int) *buckets {
	return &buckets{rate: r, most: most, of: map[netip.Addr]*list.Element{}}
}

// has reports whether the bucket of an address has a token. It remembers nothing.
func (b *buckets) has(addr netip.Addr, now time.Time) bool {
	e := b.of[addr]
	return e == nil || e.Value.(*addressed).has(b.rate, now)
}

// take takes a token from the bucket of an address, which must have one.
func (b *buckets) take(addr netip.Addr, now time.Time) {
	e := b.of[addr]
	if e == nil {
		if len(b.of) >= b.most {
			oldest := b.last.Back()
			delete(b.of, b.last.Remove(oldest).(*addressed).addr)
		}
		e = b.last.PushFront(&addressed{addr: addr})
		b.of[addr] = e
	} else {
		b.last.MoveToFront(e)
	}
	e.Value.(*addressed).take(b.rate, now)
}
