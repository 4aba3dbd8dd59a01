package simulated

import (
	"math"
	"sync"
	"time"
)

// Monotonic is the clock by which a member counts the timeouts and the leases of sessions. It runs at a
// rate of its own, and while the member is paused its timers do not fire. The clock itself keeps running
// meanwhile, as the clock of a machine does while a process is stopped. It is safe for concurrent use.
type Monotonic struct {
	mu     sync.Mutex
	since  time.Time // real time
	shown  time.Time // the time that it showed then
	rate   float64   // its seconds in a real one
	paused bool
	held   []chan<- time.Time // timers that ran out while the member was paused
}

// NewMonotonic returns a clock that runs at the rate of real time.
func NewMonotonic() *Monotonic {
	now := time.Now()
	return &Monotonic{since: now, shown: now, rate: 1}
}

// Now implements monotonic.Clock.
func (c *Monotonic) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ownTime()
}

func (c *Monotonic) ownTime() time.Time {
	return c.shown.Add(time.Duration(c.rate * float64(time.Since(c.since))))
}

// After implements monotonic.Clock.
func (c *Monotonic) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	time.AfterFunc(time.Duration(math.Ceil(float64(d)/c.rate)), func() { c.fireTimer(fired) })
	return fired
}

func (c *Monotonic) fireTimer(timer chan<- time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		c.held = append(c.held, timer)
		return
	}
	timer <- c.ownTime()
}

// SetRate makes it run at another rate from now on. Timers that are set already run out when they would have.
func (c *Monotonic) SetRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown, c.since, c.rate = c.ownTime(), time.Now(), rate
}

// Pause holds the timers that run out until Resume.
func (c *Monotonic) Pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// Resume ends Pause and fires the timers that ran out in the pause.
func (c *Monotonic) Resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, timer := range c.held {
		timer <- c.ownTime()
	}
	c.paused, c.held = false, nil
}

// Rate returns the number of its seconds in a real one.
func (c *Monotonic) Rate() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rate
}
