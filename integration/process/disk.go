package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Disk can make the disk of a process hang: fsync and fdatasync do not return, as on a broken
// disk. The kernel asks it about each of these calls by seccomp's user notifications. These need
// neither root nor a file system of their own. Safe for concurrent use.
type Disk struct {
	Binary string   // starts the binary that NewDisk was given, with its arguments
	Env    []string // variables that Binary needs

	mu       sync.Mutex
	hanging  bool
	listener int      // descriptor of the kernel's notifications; -1 if no process runs
	held     []uint64 // the calls that hang
}

// The variables in Disk.Env.
const (
	diskSocket = "ROLLCALL_DISK_SOCKET" // path of the socket on which a Disk waits
	diskBinary = "ROLLCALL_DISK_BINARY" // path of the binary to become
)

// NewDisk returns a disk for one process at a time that runs binary. The tests must be run by Main:
// Disk.Binary is the test binary, in which Main sets the notifications up and executes binary.
func NewDisk(t *testing.T, binary string) *Disk {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "disk")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	d := &Disk{Binary: self, Env: []string{diskSocket + "=" + socket, diskBinary + "=" + binary}, listener: -1}
	served := make(chan error, 1)
	go func() { served <- d.serve(l) }()
	t.Cleanup(func() { // the process, which was started after this, has ended
		_ = l.Close()
		if err := <-served; err != nil {
			t.Errorf("disk: %v", err)
		}
	})
	return d
}

// Hang makes each call that begins from now on wait for Release.
func (d *Disk) Hang() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = true
}

// Release lets the kernel do the calls that hang, and all later ones.
func (d *Disk) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hanging = false
	for _, call := range d.held {
		d.let(call)
	}
	d.held = nil
}

// serve answers the kernel for one process after the other, until l is closed.
func (d *Disk) serve(l *net.UnixListener) error {
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
		d.attach(listener)
		err = d.answer(listener)
		d.attach(-1)
		if err := errors.Join(err, unix.Close(listener)); err != nil {
			return err
		}
	}
}

// attach sets the listener and forgets the calls of the process before.
func (d *Disk) attach(listener int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listener, d.held = listener, nil
}

// answer answers the kernel until the process has ended.
func (d *Disk) answer(listener int) error {
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
		var n notification
		err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n))
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			continue // a signal has interrupted the call, and the kernel restarts it
		}
		if err != nil {
			return fmt.Errorf("receive a notification: %w", err)
		}
		d.decide(n.id)
	}
}

// decide holds a call if the disk hangs. Otherwise it lets the kernel do the call.
func (d *Disk) decide(call uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.hanging {
		d.held = append(d.held, call)
		return
	}
	d.let(call)
}

// let lets the kernel do a call. An error means that the call no longer waits. Its process has
// ended, or a signal has interrupted the call, and the kernel restarts it and asks again. The
// caller holds mu.
func (d *Disk) let(call uint64) {
	_ = ioctl(d.listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response{id: call, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}))
}

// notification is the kernel's struct seccomp_notif.
type notification struct {
	id         uint64
	pid, flags uint32
	call       struct {
		number int32
		arch   uint32
		at     uint64
		args   [6]uint64
	}
}

// response is the kernel's struct seccomp_notif_resp.
type response struct {
	id    uint64
	value int64
	errno int32
	flags uint32
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
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

// runOnDisk gives the Disk that waits on socket a listener for this process, and executes the Disk's
// binary. It returns only if that fails.
func runOnDisk(socket string) error {
	binary := os.Getenv(diskBinary)
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the filter is this thread's, and execve keeps it
	listener, err := listenForSyncs()
	if err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(listener), nil); err != nil {
		return err
	}
	var env []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, diskSocket+"=") && !strings.HasPrefix(v, diskBinary+"=") {
			env = append(env, v)
		}
	}
	return fmt.Errorf("execute %s: %w", binary, syscall.Exec(binary, append([]string{binary}, os.Args[1:]...), env))
}

// listenForSyncs makes the kernel notify the listener that it returns before this thread, or the
// binary that it executes, syncs a file.
func listenForSyncs() (listener int, err error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // instead of root
		return -1, fmt.Errorf("no new privileges: %w", err)
	}
	const number = 0 // where struct seccomp_data has the number of the call
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FDATASYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return -1, fmt.Errorf("seccomp: %w", errno)
	}
	return int(fd), nil
}
