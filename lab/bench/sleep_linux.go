package bench

import (
	"syscall"
	"time"
)

// sleepPrecisely waits in the kernel, and blocks a thread. Go's timers may be a millisecond late on an idle
// machine, which would be attributed to the servers.
func sleepPrecisely(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	_ = syscall.Nanosleep(&ts, nil) // a signal ends it early; the caller checks the time
}
