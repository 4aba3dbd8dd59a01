package wire

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A handshake of TLS costs a member a signature, about half a millisecond of a processor, before the
// other end has proved anything. The following bounds say how many a member does, on both of its ports
// together. They let every member in at once after a restart, and leave strangers a few percent of a
// processor.
var (
	// memberRate is for each address of a member. raft tries a member that does not answer ten times in
	// each election timeout, and several members may share an address, as on one machine.
	memberRate = tokenRate{perToken: time.Second / 100, burst: 200}
	// sourceRate is for each other address: those of a member that is not known yet, which opens a few.
	sourceRate = tokenRate{perToken: time.Second / 5, burst: 20}
	// strangersRate is for all other addresses together.
	strangersRate = tokenRate{perToken: time.Second / 20, burst: maxHandshakes}
)

const (
	// maxSources is how many addresses of each kind have a bucket of their own, of some 200 bytes. More of
	// them take turns, and strangersRate bounds them all the same.
	maxSources = 1024
	// sourcePrefixBits is how much of an IPv6 address counts as one: whoever has one address of a network
	// usually has all of it.
	sourcePrefixBits = 64
)

// origin is the kind of an address that connections come from.
type origin int

const (
	fromStranger origin = iota
	fromMember
	originCount // number of kinds
)

func (o origin) String() string { return [originCount]string{"others", "members"}[o] }

// HandshakeLimiter bounds how many TLS handshakes the ports of a member do for connections that have proved nothing.
// Members' addresses have buckets of tokens of their own, which strangers at other addresses cannot empty.
// Silent connections take no tokens: maxHandshakes bounds them. It is safe for concurrent use.
type HandshakeLimiter struct {
	lookupWanted chan struct{} // the names are to be looked up; one place

	mu              sync.Mutex
	memberAddresses memberAddresses
	memberBuckets   *addressBuckets // by address
	sourceBuckets   *addressBuckets // by source, of strangers
	strangersBucket bucket
	rejectionCount  [originCount]uint64
	unloggedCount   [originCount]uint64 // of these, since the last line of the log
	lastLogged      [originCount]time.Time
}

func newHandshakeLimiter(book *AddressBook) *HandshakeLimiter {
	d := &HandshakeLimiter{
		lookupWanted: make(chan struct{}, 1), memberAddresses: newMemberAddresses(),
		memberBuckets: newAddressBuckets(memberRate, maxSources), sourceBuckets: newAddressBuckets(sourceRate, maxSources),
	}
	book.onChange(d.setServerList)
	return d
}

// setServerList replaces the members whose addresses are known.
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

// Run looks the names in the server list up while connections are refused, at most once in each
// lookupInterval, until ctx ends. A member that comes back with another address is known then. If a name
// cannot be looked up, what it stood for before counts.
func (d *HandshakeLimiter) Run(ctx context.Context, lookup LookupFunc) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.lookupWanted:
		}
		var all sync.WaitGroup // all at the same time, because a name service that hangs takes lookupTimeout for each
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
		return // a member that cannot be dialed either: its link says so
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memberAddresses.setResolved(name, addrs)
}

// Rejections returns how many connections were closed because too many came, by where they came from:
// "members" for the addresses of members, and "others".
func (d *HandshakeLimiter) Rejections() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]uint64, originCount)
	for o := range originCount {
		all[o.String()] = d.rejectionCount[o]
	}
	return all
}

// isMember reports whether an address is a member's.
func (d *HandshakeLimiter) isMember(addr netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.memberAddresses.isMember(addr)
}

// learnAddress records that a member has said a correct hello from addr.
func (d *HandshakeLimiter) learnAddress(member uint32, addr netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memberAddresses.learnAddress(member, addr)
}

// checkAvailable returns nil if a handshake with addr could begin now, or a tooFast.
func (d *HandshakeLimiter) checkAvailable(addr netip.Addr) error { return d.checkLimits(addr, false) }

// takeToken takes the token for a handshake with addr, or returns a tooFast.
func (d *HandshakeLimiter) takeToken(addr netip.Addr) error { return d.checkLimits(addr, true) }

// checkLimits does both. A connection in memory, which has no address, always passes.
func (d *HandshakeLimiter) checkLimits(addr netip.Addr, take bool) error {
	if !addr.IsValid() {
		return nil
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known, source := d.memberAddresses.isMember(addr), sourceOf(addr); {
	case known && !d.memberBuckets.hasToken(addr, now):
		return d.reject(fromMember)
	case known:
		if take {
			d.memberBuckets.takeToken(addr, now)
		}
	case !d.sourceBuckets.hasToken(source, now) || !d.strangersBucket.hasToken(strangersRate, now):
		return d.reject(fromStranger)
	case take:
		d.sourceBuckets.takeToken(source, now)
		d.strangersBucket.takeToken(strangersRate, now)
	}
	return nil
}

// tooFastError is why a connection is refused.
type tooFastError struct{ origin origin }

func (tooFastError) Error() string { return "connections come faster than this member takes them" }

// reject counts a refusal. The caller holds the lock.
func (d *HandshakeLimiter) reject(from origin) error {
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

// logRejection logs a refusal, for each origin at most once in refusalInterval.
func (d *HandshakeLimiter) logRejection(log *slog.Logger, remote string, why tooFastError) {
	d.mu.Lock()
	last, n := d.lastLogged[why.origin], d.unloggedCount[why.origin]
	quiet := !last.IsZero() && time.Since(last) < refusalInterval
	if !quiet {
		d.lastLogged[why.origin], d.unloggedCount[why.origin] = time.Now(), 0
	}
	d.mu.Unlock()
	if !quiet {
		log.Warn("refused connections, because they come faster than this member takes them", "remote", remote, "from", why.origin.String(), "closed", n)
	}
}

// sourceOf returns what counts as one source of strangers.
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
