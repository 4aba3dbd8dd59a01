package session

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// These are the numbers of CLOCK_MONOTONIC, which Go reads, and of CLOCK_BOOTTIME, which counts the time of a suspend too.
const (
	clockMonotonic = 1
	clockBootTime  = 7
)

func bootTime() time.Duration { return readClock(clockBootTime) }

// readClock makes a system call that never waits. It therefore does not notify Go's scheduler.
func readClock(number uintptr) time.Duration {
	var ts syscall.Timespec
	// Every kernel that Go runs on has these clocks, so the call cannot fail.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, number, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// minSuspend is the least time of suspends that a clock of newClock adds. The two system clocks are read one after the
// other, so their difference is a little too small each time, and grows by less than this without a suspend.
const minSuspend = time.Millisecond

// newClock returns a clock that starts at the machine's time since boot and lags by at most minSuspend. It reads the time
// spent in suspends before Go's clock, and BOOTTIME before MONOTONIC, so the later call counts the time that passes between
// two calls.
func newClock() Clock {
	origin, boot := time.Now(), bootTime()
	before := suspendedTime()
	var suspended atomic.Int64 // since origin
	return func() time.Duration {
		seen := int64(suspendedTime() - before)
		for {
			counted := suspended.Load()
			if seen <= counted+int64(minSuspend) {
				return boot + time.Duration(counted) + time.Since(origin)
			}
			suspended.CompareAndSwap(counted, seen)
		}
	}
}

// suspendedTime returns for how long the machine was suspended since its start.
func suspendedTime() time.Duration {
	boot := readClock(clockBootTime)
	return boot - readClock(clockMonotonic)
}
