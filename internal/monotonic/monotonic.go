// Package monotonic is the clock by which a member measures elapsed time. It is not the wall clock. Tests
// give each member a clock of its own speed; a process uses the clock of its machine.
package monotonic

import "time"

// A Clock counts time. Two times of one clock may be compared, and no others. It is safe for
// concurrent use.
type Clock interface {
	// Now returns the time. It never goes back, and never blocks.
	Now() time.Time
	// After returns a channel that gets the time once, when d has passed. Nothing has to be released.
	After(d time.Duration) <-chan time.Time
}

// System is the clock of the machine, as package time reads it.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// After implements Clock.
func (System) After(d time.Duration) <-chan time.Time { return time.After(d) }
