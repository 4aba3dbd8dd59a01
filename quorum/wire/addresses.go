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
	// maxLearntPerMember bounds the source addresses remembered per member: it may have one of IPv4 and one
	// of IPv6. They do not expire, because a member that has been connected for months must be recognized
	// when it restarts. A stranger at its former address gains no more than a bucket of its own.
	maxLearntPerMember = 2
	// maxAddrsPerName bounds the addresses that count for one name. A member's name has one or two.
	maxAddrsPerName = 16
	// lookupInterval is the minimum time between two rounds of lookups, and lookupTimeout bounds one lookup.
	lookupInterval = 5 * time.Second
	lookupTimeout  = 5 * time.Second
)

// LookupFunc returns the addresses of a host name.
type LookupFunc func(ctx context.Context, host string) ([]netip.Addr, error)

// LookupSystem is the LookupFunc of the system's resolver.
func LookupSystem(ctx context.Context, host string) ([]netip.Addr, error) {
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
}

// memberAddresses are the addresses that members connect from. It is not safe for concurrent use.
type memberAddresses struct {
	listedAddrs   map[netip.Addr]bool     // in the server list
	hostNames     []string                // in the server list
	resolvedNames map[string][]netip.Addr // result of the last lookup, by host name
	learntFrom    map[uint32][]netip.Addr // sources of correct hellos, by member, newest first
}

func newMemberAddresses() memberAddresses {
	return memberAddresses{resolvedNames: map[string][]netip.Addr{}, learntFrom: map[uint32][]netip.Addr{}}
}

// setServerList keeps the resolved addresses of names that stay in the list.
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

// isMember reports whether addr is in the server list, was in the last lookup of a listed name, or has sent a
// member's correct hello.
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

func (a *memberAddresses) learnAddress(member uint32, addr netip.Addr) {
	known := slices.DeleteFunc(a.learntFrom[member], func(other netip.Addr) bool { return other == addr })
	known = slices.Insert(known, 0, addr)
	a.learntFrom[member] = known[:min(len(known), maxLearntPerMember)]
}

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
