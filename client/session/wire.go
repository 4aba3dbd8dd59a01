package session

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// nonblockingConn is a connection that can also be written to without waiting.
//
// A socket is read and written with system calls that never wait. They bypass Go's scheduler:
// notifying it costs more than the calls, and on a busy machine it would give the goroutine's
// place to others. Only if there is nothing to read, the goroutine waits in Go's poller.
type nonblockingConn struct {
	net.Conn
	raw syscall.RawConn // of Conn; nil if Conn is not a socket
	in  transfer        // belongs to the goroutine that reads
	out transfer        // belongs to the goroutine that writes
}

// transfer is one system call and its outcome.
type transfer struct {
	fdFunc func(fd uintptr) bool // the method read or write, bound once so that a call allocates nothing
	b      []byte
	n      int
	err    error
}

func newNonblockingConn(conn net.Conn) *nonblockingConn {
	w := &nonblockingConn{Conn: conn}
	var socket syscall.Conn
	switch conn := conn.(type) { // not a type around one, such as tls.Conn, which may change the bytes
	case *net.TCPConn:
		socket = conn
	case *net.UnixConn:
		socket = conn
	default:
		return w
	}
	if raw, err := socket.SyscallConn(); err == nil && canCallSockets {
		w.raw = raw
		w.in.fdFunc, w.out.fdFunc = w.in.tryRead, w.out.tryWrite
	}
	return w
}

// Read reads what has arrived. It waits until there is something.
func (w *nonblockingConn) Read(b []byte) (int, error) {
	if w.raw == nil {
		return w.Conn.Read(b)
	}
	w.in.b = b
	if err := w.raw.Read(w.in.fdFunc); err != nil {
		return 0, err
	}
	return w.in.n, w.in.err
}

// write writes b. If it may not wait, it writes only what the socket takes at once. It then returns no
// error: the next write that may wait does.
func (w *nonblockingConn) write(b []byte, wait bool) (int, error) {
	if wait {
		return w.Conn.Write(b)
	}
	if w.raw == nil {
		return 0, nil
	}
	w.out.b, w.out.n = b, 0
	_ = w.raw.Write(w.out.fdFunc) // nothing is written after an error
	return w.out.n, nil
}

// tryRead reports whether there was something to read, or the reason why there never will be.
func (t *transfer) tryRead(fd uintptr) bool {
	var err error
	t.n, err = readNow(int(fd), t.b)
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	t.b, t.err = nil, os.NewSyscallError("read", err)
	if t.n == 0 && err == nil {
		t.err = io.EOF
	}
	return true
}

// tryWrite always returns true, so that nothing waits for room.
func (t *transfer) tryWrite(fd uintptr) bool {
	if n, err := writeNow(int(fd), t.b); err == nil {
		t.n = n
	}
	t.b = nil
	return true
}
