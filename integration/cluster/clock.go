package cluster

import (
	"sync"
	"time"
)

// Clock is a member's wall clock, which may be wrong. Monotonic time is not its business.
// Safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	since time.Time     // the real time at which ahead was right
	ahead time.Duration // of real time
	rate  float64       // what it gains each second, in seconds
}

// NewClock returns a clock that is right.
func NewClock() *Clock { return &Clock{since: time.Now()} }

// Now is what it shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Add(c.error(now)).Round(0) // no monotonic reading
}

func (c *Clock) error(now time.Time) time.Duration {
	return c.ahead + time.Duration(c.rate*float64(now.Sub(c.since)))
}

// Step sets it forward, or back.
func (c *Clock) Step(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += by
}

// Drift makes it gain so much each second from now on; negative: lose.
func (c *Clock) Drift(each time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.ahead, c.since = c.error(now), now
	c.rate = each.Seconds()
}
