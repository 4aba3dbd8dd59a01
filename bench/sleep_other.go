//go:build !linux

package bench

import "time"

// nanosleep waits with Go's timers, which may be a millisecond late on an idle machine. The column
// "tool late p99" shows that.
func nanosleep(d time.Duration) { time.Sleep(d) }
