package stream

import (
	"io"
	"net"
	"syscall"
)

// PeekFirstByte waits for the first byte that a client sends, and leaves it in the socket. A deadline of the
// socket ends the wait. If sock is not a socket, PeekFirstByte returns 0.
func PeekFirstByte(sock net.Conn) (first byte, err error) {
	s, ok := sock.(syscall.Conn)
	if !ok {
		return 0, nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) (done bool) {
		for {
			n, _, failed = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
			if failed != syscall.EINTR {
				return failed != syscall.EAGAIN
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return b[0], nil
}
