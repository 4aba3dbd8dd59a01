package session

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
)

// dialDefault connects to host:port by TCP, or to the Unix socket of unix: and a path. It resolves the name of the
// host.
func dialDefault(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	if isUnix(addr) {
		return d.DialContext(ctx, "unix", strings.TrimPrefix(addr, unixPrefix))
	}
	return d.DialContext(ctx, "tcp", addr)
}

// A lookup of SRV records may take a lookupShare-th of the session's timeout, so that two servers can be tried after
// it.
const lookupShare = 3

// dial connects to a server, and does the handshake of TLS. Any goroutine may call it.
func (r *reader) dial(ctx context.Context, addr string) (net.Conn, error) {
	cfg := &r.c.cfg
	conn, err := cfg.Dial(ctx, addr)
	if err != nil || cfg.TLS == nil || isUnix(addr) {
		return conn, err
	}
	settings := cfg.TLS
	if settings.ServerName == "" {
		settings = settings.Clone()
		if settings.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			settings.ServerName = addr // of a Dial that takes other addresses
		}
	}
	secured := tls.Client(conn, settings)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secured, nil
}
