//go:build !linux

package earlyclose

import (
	"context"
	"net"
)

// Listen listens at addr (host:port). The order in which this system closes sockets is not known.
func Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// Dial connects to addr (host:port) within ctx. The order in which this system closes sockets is not known.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", addr)
}
