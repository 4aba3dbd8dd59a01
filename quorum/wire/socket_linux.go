package wire

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not define.
const tcpUserTimeout = 0x12

// limitUnacknowledged makes the kernel end a TCP connection if the other side has not acknowledged sent data,
// or has had no room for it, for d. Other kinds of connections rely on their users' deadlines.
func limitUnacknowledged(conn net.Conn, d time.Duration) {
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
	})
}
