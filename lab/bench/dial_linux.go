package bench

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// choosePortLate lets the kernel choose a socket's port when it connects. Otherwise it chooses one when the socket gets its source
// address, and no two connections from that address then have the same port, to whatever server.
func choosePortLate(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	})
	return errors.Join(err, failed)
}
