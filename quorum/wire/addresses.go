package wire

import (
	"context"
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

func newAddresses(peers []Peer) addresses {
	a := addresses{listed: map[netip.Addr]bool{}, named: map[string][]netip.Addr{}, learnt: map[uint32][]netip.Addr{}}
	for _, p := range peers {
		host, _, err := net.SplitHostPort(p.Addr)
		if err != nil {
			continue // CheckPeers refuses it
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			a.listed[ip.Unmap()] = true
		} else if !slices.Contains(a.names, host) {
			a.names = append(a.names, host)
		}
	}
	return a
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
