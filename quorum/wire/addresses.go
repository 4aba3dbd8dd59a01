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
	// maxLearntPerMember is how many addresses are remembered from which one member has said hello: it may have one
	// of IPv4 and one of IPv6. They do not expire. A member that has been connected for months must be
	// known when it restarts, and a stranger at its former address gains a bucket of its own, no more.
	maxLearntPerMember = 2
	// maxAddrsPerName is how many addresses of one name count. A member's name has one or two.
	maxAddrsPerName = 16
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

// memberAddresses are those from which members connect. They are not safe for concurrent use.
type memberAddresses struct {
	listedAddrs   map[netip.Addr]bool     // in the server list
	hostNames     []string                // the host names in it
	resolvedNames map[string][]netip.Addr // what the names stood for when they were last looked up
	learntFrom    map[uint32][]netip.Addr // by member: where its last hellos came from, the newest first
}

func newMemberAddresses() memberAddresses {
	return memberAddresses{resolvedNames: map[string][]netip.Addr{}, learntFrom: map[uint32][]netip.Addr{}}
}

// setServerList replaces the server list. What the names that stay stood for is kept.
func (a *memberAddresses) setServerList(peers []Peer) {
	a.listedAddrs, a.hostNames = map[netip.Addr]bool{}, nil
	for _, host := range hostsOf(peers) {
		if ip, err := netip.ParseAddr(host); err == nil {
			a.listedAddrs[ip.Unmap()] = true
		} else if !slices.Contains(a.hostNames, host) {
			a.hostNames = append(a.hostNames, host)
		}
	}
	maps.DeleteFunc(a.resolvedNames, func(host string, _ []netip.Addr) bool { return !slices.Contains(a.hostNames, host) })
	maps.DeleteFunc(a.learntFrom, func(id uint32, _ []netip.Addr) bool {
		return !slices.ContainsFunc(peers, func(p Peer) bool { return p.ID == id })
	})
}

// isMember reports whether addr is a member's: it is in the server list, a name there stood for it when it was
// last looked up, or a member has said a correct hello from it.
func (a *memberAddresses) isMember(addr netip.Addr) bool {
	if a.listedAddrs[addr] {
		return true
	}
	for _, of := range a.learntFrom {
		if slices.Contains(of, addr) {
			return addr.IsValid()
		}
	}
	for _, of := range a.resolvedNames {
		if slices.Contains(of, addr) {
			return true
		}
	}
	return false
}

// learnAddress records that a member has said a correct hello from addr.
func (a *memberAddresses) learnAddress(member uint32, addr netip.Addr) {
	known := slices.DeleteFunc(a.learntFrom[member], func(other netip.Addr) bool { return other == addr })
	known = slices.Insert(known, 0, addr)
	a.learntFrom[member] = known[:min(len(known), maxLearntPerMember)]
}

// setResolved records what a name stands for.
func (a *memberAddresses) setResolved(host string, addrs []netip.Addr) {
	addrs = slices.Clone(addrs[:min(len(addrs), maxAddrsPerName)])
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	a.resolvedNames[host] = addrs
}

func remoteIP(conn net.Conn) netip.Addr {
	ap, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}
