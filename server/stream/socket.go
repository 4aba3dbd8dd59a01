package stream

import (
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// socket is what a stream needs of a net.Conn.
type socket interface {
	io.ReadWriteCloser
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

// rawOf returns a socket for writeNow; nil if it is none, as in tests, or more than one, as
// with TLS.
func rawOf(sock socket) syscall.RawConn {
	switch sock.(type) {
	case *net.TCPConn, fileSocket:
	default:
		return nil
	}
	raw, err := sock.(syscall.Conn).SyscallConn()
	if err != nil {
		return nil // closed: so the next write says
	}
	return raw
}

// writeNow writes as much of b as the socket takes without waiting, and returns how much
// that was. If it is not all, a write that waits does the rest, or says what is wrong.
func writeNow(raw syscall.RawConn, b []byte) int {
	w := writes.Get().(*write)
	w.b, w.n = b, 0
	_ = raw.Write(w.do) // then nothing was written
	n := w.n
	w.b = nil
	writes.Put(w)
	return n
}

// write is one write that does not wait. They are pooled with their function, so that none
// is allocated.
type write struct {
	b  []byte
	n  int
	do func(fd uintptr) bool
}

var writes = sync.Pool{New: func() any {
	w := new(write)
	w.do = w.once
	return w
}}

func (w *write) once(fd uintptr) (done bool) {
	if n, err := writeSocket(int(fd), w.b); err == nil {
		w.n = n
	}
	return true // also if the socket is full: nobody waits here
}
