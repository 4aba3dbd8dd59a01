package wire

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A TLS handshake costs a member a signature, about half a millisecond of CPU time, before the other end has
// proved anything. These limits hold for both ports of a member together. They admit all members at once after a
// restart, and leave strangers a few percent of a CPU.
var (
	// memberRate applies to each address of a member. raft dials an unreachable member ten times per election
	// timeout, and members on one machine share an address.
	memberRate = tokenRate{perToken: time.Second / 100, burst: 200}
	// sourceRate applies to each other address, such as that of a member that is not known yet.
	sourceRate = tokenRate{perToken: time.Second / 5, burst: 20}
	// strangersRate applies to all other addresses together.
	strangersRate = tokenRate{perToken: time.Second / 20, burst: maxHandshakes}
)

const (
	// maxSources bounds the buckets per kind of address, of some 200 bytes each. Further addresses replace
	// the least recently used ones, and strangersRate bounds them all the same.
	maxSources = 1024
	// sourcePrefixBits is the size of an IPv6 network that counts as one source, because its owner usually
	// has all of it.
	sourcePrefixBits = 64
)

// origin is the kind of a source address.
type origin int

const (
	fromStranger origin = iota
	fromMember
	originCount
)

func (o origin) String() string { return [originCount]string{"others", "members"}[o] }

// HandshakeLimiter bounds the TLS handshakes on a member's ports with connections that have proved nothing.
// Members' addresses have their own token buckets, which strangers at other addresses cannot empty. Silent
// connections take no tokens, because maxHandshakes bounds them. It is safe for concurrent use.
type HandshakeLimiter struct {
	lookupWanted chan struct{} // signals Run; capacity 1

	mu              sync.Mutex
	memberAddresses memberAddresses
	memberBuckets   *addressBuckets // by address
	sourceBuckets   *addressBuckets // by source of strangers
	strangersBucket bucket
	rejectionCount  [originCount]uint64
	unloggedCount   [originCount]uint64 // since the last log line
	lastLogged      logTimes[origin]
}

func newHandshakeLimiter(book *AddressBook) *HandshakeLimiter {
	d := &HandshakeLimiter{
		lookupWanted: make(chan struct{}, 1), memberAddresses: newMemberAddresses(), lastLogged: logTimes[origin]{},
		memberBuckets: newAddressBuckets(memberRate, maxSources), sourceBuckets: newAddressBuckets(sourceRate, maxSources),
	}
	book.onChange(d.setServerList)
	return d
}

func (d *HandshakeLimiter) setServerList(peers []Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memberAddresses.setServerList(peers)
}

func (d *HandshakeLimiter) hostNames() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.memberAddresses.hostNames)
}

// RunLookups looks up the names in the server list after rejections, at most once per lookupInterval, until ctx
// ends. This recognizes a member that returns with another address. After a failed lookup, the previous
// result stays.
func (d *HandshakeLimiter) RunLookups(ctx context.Context, lookup LookupFunc) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.lookupWanted:
		}
		var all sync.WaitGroup // concurrent, because a name service that hangs takes lookupTimeout for each
		for _, name := range d.hostNames() {
			all.Go(func() { d.resolveName(ctx, lookup, name) })
		}
		all.Wait()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookupInterval):
		}
	}
}

func (d *HandshakeLimiter) resolveName(ctx context.Context, lookup LookupFunc, name string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := lookup(ctx, name)
	if err != nil {
		return // its link logs that the member cannot be dialed
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memberAddresses.setResolved(name, addrs)
}

// Rejections returns the number of connections closed because they came too fast, by origin: "members" for
// the addresses of members, and "others".
func (d *HandshakeLimiter) Rejections() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]uint64, originCount)
	for o := range originCount {
		all[o.String()] = d.rejectionCount[o]
	}
	return all
}

func (d *HandshakeLimiter) isMember(addr netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memberAddresses.isMember(addr)
}

// learnAddress records the source of a member's correct hello.
func (d *HandshakeLimiter) learnAddress(member uint32, addr netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memberAddresses.learnAddress(member, addr)
}

// checkAvailable returns nil if a handshake with addr could begin now, or a tooFastError.
func (d *HandshakeLimiter) checkAvailable(addr netip.Addr) error {
	return d.checkOrTakeToken(addr, false)
}

// takeToken takes the token for a handshake with addr, or returns a tooFastError.
func (d *HandshakeLimiter) takeToken(addr netip.Addr) error { return d.checkOrTakeToken(addr, true) }

// checkOrTakeToken always admits an in-memory connection, which has no address.
func (d *HandshakeLimiter) checkOrTakeToken(addr netip.Addr, take bool) error {
	if !addr.IsValid() {
		return nil
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known, source := d.memberAddresses.isMember(addr), sourceOf(addr); {
	case known && !d.memberBuckets.hasToken(addr, now):
		return d.countRejection(fromMember)
	case known:
		if take {
			d.memberBuckets.takeToken(addr, now)
		}
	case !d.sourceBuckets.hasToken(source, now) || !d.strangersBucket.hasToken(strangersRate, now):
		return d.countRejection(fromStranger)
	case take:
		d.sourceBuckets.takeToken(source, now)
		d.strangersBucket.takeToken(strangersRate, now)
	}
	return nil
}

type tooFastError struct{ origin origin }

func (tooFastError) Error() string { return "connections come faster than this member takes them" }

// countRejection counts a rejection. The caller holds the lock.
func (d *HandshakeLimiter) countRejection(from origin) error {
	d.rejectionCount[from]++
	d.unloggedCount[from]++
	if from == fromStranger { // it may be a member with a new address
		select {
		case d.lookupWanted <- struct{}{}:
		default:
		}
	}
	return tooFastError{from}
}

// logRejection logs at most one rejection per origin and refusalInterval.
func (d *HandshakeLimiter) logRejection(log *slog.Logger, remote string, why tooFastError) {
	d.mu.Lock()
	n, isDue := d.unloggedCount[why.origin], d.lastLogged.allowLine(why.origin)
	if isDue {
		d.unloggedCount[why.origin] = 0
	}
	d.mu.Unlock()
	if isDue {
		log.Warn("refused connections, because they come faster than this member takes them",
			"remote", remote, "from", why.origin.String(), "closed", n)
	}
}

func sourceOf(addr netip.Addr) netip.Addr {
	if addr.Is4() {
		return addr
	}
	network, err := addr.Prefix(sourcePrefixBits)
	if err != nil {
		return addr
	}
	return network.Addr()
}
