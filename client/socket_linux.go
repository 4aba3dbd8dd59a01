package client

import (
	"context"
	"io"
	"sync"
	"syscall"
	"unsafe"
)

// socket is a connection that never blocks and that Go's poller does not know. Close ends the
// connection but keeps the descriptor open for calls that read or write. When there are none any
// more, free closes the descriptor.
type socket struct {
	fd int

	mu    sync.Mutex // guards the descriptor against being closed while in use
	freed bool
}

// adopt makes the link's connection a socket. If that fails it returns false, and the connection is
// unchanged or closed. Nothing may read meanwhile. A write that is running is waited for.
func (l *link) adopt() bool {
	conn, ok := l.conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for l.writing {
		l.idle.Wait()
	}
	s := &socket{fd: -1}
	err = raw.Control(func(fd uintptr) {
		dup, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
		if errno == 0 {
			s.fd = int(dup)
		}
	})
	if err != nil || s.fd < 0 {
		return false
	}
	if !l.forget() { // the Client has ended and closes conn
		s.free()
		return false
	}
	_ = l.conn.Close() // closes this descriptor, not the connection
	l.conn, l.looped = s, true
	l.forget = context.AfterFunc(c.ctx, func() { _ = s.Close() })
	return true
}

// Read reads what has arrived, without blocking.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.call(syscall.SYS_READ, b)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// Write writes as much as there is room for, without blocking.
func (s *socket) Write(b []byte) (int, error) {
	n, err := s.call(syscall.SYS_WRITE, b)
	if n < len(b) && err == nil {
		err = errNotNow
	}
	return n, err
}

// call reads or writes with a raw system call, without telling Go's scheduler. The call does not
// block; the scheduler would only look for another thread if the kernel takes longer than 20 µs.
func (s *socket) call(number uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, errNotNow
		default:
			return 0, errno
		}
	}
}

// Close ends the connection; its reader sees the end of the stream.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed {
		return nil
	}
	return syscall.Shutdown(s.fd, syscall.SHUT_RDWR)
}

// free closes the descriptor. No call may read or write any more.
func (s *socket) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freed = true
	_ = syscall.Close(s.fd)
}
