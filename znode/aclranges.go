package znode

import (
	"bytes"
	"net/netip"
	"slices"
	"sort"

	"rollcall/zk/jute"
)

// addressRange is a range of addresses of one family to which a list grants the same permissions. It ends before the next one.
type addressRange struct {
	from  [16]byte
	perms uint8 // of jute.PermAll
}

// addressGrant is an ip entry, while a list is made.
type addressGrant struct {
	network netip.Prefix // masked
	perms   uint8
}

// permsOfAddress returns the permissions of an address without a zone. The cost is a binary search, however many entries have the address.
func (a *acl) permsOfAddress(addr netip.Addr) jute.Perm {
	ranges := a.ipv6
	if addr.Is4() {
		ranges = a.ipv4
	}
	if len(ranges) == 0 || !addr.IsValid() {
		return 0
	}
	key := addr.As16()
	after := sort.Search(len(ranges), func(i int) bool { return bytes.Compare(ranges[i].from[:], key[:]) > 0 })
	if after == 0 {
		return 0
	}
	return jute.Perm(ranges[after-1].perms)
}

// setRanges makes the ranges of both families. There are at most twice as many as grants, whose order it changes.
func (a *acl) setRanges(grants []addressGrant) {
	slices.SortFunc(grants, func(x, y addressGrant) int {
		if c := x.network.Addr().Compare(y.network.Addr()); c != 0 { // IPv4 is first
			return c
		}
		return x.network.Bits() - y.network.Bits()
	})
	first := slices.IndexFunc(grants, func(g addressGrant) bool { return g.network.Addr().Is6() })
	if first < 0 {
		first = len(grants)
	}
	a.ipv4, a.ipv6 = rangesOf(grants[:first]), rangesOf(grants[first:])
}

// openNetwork is a network whose end has not been reached.
type openNetwork struct {
	next  [16]byte // the first address after it
	last  bool     // there is none
	perms uint8    // of its addresses, with those of the networks around it
}

// rangesOf returns the ranges of grants of one family, in the order of their addresses. One of two networks is within the other, or they
// have no address in common.
func rangesOf(grants []addressGrant) (ranges []addressRange) {
	var open []openNetwork
	perms := func() uint8 {
		if len(open) == 0 {
			return 0
		}
		return open[len(open)-1].perms
	}
	closeUpTo := func(isOver func(openNetwork) bool) {
		for len(open) > 0 && isOver(open[len(open)-1]) {
			ended := open[len(open)-1]
			if open = open[:len(open)-1]; !ended.last {
				ranges = appendRange(ranges, addressRange{ended.next, perms()})
			}
		}
	}
	for _, g := range grants {
		from := g.network.Addr().As16()
		closeUpTo(func(n openNetwork) bool { return !n.last && bytes.Compare(n.next[:], from[:]) <= 0 })
		next, last := addressAfter(g.network)
		open = append(open, openNetwork{next, last, perms() | g.perms})
		ranges = appendRange(ranges, addressRange{from, perms()})
	}
	closeUpTo(func(openNetwork) bool { return true })
	return slices.Clone(ranges) // without the room that was left to append
}

// appendRange appends a range that does not begin before the last one. It takes the place of one that begins at the same address.
func appendRange(ranges []addressRange, r addressRange) []addressRange {
	if n := len(ranges); n > 0 && ranges[n-1].from == r.from {
		ranges = ranges[:n-1]
	}
	if n := len(ranges); n > 0 && ranges[n-1].perms == r.perms {
		return ranges
	}
	return append(ranges, r)
}

// addressAfter returns the first address after a network, or reports that it has the last one of its family.
func addressAfter(network netip.Prefix) (next [16]byte, last bool) {
	next = network.Addr().As16()
	first, bits := 0, network.Bits() // the bytes that count, and the bits of all of them
	if network.Addr().Is4() {
		first, bits = 12, bits+96
	}
	carry := 1 << ((128 - bits) % 8)
	for i := (bits+7)/8 - 1; i >= first; i-- {
		carry += int(next[i])
		next[i] = byte(carry)
		if carry >>= 8; carry == 0 {
			return next, false
		}
	}
	return next, true
}
