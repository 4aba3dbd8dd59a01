package stream

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// socket is the part of net.Conn that a stream uses.
type socket interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// rawOf returns the socket for writeNow. It returns nil if sock is not a socket, as in tests, or is wrapped,
// as by TLS.
func rawOf(sock socket) syscall.RawConn {
	switch sock.(type) {
	case *net.TCPConn, fileSocket:
	default:
		return nil
	}
	raw, err := sock.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil // closed: the next write returns the error
	}
	return raw
}

// writeNow writes as much of b as the socket takes without waiting, and returns the number of bytes. An
// ordinary write does the rest or returns the error.
func writeNow(raw syscall.RawConn, b []byte) int {
	w := socketWritePool.Get().(*socketWrite)
	w.b, w.n = b, 0
	_ = raw.Write(w.writeFunc) // then nothing was written
	n := w.n
	w.b = nil
	socketWritePool.Put(w)
	return n
}

// socketWrite is one write that does not wait. Values are pooled together with their functions, so that none
// is allocated.
type socketWrite struct {
	b         []byte
	n         int
	writeFunc func(fd uintptr) bool
}

var socketWritePool = sync.Pool{New: func() any {
	w := new(socketWrite)
	w.writeFunc = w.writeOnce
	return w
}}

func (w *socketWrite) writeOnce(fd uintptr) (done bool) {
	if n, err := writeSocket(int(fd), w.b); err == nil {
		w.n = n
	}
	return true // also if the socket is full, because this write must not wait
}
