package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Calls sends certain system calls of a process to a handler in the test, before the kernel does them. The handler decides
// what comes of each. It uses seccomp's user notifications, which need neither root nor a file system of their own.
type Calls struct {
	Binary string   // starts the binary that NewCalls was given, with its arguments
	Env    []string // variables that Binary needs
}

// The variables in Calls.Env.
const (
	callsSocket  = "ROLLCALL_CALLS_SOCKET"  // path of the socket on which Calls waits
	callsBinary  = "ROLLCALL_CALLS_BINARY"  // path of the binary to become
	callsNumbers = "ROLLCALL_CALLS_NUMBERS" // of the system calls, with commas between them
	callsFlags   = "ROLLCALL_CALLS_FLAGS"   // of seccomp
)

// Uninterrupted is a flag for NewCalls. Once a handler has a call, only a signal that kills the process interrupts the call.
// Without the flag, any signal interrupts it, and the kernel makes the process call again. The Go runtime sends signals
// all the time. The flag needs Linux 5.19.
const Uninterrupted = unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// NewCalls sends the calls with these numbers to handle, for one process at a time that runs binary. handle gets one call at a
// time. It, or something later, must finish each call. The tests must be run by Main: Calls.Binary is the test
// binary, in which Main sets the notifications up and executes binary. ended is called when a process has ended. From then on
// its calls must not be used.
func NewCalls(t *testing.T, binary string, flags int, numbers []int, handle func(*Call), ended func()) Calls {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "calls")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = strconv.Itoa(n)
	}
	served := make(chan error, 1)
	go func() { served <- serveCalls(l, handle, ended) }()
	t.Cleanup(func() { // the process, which was started after this, has ended
		_ = l.Close()
		if err := <-served; err != nil {
			t.Errorf("system calls: %v", err)
		}
	})
	return Calls{Binary: self, Env: []string{
		callsSocket + "=" + socket, callsBinary + "=" + binary,
		callsNumbers + "=" + strings.Join(texts, ","), callsFlags + "=" + strconv.Itoa(flags),
	}}
}

// serveCalls answers the kernel for one process after the other, until l is closed.
func serveCalls(l *net.UnixListener, handle func(*Call), ended func()) error {
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		listener, err := receiveDescriptor(conn)
		if err := errors.Join(err, conn.Close()); err != nil {
			return err
		}
		err = receiveCalls(listener, handle)
		ended()
		if err := errors.Join(err, unix.Close(listener)); err != nil {
			return err
		}
	}
}

// receiveCalls hands the calls of a process over until it has ended.
func receiveCalls(listener int, handle func(*Call)) error {
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			if ready[0].Revents&unix.POLLHUP != 0 {
				return nil
			}
			continue
		}
		var n notifyRequest
		err := ioctlPointer(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			continue // a signal has interrupted the call, and the kernel restarts it
		}
		if err != nil {
			return fmt.Errorf("receive a notification: %w", err)
		}
		handle(&Call{Number: int(n.call.number), Thread: int(n.pid), Args: n.call.args, id: n.id, listener: listener})
	}
}

// Call is one system call, which waits until Continue, Return or ReturnFile. The process may end before; then these do nothing.
type Call struct {
	Number int
	Thread int // id of the thread that calls; /proc has a directory of this name
	Args   [6]uint64

	id       uint64
	listener int
}

// Continue lets the kernel do the call. An error means that the call no longer waits. Its process has
// ended, or a signal has interrupted the call, and the kernel restarts it and notifies again.
func (c *Call) Continue() {
	c.sendResponse(notifyResponse{id: c.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// ReturnValue ends the call, which the kernel does not do, with an error, or if that is 0, with value.
func (c *Call) ReturnValue(value int64, err syscall.Errno) {
	r := notifyResponse{id: c.id, value: value, errno: -int32(err)}
	if err != 0 {
		r.value = 0
	}
	c.sendResponse(r)
}

func (c *Call) sendResponse(r notifyResponse) {
	_ = ioctlPointer(c.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// ReturnFile gives the process the open file fd of this process, and ends the call with its new number there. It will be
// closed when the process executes another binary. The kernel does both in one step, too (SECCOMP_ADDFD_FLAG_SEND). But if a signal
// interrupts this thread in that step, the process can get the number 0 and no file.
func (c *Call) ReturnFile(fd int) {
	a := addFileRequest{id: c.id, from: uint32(fd), newFlags: unix.O_CLOEXEC}
	number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&a)))
	c.ReturnValue(int64(number), errno)
}

// ReadMemory returns n bytes of the process's memory.
func (c *Call) ReadMemory(at uint64, n int) ([]byte, error) {
	b := make([]byte, n)
	if n == 0 {
		return b, nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(n)
	got, err := unix.ProcessVMReadv(c.Thread, local, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err != nil {
		return nil, fmt.Errorf("read %d bytes of a process: %w", n, err)
	}
	return b[:got], nil
}

// ReadText returns the text at an address, up to its zero byte.
func (c *Call) ReadText(at uint64) (string, error) {
	const page = 4096 // the longest path; what follows a page may not be readable
	var text []byte
	for len(text) < page {
		b, err := c.ReadMemory(at, page-int(at%page))
		if err != nil {
			return "", err
		}
		if head, _, ends := strings.Cut(string(b), "\x00"); ends {
			return string(text) + head, nil
		}
		text, at = append(text, b...), at+uint64(len(b))
	}
	return "", errors.New("a path of a process has no end")
}

// notifyRequest is the kernel's struct seccomp_notif.
type notifyRequest struct {
	id         uint64
	pid, flags uint32
	call       struct {
		number int32
		arch   uint32
		at     uint64
		args   [6]uint64
	}
}

// notifyResponse is the kernel's struct seccomp_notif_resp.
type notifyResponse struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

// addFileRequest is the kernel's struct seccomp_notif_addfd.
type addFileRequest struct {
	id                    uint64
	flags                 uint32
	from, place, newFlags uint32
}

func ioctlPointer(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// receiveDescriptor returns the descriptor that the other side sends.
func receiveDescriptor(conn *net.UnixConn) (int, error) {
	control := make([]byte, unix.CmsgSpace(4)) // one descriptor
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), control)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	if len(messages) != 1 {
		return -1, fmt.Errorf("%d control messages, want 1 with a descriptor", len(messages))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return -1, err
	}
	return fds[0], nil // the kernel sends no message without one
}

// IsWrapped reports whether this process was started as Calls.Binary, and has not become the binary of the Calls yet.
func IsWrapped() bool { return os.Getenv(callsSocket) != "" }

// runWithCalls gives the Calls that wait on socket a listener for this process, and executes their
// binary. It returns only if that fails.
func runWithCalls(socket string) error {
	binary := os.Getenv(callsBinary)
	flags, err := strconv.Atoi(os.Getenv(callsFlags))
	if err != nil {
		return err
	}
	var numbers []int
	for text := range strings.SplitSeq(os.Getenv(callsNumbers), ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is this thread's, and execve keeps it
	if err := giveListener(conn, numbers, flags); err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ROLLCALL_CALLS_") {
			env = append(env, v)
		}
	}
	return fmt.Errorf("execute %s: %w", binary, syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), env))
}

// giveListener makes the kernel notify a listener before this thread, or the binary that it executes, does one of the calls,
// and sends the listener over conn.
func giveListener(conn *net.UnixConn, numbers []int, flags int) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // instead of root
		return fmt.Errorf("no new privileges: %w", err)
	}
	const number = 0 // where struct seccomp_data has the number of the call
	filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number}}
	for i, n := range numbers {
		filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(n), Jt: uint8(len(numbers) - i)})
	}
	filter = append(filter,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
	)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	// This thread's calls have no receiver until the listener is sent. Until then the thread must make none of them,
	// which Go's runtime might to allocate memory. So everything is allocated before.
	rights, data := unix.UnixRights(0), []byte{0}
	parts := []unix.Iovec{{Base: &data[0], Len: 1}}
	message := unix.Msghdr{Iov: &parts[0], Iovlen: 1, Control: &rights[0]}
	message.SetControllen(len(rights))
	descriptor := rights[unix.CmsgLen(0):]
	var made, sent syscall.Errno
	err = raw.Control(func(to uintptr) {
		var fd uintptr
		if fd, _, made = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|uintptr(flags), uintptr(unsafe.Pointer(&program))); made == 0 {
			binary.NativeEndian.PutUint32(descriptor, uint32(fd))
			_, _, sent = unix.RawSyscall(unix.SYS_SENDMSG, to, uintptr(unsafe.Pointer(&message)), 0)
		}
	})
	switch {
	case err != nil:
		return err
	case made != 0:
		return fmt.Errorf("seccomp: %w", made)
	case sent != 0:
		return fmt.Errorf("send a descriptor: %w", sent)
	}
	return nil
}
