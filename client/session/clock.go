package session

import (
	"sync"
	"time"
)

// A Clock returns the time since a moment that stays the same. It must continue while the machine is suspended, and
// must never go back. Several goroutines call it, some of them under a lock, so it must not wait.
type Clock func() time.Duration

// BootTime is the Clock of this machine.
//
// On Linux it is CLOCK_BOOTTIME. Elsewhere it is Go's monotonic clock, and each time by which the wall clock has
// advanced further since the last call is added. That is so after a suspend, during which the clock of macOS and
// Windows stands still for Go. If someone sets the wall clock forward, BootTime is ahead from then on, so a right ends
// early. If someone sets it back by the length of a suspend, BootTime does not count that suspend. A difference of up
// to 10 ms between two calls is not added.
func BootTime() time.Duration { return bootTime() }

// A Session without Config.Clock has a clock of its own, of newClock: Go's monotonic clock, and all time for which the
// machine was suspended since. In a bubble of testing/synctest, Go's clock is the bubble's, and so is the Session's.

// minClockJump is the least difference between the two clocks that is taken for a suspend: more than the wall clock is
// slewed between two calls.
const minClockJump = 10 * time.Millisecond

// twoClocks makes a Clock of the monotonic clock and the wall clock, for systems where the first stands still during a
// suspend. The zero value is ready. It is safe for concurrent use.
type twoClocks struct {
	mu        sync.Mutex
	monotonic time.Duration // at the last call
	wall      time.Duration // at the last call
	skipped   time.Duration // the sum of all suspends
}

// read returns the time since the origin of the monotonic clock. monotonic and wall are the readings of the two clocks.
func (c *twoClocks) read(monotonic, wall time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if jump := wall - c.wall - (monotonic - c.monotonic); jump > minClockJump && c.wall != 0 {
		c.skipped += jump
	}
	c.monotonic, c.wall = monotonic, wall
	return monotonic + c.skipped
}
