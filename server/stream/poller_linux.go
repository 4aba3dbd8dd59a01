package stream

import (
	"errors"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// errWouldBlock is the error of a call that would have to wait.
const errWouldBlock = syscall.EAGAIN

// poller is an epoll instance. Go's own poller watches it like a socket. A goroutine that waits therefore
// holds no thread, and wakes once for events at many sockets.
type poller struct {
	file      *os.File
	raw       syscall.RawConn // the raw form of file
	fd        int             // file's descriptor
	events    [maxLoopEvents]syscall.EpollEvent
	numEvents int // of events
	numPolls  int // since waitEvents was called
	pollFunc  func(uintptr) bool
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = syscall.SetNonblock(fd, true) // so that os.NewFile gives it to Go's poller; never fails
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), fd: fd}
	p.pollFunc = p.pollNow
	if p.raw, err = p.file.SyscallConn(); err == nil {
		err = p.file.SetDeadline(time.Time{}) // fails unless Go's poller watches it
	}
	if err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// add registers fd. Until it is removed, waitEvents reports it when there is something to read.
func (p *poller) add(fd int) error {
	ev := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_ADD, fd, &ev))
}

func (p *poller) remove(fd int) {
	_ = syscall.EpollCtl(p.fd, syscall.EPOLL_CTL_DEL, fd, new(syscall.EpollEvent)) // it is there
}

// waitEvents waits for events, and returns the number of sockets with some. n is 0 if the poller is closed.
// waited reports whether the call had to wait.
func (p *poller) waitEvents() (n int, waited bool) {
	p.numPolls = 0
	if p.raw.Read(p.pollFunc) != nil {
		return 0, false
	}
	return p.numEvents, p.numPolls > 1
}

func (p *poller) pollNow(fd uintptr) (seen bool) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, fd, uintptr(unsafe.Pointer(&p.events)), maxLoopEvents, 0,
		0, 0)
	p.numPolls++
	if p.numEvents = int(n); errno != 0 {
		p.numEvents = 0
	}
	return p.numEvents > 0
}

// socketAt returns the i-th socket that waitEvents has reported.
func (p *poller) socketAt(i int) (fd int) { return int(p.events[i].Fd) }

func (p *poller) close() { _ = p.file.Close() }

// readSocket reads without waiting. It does not announce the system call to Go's scheduler, because the call
// never waits. The announcement would cost more than the copying, and it wakes sysmon in a process that was
// idle.
func readSocket(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writeSocket writes without waiting; see readSocket.
func writeSocket(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// writeLast is writeSocket for bytes that shutdownWrite follows: the kernel sends both in one segment.
func writeLast(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), msgMore|syscall.MSG_NOSIGNAL, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// msgMore is MSG_MORE of Linux, which package syscall lacks: the kernel may wait for more bytes.
const msgMore = 0x8000

// dupSocket returns another descriptor of a socket, which Go's poller does not know.
func dupSocket(raw syscall.RawConn) (fd int, err error) {
	controlled := raw.Control(func(old uintptr) {
		n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, old, syscall.F_DUPFD_CLOEXEC, 0)
		if fd = int(n); errno != 0 {
			err = os.NewSyscallError("fcntl", errno)
		}
	})
	return fd, errors.Join(controlled, err)
}

func closeSocket(fd int) { _ = syscall.Close(fd) }

// hangUpSocket ends the connection, and keeps the descriptor.
func hangUpSocket(fd int) { _ = syscall.Shutdown(fd, syscall.SHUT_RDWR) }

// shutdownWrite closes the sending side, and keeps the descriptor.
func shutdownWrite(fd int) { _ = syscall.Shutdown(fd, syscall.SHUT_WR) }

// fileSocket is a socket that is in no loop. Go's poller watches it.
type fileSocket struct{ *os.File }

func newFileSocket(fd int) fileSocket { return fileSocket{os.NewFile(uintptr(fd), "socket")} }

// CloseWrite closes the sending side.
func (s fileSocket) CloseWrite() error {
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	controlled := raw.Control(func(fd uintptr) { err = syscall.Shutdown(int(fd), syscall.SHUT_WR) })
	return errors.Join(controlled, err)
}
