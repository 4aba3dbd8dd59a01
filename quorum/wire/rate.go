package wire

import (
	"container/list"
	"net/netip"
	"time"
)

// tokenRate is how fast the tokens of a bucket come back, and how many it holds.
type tokenRate struct {
	perToken time.Duration // for one token
	burst    int           // 1 or more
}

// bucket holds tokens. The zero bucket is full.
type bucket struct {
	fullAt time.Time // when it is full again if nothing more is taken
}

// hasToken reports whether a token can be taken.
func (b *bucket) hasToken(r tokenRate, now time.Time) bool {
	return b.fullAt.Sub(now) <= time.Duration(r.burst-1)*r.perToken
}

// takeToken takes a token. The bucket must have one.
func (b *bucket) takeToken(r tokenRate, now time.Time) {
	if b.fullAt.Before(now) {
		b.fullAt = now
	}
	b.fullAt = b.fullAt.Add(r.perToken)
}

// addressBuckets has a bucket for each address, of those that have come lately. An address that is forgotten
// has a full bucket again.
type addressBuckets struct {
	rate         tokenRate
	maxBuckets   int
	byAddress    map[netip.Addr]*list.Element
	recentlyUsed list.List // of *addressed, the one that was used last at the front
}

type addressBucket struct {
	bucket
	addr netip.Addr
}

func newAddressBuckets(r tokenRate, most int) *addressBuckets {
	return &addressBuckets{rate: r, maxBuckets: most, byAddress: map[netip.Addr]*list.Element{}}
}

// hasToken reports whether the bucket of an address has a token. It remembers nothing.
func (b *addressBuckets) hasToken(addr netip.Addr, now time.Time) bool {
	e := b.byAddress[addr]
	return e == nil || e.Value.(*addressBucket).hasToken(b.rate, now)
}

// takeToken takes a token from the bucket of an address, which must have one.
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
