package view

import (
	"net"
	"net/netip"
)

// ClientFilter selects the clients at one address. The zero value selects all.
type ClientFilter struct {
	hostPort string     // host:port
	host     netip.Addr // without a port
}

// NewClientFilter parses a host or host:port. An empty text selects all clients.
func NewClientFilter(text string) ClientFilter {
	if host, err := netip.ParseAddr(text); err == nil {
		return ClientFilter{host: host.Unmap().WithZone("")}
	}
	if at, err := netip.ParseAddrPort(text); err == nil {
		return ClientFilter{hostPort: netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String()}
	}
	return ClientFilter{hostPort: text}
}

// Matches reports whether the filter selects a client's address, host:port.
func (f ClientFilter) Matches(address string) bool {
	if f == (ClientFilter{}) {
		return true
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil { // not TCP
		host, _, _ := net.SplitHostPort(address)
		return f.hostPort == address || f.hostPort == host && host != ""
	}
	if f.host.IsValid() {
		return at.Addr().Unmap().WithZone("") == f.host
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).String() == f.hostPort
}
