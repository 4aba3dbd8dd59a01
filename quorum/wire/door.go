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
	memberRate = rate{each: time.Second / 100, burst: 200}
	// sourceRate is for each other address: those of a member that is not known yet, which opens a few.
	sourceRate = rate{each: time.Second / 5, burst: 20}
	// strangersRate is for all other addresses together.
	strangersRate = rate{each: time.Second / 20, burst: maxHandshakes}
)

const (
	// maxSources is how many addresses of each kind have a bucket of their own, of some 200 bytes. More of
	// them take turns, and strangersRate bounds them all the same.
	maxSources = 1024
	// sourceBits is how much of an IPv6 address counts as one: whoever has one address of a network
	// usually has all of it.
	sourceBits = 64
)

// origin is the kind of an address that connections come from.
type origin int

const (
	fromStranger origin = iota
	fromMember
	origins // number of kinds
)

func (o origin) String() string { return [origins]string{"others", "members"}[o] }

// Door bounds how many TLS handshakes the ports of a member do for connections that have proved nothing.
// Members' addresses have buckets of tokens of their own, which strangers at other addresses cannot empty.
// Silent connections take no tokens: maxHandshakes bounds them. It is safe for concurrent use.
type Door struct {
	wanted chan struct{} // the names are to be looked up; one place

	mu        sync.Mutex
	addresses addresses
	members   *buckets // by address
	sources   *buckets // by source, of strangers
	strangers bucket
	refused   [origins]uint64
	unlogged  [origins]uint64 // of these, since the last line of the log
	logged    [origins]time.Time
}

func newDoor(book *Book) *Door {
	d := &Door{
		wanted: make(chan struct{}, 1), addresses: newAddresses(),
		members: newBuckets(memberRate, maxSources), sources: newBuckets(sourceRate, maxSources),
	}
	book.onChange(d.list)
	return d
}

// list replaces the members whose addresses are known.
func (d *Door) list(peers []Peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addresses.list(peers)
}

func (d *Door) names() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.addresses.names)
}

// Run looks the names in the server list up while connections are refused, at most once in each
// lookupInterval, until ctx ends. A member that comes back with another address is known then. If a name
// cannot be looked up, what it stood for before counts.
func (d *Door) Run(ctx context.Context, lookup LookupFunc) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.wanted:
		}
		var all sync.WaitGroup // all at the same time, because a name service that hangs takes lookupTimeout for each
		for _, name := range d.names() {
			all.Go(func() { d.lookUp(ctx, lookup, name) })
		}
		all.Wait()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookupInterval):
		}
	}
}

func (d *Door) lookUp(ctx context.Context, lookup LookupFunc, name string) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := lookup(ctx, name)
	if err != nil {
		return // a member that cannot be dialed either: its link says so
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addresses.name(name, addrs)
}

// Refused returns how many connections were closed because too many came, by where they came from:
// "members" for the addresses of members, and "others".
func (d *Door) Refused() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make(map[string]uint64, origins)
	for o := range origins {
		all[o.String()] = d.refused[o]
	}
	return all
}

// isMember reports whether an address is a member's.
func (d *Door) isMember(addr netip.Addr) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.addresses.has(addr)
}

// learn records that a member has said a correct hello from addr.
func (d *Door) learn(member uint32, addr netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.addresses.learn(member, addr)
}

// open returns nil if a handshake with addr could begin now, or a tooFast.
func (d *Door) open(addr netip.Addr) error { return d.pass(addr, false) }

// begin takes the token for a handshake with addr, or returns a tooFast.
func (d *Door) begin(addr netip.Addr) error { return d.pass(addr, true) }

// pass does both. A connection in memory, which has no address, always passes.
func (d *Door) pass(addr netip.Addr, take bool) error {
	if !addr.IsValid() {
		return nil
	}
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch known, source := d.addresses.has(addr), sourceOf(addr); {
	case known && !d.members.has(addr, now):
		return d.refuse(fromMember)
	case known:
		if take {
			d.members.take(addr, now)
		}
	case !d.sources.has(source, now) || !d.strangers.has(strangersRate, now):
		return d.refuse(fromStranger)
	case take:
		d.sources.take(source, now)
		d.strangers.take(strangersRate, now)
	}
	return nil
}

// tooFast is why a connection is refused.
type tooFast struct{ from origin }

func (tooFast) Error() string { return "connections come faster than this member takes them" }

// refuse counts a refusal. The caller holds the lock.
func (d *Door) refuse(from origin) error {
	d.refused[from]++
	d.unlogged[from]++
	if from == fromStranger { // it may be a member with a new address
		select {
		case d.wanted <- struct{}{}:
		default:
		}
	}
	return tooFast{from}
}

// log logs a refusal, for each origin at most once in refusalInterval.
func (d *Door) log(log *slog.Logger, remote string, why tooFast) {
	d.mu.Lock()
	last, n := d.logged[why.from], d.unlogged[why.from]
	quiet := !last.IsZero() && time.Since(last) < refusalInterval
	if !quiet {
		d.logged[why.from], d.unlogged[why.from] = time.Now(), 0
	}
	d.mu.Unlock()
	if !quiet {
		log.Warn("refused connections, because they come faster than this member takes them", "remote", remote, "from", why.from.String(), "closed", n)
	}
}

// sourceOf returns what counts as one source of strangers.
func sourceOf(addr netip.Addr) netip.Addr {
	if addr.Is4() {
		return addr
	}
	network, err := addr.Prefix(sourceBits)
	if err != nil {
		return addr
	}
	return network.Addr()
}
