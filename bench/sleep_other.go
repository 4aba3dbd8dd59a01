//go:build !linux

package bench

import "time"

// nanosleep waits by Go's timers, which may be a millisecond late on an idle machine: that
// is in the column "tool late p99".
func nanosleep(d time.Duration) { time.Sleep(d) }
