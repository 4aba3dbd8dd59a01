package bench

import (
	"context"
	"crypto/tls"
	"net"
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
	if source := r.nextSource(addr); source != nil {
		d.LocalAddr, d.Control = &net.TCPAddr{IP: source}, choosePortLate
	}
	if r.target.TLS != nil {
		return (&tls.Dialer{NetDialer: d, Config: r.target.TLS}).DialContext(ctx, "tcp", addr)
	}
	return d.DialContext(ctx, "tcp", addr)
}

// nextSource returns the source address of the next connection to a server, or nil if the kernel chooses it. The connections of a
// process take the addresses from 127.0.0.2 on by turns. Without this, one address has 28,000 ports for each server, and counts as
// one client for maxClientCnxns. Only a server on loopback can be reached from them.
func (r *caseRun) nextSource(addr string) net.IP {
	host, _, err := net.SplitHostPort(addr)
	if r.params.Sources <= 1 || err != nil {
		return nil
	}
	server := net.ParseIP(host).To4()
	if server == nil || !server.IsLoopback() {
		return nil
	}
	n := 2 + int(r.dialed.Add(1)-1)%r.params.Sources
	return net.IPv4(127, 0, byte(n>>8), byte(n))
}
