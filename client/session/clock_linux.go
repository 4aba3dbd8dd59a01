package session

import (
	"syscall"
	"time"
	"unsafe"
)

// clockBootTime is the number of CLOCK_BOOTTIME, which counts the time of a suspend too.
const clockBootTime = 7

// bootTime makes a system call that never waits. It therefore does not notify Go's scheduler.
func bootTime() time.Duration {
	var ts syscall.Timespec
	// Every kernel that Go runs on has this clock, so the call cannot fail.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBootTime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
