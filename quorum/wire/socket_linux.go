package wire

import (
	"net"
	"syscall"
	"time"
)

// Options of TCP that package syscall does not define.
const (
	tcpThinLinearTimeouts = 0x10 // TCP_THIN_LINEAR_TIMEOUTS
	tcpUserTimeout        = 0x12 // TCP_USER_TIMEOUT
)

// setSocketOptions makes the kernel end a TCP connection if the other side has not acknowledged sent data,
// or has had no room for it, for d. It also makes the first six timeouts after which the kernel sends lost packets again
// equally long while fewer than four packets are under way, as on a connection with a request and a reply now and then. By
// default each timeout is twice as long as the last one, and the network that loses packets would make members wait for
// seconds. Other kinds of connections rely on their users' deadlines.
func setSocketOptions(conn net.Conn, d time.Duration) {
	if wrapper, ok := conn.(interface{ NetConn() net.Conn }); ok { // TLS
		conn = wrapper.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return // it has ended
	}
	_ = raw.Control(func(fd uintptr) {
		// an old kernel does without
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpThinLinearTimeouts, 1)
	})
}
