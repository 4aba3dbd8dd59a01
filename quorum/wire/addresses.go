package wire

import (
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// maxLearnt is how many addresses are remembered from which one member has said hello: it may have one
	// of IPv4 and one of IPv6. They do not expire. A member that has been connected for months must be
	// known when it restarts, and a stranger at its former address gains a bucket of its own, no more.
	maxLearnt = 2
	// maxNamed is how many addresses of one name count. A member's name has one or two.
	maxNamed = 16
	// lookupInterval is the least time between two looks at the names, and lookupTimeout how long a look
	// at one of them may take.
	lookupInterval = 5 * time.Second
	lookupTimeout  = 5 * time.Second
)

// LookupFunc returns the addresses of a host name.
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// LookupSystem is the LookupFunc that asks the system's resolver.
func LookupSystem(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// addresses are those from which members connect. They are not safe for concurrent use.
type addresses struct {
	listed map[netip.Addr]bool     // in the server list
	names  []string                // the host names in it
	named  map[string][]netip.Addr // what the names stood for when they were last looked up
	learnt map[uint32][]netip.Addr // by member: where its last hellos came from, the newest first
}

func newAddresses() addresses {
	return addresses{named: map[string][]netip.Addr{}, learnt: map[uint32][]netip.Addr{}}
}

// list replaces the server list. What the names that stay stood for is kept.
func (a *addresses) list(peers []Peer) {
	a.listed, a.names = map[netip.Addr]bool{}, nil
	for _, host := range hosts(peers) {
		if ip, err := netip.ParseAddr(host); err == nil {
			a.listed[ip.Unmap()] = true
		} else if !slices.Contains(a.names, host) {
			a.names = append(a.names, host)
		}
	}
	maps.DeleteFunc(a.named, func(host string, _ []netip.Addr) bool { return !slices.Contains(a.names, host) })
	maps.DeleteFunc(a.learnt, func(id uint32, _ []netip.Addr) bool {
		return !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == id })
	})
}

// has reports whether addr is a member's: it is in the server list, a name there stood for it when it was
// last looked up, or a member has said a correct hello from it.
func (a *addresses) has(addr netip.Addr) bool {
	if a.listed[addr] {
		return true
	}
	for _, of := range a.learnt {
		if slices.Contains(of, addr) {
			return addr.IsValid()
		}
	}
	for _, of := range a.named {
		if slices.Contains(of, addr) {
			return true
		}
	}
	return false
}

// learn records that a member has said a correct hello from addr.
func (a *addresses) learn(member uint32, addr netip.Addr) {
	known := slices.DeleteFunc(a.learnt[member], func(other netip.Addr) bool { return other == addr })
	known = slices.Insert(known, 0, addr)
	a.learnt[member] = known[:min(len(known), maxLearnt)]
}

// name records what a name stands for.
func (a *addresses) name(host string, addrs []netip.Addr) {
	addrs = slices.Clone(addrs[:min(len(addrs), maxNamed)])
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	a.named[host] = addrs
}

func remoteIP(conn net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
