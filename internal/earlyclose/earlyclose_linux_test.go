package earlyclose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
)

// connect returns the two ends of a connection. The test closes what it leaves open.
func connect(t *testing.T, l net.Listener) (dialed, accepted net.Conn) {
	t.Helper()
	dialed, err := Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialed.Close() })
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialed, accepted
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// A connection does what package net promises.
func TestConn(t *testing.T) {
	l := listen(t)
	nettest.TestConn(t, func() (dialed, accepted net.Conn, stop func(), err error) {
		dialed, accepted = connect(t, l)
		return dialed, accepted, func() { dialed.Close(); accepted.Close() }, nil
	})
}

// number returns the descriptor of a socket.
func number(t *testing.T, socket any) (number int) {
	t.Helper()
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	if err != nil {
		t.Fatal(err)
	}
	return number
}

// Both ends have high numbers, the addresses of their sockets, and the options that package net sets.
func TestSockets(t *testing.T) {
	dialed, accepted := connect(t, listen(t))
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]net.Conn{"dialed": dialed, "accepted": accepted} {
		if n := number(t, c); n < int(min(limit.Cur, highestNumber))-places {
			t.Errorf("the end that was %s has the number %d of %d", name, n, limit.Cur)
		}
		raw, err := c.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			for option, level := range map[int]int{syscall.TCP_NODELAY: syscall.IPPROTO_TCP, syscall.SO_KEEPALIVE: syscall.SOL_SOCKET} {
				if on, err := syscall.GetsockoptInt(int(fd), level, option); err != nil || on == 0 {
					t.Errorf("the end that was %s has option %d of level %d off, %v", name, option, level, err)
				}
			}
		})
	}
	if dialed.LocalAddr().String() != accepted.RemoteAddr().String() || accepted.LocalAddr().String() != dialed.RemoteAddr().String() {
		t.Errorf("addresses %v → %v, %v → %v", dialed.LocalAddr(), dialed.RemoteAddr(), accepted.LocalAddr(), accepted.RemoteAddr())
	}
}

// Errors are those of package net.
func TestErrors(t *testing.T) {
	dialed, accepted := connect(t, listen(t))
	if _, err := Dial(t.Context(), "127.0.0.1:1"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a port that nobody has: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Dial(gone, "127.0.0.1:1"); !errors.Is(err, context.Canceled) && !strings.Contains(fmt.Sprint(err), "operation was canceled") {
		t.Errorf("a context that has ended: %v", err)
	}
	if _, err := Listen("127.0.0.1:port"); err == nil {
		t.Error("a port that is no number is listened at")
	}
	_ = dialed.Close()
	if _, err := dialed.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
	if err := dialed.SetDeadline(time.Time{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a deadline after Close: %v", err)
	}
	if n, err := accepted.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // as io.Reader returns it
		t.Errorf("a read after the other end has closed: %d, %v", n, err)
	}
	var err error
	for range 100 { // the first writes fill the kernel's buffer until the reset has come
		if _, err = accepted.Write(make([]byte, 1<<16)); err != nil {
			break
		}
	}
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) ||
		!strings.Contains(err.Error(), accepted.RemoteAddr().String()) {
		t.Errorf("writes after the other end has closed: %v, want a reset that names the other end", err)
	}
}

// Close ends Accept, and the port refuses connections afterwards. Those that were accepted stay.
func TestCloseListener(t *testing.T) {
	l := listen(t)
	dialed, accepted := connect(t, l)
	ended := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
	if err := l.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Close again: %v", err)
	}
	if _, err := Dial(t.Context(), l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a dial after Close: %v", err)
	}
	if _, err := dialed.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(accepted, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// A connection that its client has reset before it was accepted is passed over: it has no address, which the callers of Accept
// rely on.
func TestResetBeforeAccept(t *testing.T) {
	l := listen(t)
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err == nil {
			err = errors.Join(c.(*net.TCPConn).SetLinger(0), c.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dialed, accepted := connect(t, l)
	if accepted.RemoteAddr() == nil || accepted.RemoteAddr().String() != dialed.LocalAddr().String() {
		t.Errorf("accepted from %v, want %v", accepted.RemoteAddr(), dialed.LocalAddr())
	}
}

// victim is the variable that makes this test's program the process that dies.
const victim = "EARLYCLOSE_VICTIM"

func TestMain(m *testing.M) {
	if os.Getenv(victim) != "" {
		if err := waitForDeath(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// waitForDeath takes connections at two ports, of which one is early. It prints their addresses, and returns when the test
// has ended without killing this process.
func waitForDeath() error {
	early, err := Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(early.Addr(), other.Addr())
	var kept sync.Map // a connection that nothing refers to would be closed
	for _, l := range []net.Listener{early, other} {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				kept.Store(c, nil)
				_, _ = c.Write([]byte{1})
			}
		}()
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// When a process dies, its early connection and its early port end before its other connections, although they were opened
// first.
func TestEndsFirst(t *testing.T) {
	const connections, tries = 2000, 10
	for range tries {
		if open := openAtEnd(t, connections); open > connections/2 {
			return
		}
	}
	t.Errorf("in %d tries, more than half of %d connections had ended before the early one and its port", tries, connections)
}

// openAtEnd kills a process with connections, and returns how many of them are open when its early connection and its early port
// have ended.
func openAtEnd(t *testing.T, connections int) (open int) {
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), victim+"=yes")
	out, err := program.StdoutPipe()
	if err == nil {
		_, err = program.StdinPipe() // it ends with this process
	}
	if err == nil {
		err = program.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = program.Wait() }() // killed
	defer func() { _ = program.Process.Kill() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	addresses := strings.Fields(line)
	if err != nil || len(addresses) != 2 {
		t.Fatalf("%q, %v", line, err)
	}
	early := dialPlain(t, addresses[0])
	defer early.Close()
	others := make([]net.Conn, connections)
	for i := range others {
		others[i] = dialPlain(t, addresses[1])
		defer others[i].Close()
	}
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = early.Read(make([]byte, 1))
	for {
		c, err := net.Dial("tcp", addresses[0])
		if err != nil {
			break
		}
		_ = c.Close()
	}
	for _, c := range others {
		if isOpen(t, c) {
			open++
		}
	}
	return open
}

// isOpen reports whether the other end of a connection, on which nothing is sent, has not closed it.
func isOpen(t *testing.T, c net.Conn) bool {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	var failed error
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_, _, failed = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return errors.Is(failed, syscall.EAGAIN)
}

// dialPlain returns a connection to the process that dies, which has taken it.
func dialPlain(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return c
}
