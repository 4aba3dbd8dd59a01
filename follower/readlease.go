package follower

import (
	"context"
	"sync/atomic"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
)

// renewShare divides a lease for reads: after that share of it, a read makes this member ask for the next one.
const renewShare = 2

// readLease is this member's lease for reads. While it lasts, no leader shows an entry that this member does not hold: see package
// quorum/readlease. It is safe for concurrent use.
type readLease struct {
	clock   monotonic.Clock
	granted atomic.Pointer[grantedLease] // nil: there was none yet; dropped: there is none any more
	renewal atomic.Bool                  // a call to the leader is to be made, or is under way, even if nothing waits for it
	number  atomic.Uint64                // of the last request
}

// maxUnappliedLeases limits the leases that are kept although the log is not applied as far as they need. With more of them, a lease is
// renewed several times within a round trip.
const maxUnappliedLeases = 4

// grantedLease is a lease that a leader has granted. An earlier one stays valid beside it, as if the reply with the later one had not come
// yet: under load, the log is never applied as far as the newest one needs.
type grantedLease struct {
	validUntil, renewAt time.Time // by the clock
	index               uint64    // this member must have applied the log so far
	earlier             *grantedLease
}

// keptAt returns the leases to keep beside a later one: down to the newest that is good for reads, and so many that are not yet.
func (g *grantedLease) keptAt(appliedIndex uint64, now time.Time, unapplied int) *grantedLease {
	switch {
	case g == nil || now.After(g.validUntil): // and the earlier ones have ended before
		return nil
	case appliedIndex >= g.index:
		return &grantedLease{validUntil: g.validUntil, index: g.index}
	case unapplied == 0:
		return g.earlier.keptAt(appliedIndex, now, 0)
	}
	return &grantedLease{validUntil: g.validUntil, index: g.index, earlier: g.earlier.keptAt(appliedIndex, now, unapplied-1)}
}

// dropped takes the place of the lease of a member that stops, for good.
var dropped = new(grantedLease)

// nextRequest returns the number of the next request for a lease. It returns 0 if this member stops and requests none.
func (l *readLease) nextRequest() uint64 {
	number := l.number.Add(1)
	if l.granted.Load() == dropped { // read last: a request that is made is among those that drop returns
		return 0
	}
	return number
}

// grant records the reply to a request for a lease that was sent at sent. One goroutine calls it.
func (l *readLease) grant(reply *proto.SyncReply, sent time.Time, appliedIndex uint64) {
	lease := time.Duration(reply.GetLeaseUs()) * time.Microsecond
	before := l.granted.Load()
	if lease <= 0 || before == dropped {
		return
	}
	l.granted.CompareAndSwap(before, &grantedLease{
		validUntil: sent.Add(lease), renewAt: sent.Add(lease / renewShare), index: reply.GetLeaseIndex(),
		earlier: before.keptAt(appliedIndex, l.clock.Now(), maxUnappliedLeases),
	})
}

// isValid reports whether this member has a lease now, and has applied the log as far as the lease needs. It reports to wake when the next
// lease is due.
func (l *readLease) isValid(appliedIndex uint64, wake func()) bool {
	g := l.granted.Load()
	if g == nil || g == dropped {
		return false
	}
	now := l.clock.Now()
	if now.After(g.renewAt) && !l.renewal.Swap(true) {
		wake()
	}
	for ; g != nil; g = g.earlier {
		if appliedIndex >= g.index && !now.After(g.validUntil) {
			return true
		}
	}
	return false
}

// drop gives the lease up, and returns the number of the last request. No later reply grants another.
func (l *readLease) drop() (last uint64) {
	l.granted.Store(dropped)
	return l.number.Load()
}

// returnPause is the time between two attempts to give a lease back.
const returnPause = 10 * time.Millisecond

// returnLease drops this member's lease, and tells the leader, or a later one, until it replies or ctx ends.
func (s *syncs) returnLease(ctx context.Context) {
	last := s.lease.drop()
	if last == 0 {
		return // there never was one
	}
	for {
		t := s.leadership.currentTerm()
		request := &proto.SyncRequest{Member: s.cfg.Self, Nonce: t.Nonce, Boot: s.cfg.Boot, ReturnedLease: last}
		if _, err := s.callLeader(ctx, t, request); err == nil {
			return
		}
		select {
		case <-s.cfg.Monotonic.After(returnPause):
		case <-ctx.Done():
			return
		}
	}
}
