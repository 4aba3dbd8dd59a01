package session

import (
	"syscall"
	"unsafe"
)

// canCallSockets reports whether sockets are read and written by system calls: see nonblockingConn.
const canCallSockets = true

// readNow reads from a socket that does not wait.
func readNow(fd int, b []byte) (int, error) { return callNow(syscall.SYS_READ, fd, b) }

// writeNow writes to a socket that does not wait.
func writeNow(fd int, b []byte) (int, error) { return callNow(syscall.SYS_WRITE, fd, b) }

// callNow makes a system call without notifying Go's scheduler.
func callNow(number uintptr, fd int, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}
