//go:build !linux

package bench

import "time"

// sleepPrecisely uses Go's timers, which may be a millisecond late on an idle machine. The column "tool late
// p99" shows that.
func sleepPrecisely(d time.Duration) { time.Sleep(d) }
