package client

import (
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"rollcall/client/session"
)

// bootID returns the number that the kernel draws when it starts. If it cannot be read, it is "unknown": the file is
// there on every system with /proc.
var bootID = sync.OnceValue(func() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(text))
})

// machineClock returns the time by a clock that all processes of the machine share, and what identifies that clock.
func machineClock() (boot string, now time.Duration) { return bootID(), session.BootTime() }

// peerUser returns the user of the process that connected the other end of a socket.
func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *syscall.Ucred
	controlErr := raw.Control(func(fd uintptr) {
		cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if controlErr != nil {
		return 0, controlErr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
