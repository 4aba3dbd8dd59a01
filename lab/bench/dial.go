package bench

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
)

// Dial opens a connection to a server, within ctx.
type Dial func(ctx context.Context, addr string) (net.Conn, error)

// maxSources limits the source addresses: 127.0.0.2 to 127.0.253.x.
const maxSources = 65_000

// dialServer opens a connection to a server, over TLS if the target has it. Safe for concurrent use.
func (r *caseRun) dialServer(ctx context.Context, addr string) (net.Conn, error) {
	if r.target.Dial != nil {
		return r.target.Dial(ctx, addr)
	}
	d := &net.Dialer{}
	if source := r.sources.next(r.params.Sources, addr); source != nil {
		d.LocalAddr, d.Control = &net.TCPAddr{IP: source}, choosePortLate
	}
	if r.target.TLS != nil {
		return (&tls.Dialer{NetDialer: d, Config: r.target.TLS}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// sourceAddresses deals out source addresses. Safe for concurrent use.
type sourceAddresses struct{ dealt atomic.Int64 }

// next returns the source address of the next connection to a server, or nil if the kernel chooses it. The connections of a process
// take count addresses from 127.0.0.2 on by turns. Without this, one address has 28,000 ports for each server, and counts as
// one client for maxClientCnxns. Only a server on loopback can be reached from them.
func (s *sourceAddresses) next(count int, addr string) net.IP {
	host, _, err := net.SplitHostPort(addr)
	if count <= 1 || err != nil {
		return nil
	}
	server := net.ParseIP(host).To4()
	if server == nil || !server.IsLoopback() {
		return nil
	}
	n := 2 + int(s.dealt.Add(1)-1)%count
	return net.IPv4(127, 0, byte(n>>8), byte(n))
}
