package earlyclose

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// highestNumber limits the numbers of descriptors, because the kernel has a table of 8 bytes for each number up to the
	// highest one in use: 512 KiB. The clients of a process with more open files take higher numbers too.
	highestNumber = 64 << 10
	// places is the number of descriptors that this package uses: connections between members, and those of strangers
	// that have not said hello yet.
	places = 1 << 10
)

// Listen listens at addr (host:port). The connections that it accepts are early ones too. They, and the listener, may
// be used by any number of goroutines.
func Listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	file, ok := move(l.(*net.TCPListener))
	if !ok {
		return l, nil
	}
	_ = l.Close() // its socket is open under the other number
	return &listener{file: file, addr: l.Addr()}, nil
}

// Dial connects to addr (host:port) within ctx.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return moveConn(c.(*net.TCPConn)), nil
}

// move returns a file of the socket with one of the highest numbers, or false if none is free.
func move(socket syscall.Conn) (*os.File, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, false
	}
	lowest := int(min(limit.Cur, highestNumber)) - places
	number := -1
	if cerr := raw.Control(func(fd uintptr) {
		number, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, lowest)
	}); cerr != nil || err != nil {
		return nil, false
	}
	return os.NewFile(uintptr(number), "tcp"), true
}

// moveConn returns c with a high number, or c itself if none is free.
func moveConn(c *net.TCPConn) net.Conn {
	file, ok := move(c)
	if !ok {
		return c
	}
	_ = c.Close() // its socket is open under the other number
	return &conn{file: file, local: c.LocalAddr(), remote: c.RemoteAddr()}
}

// conn is a TCP connection, with the errors of package net.
type conn struct {
	file          *os.File // of the socket
	local, remote net.Addr
	closed        atomic.Bool
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.file.Read(p)
	return n, c.netError("read", err)
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.file.Write(p)
	return n, c.netError("write", err)
}

func (c *conn) Close() error {
	if c.closed.Swap(true) {
		return c.netError("close", net.ErrClosed)
	}
	return c.netError("close", c.file.Close())
}

// SyscallConn implements syscall.Conn.
func (c *conn) SyscallConn() (syscall.RawConn, error) { return c.file.SyscallConn() }

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

func (c *conn) SetDeadline(t time.Time) error { return c.netError("set", c.file.SetDeadline(t)) }

func (c *conn) SetReadDeadline(t time.Time) error {
	return c.netError("set", c.file.SetReadDeadline(t))
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	return c.netError("set", c.file.SetWriteDeadline(t))
}

func (c *conn) netError(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // as io.Reader returns it
		return err
	}
	if errors.Is(err, os.ErrClosed) || c.closed.Load() {
		err = net.ErrClosed
	}
	if named, ok := errors.AsType[*os.PathError](err); ok {
		err = named.Err // without the name of a file
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// listener is a TCP listener.
type listener struct {
	file   *os.File // of the socket
	addr   net.Addr
	closed atomic.Bool
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	for {
		number, err := l.acceptNumber()
		if err != nil {
			if l.closed.Load() {
				err = net.ErrClosed
			}
			return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
		}
		file := os.NewFile(uintptr(number), "tcp")
		c, err := net.FileConn(file) // sets the same options as net.Listener does
		_ = file.Close()             // FileConn has a descriptor of its own
		switch {
		case err != nil:
			return nil, err
		case c.RemoteAddr() == nil: // the peer has reset it already
			_ = c.Close()
		default:
			return moveConn(c.(*net.TCPConn)), nil
		}
	}
}

// acceptNumber waits for the next connection, and returns its descriptor.
func (l *listener) acceptNumber() (number int, err error) {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return -1, err
	}
	if waitErr := raw.Read(func(fd uintptr) (done bool) {
		for {
			number, _, err = syscall.Accept4(int(fd), syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
			switch err {
			case syscall.EINTR, syscall.ECONNABORTED: //nolint:errorlint // a system call's own; the peer has closed it already
				continue
			case syscall.EAGAIN:
				return false
			}
			return true
		}
	}); waitErr != nil {
		return -1, waitErr
	}
	return number, os.NewSyscallError("accept4", err)
}

// Close ends Accept. The connections that were accepted stay.
func (l *listener) Close() error {
	if l.closed.Swap(true) {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	return l.file.Close()
}

func (l *listener) Addr() net.Addr { return l.addr }
