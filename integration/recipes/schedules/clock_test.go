package schedules

import (
	"sync"
	"time"
)

// clock is the clock of a client's machine. It runs while the machine is suspended. It runs at a rate of its own,
// and steps forward. It is safe for concurrent use.
type clock struct {
	rate  float64 // its seconds in a true one
	began time.Time

	mu      sync.Mutex
	stepped time.Duration
}

func newClock(rate float64) *clock { return &clock{rate: rate, began: time.Now()} }

// read returns the time since the clock was made.
func (c *clock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Duration(c.rate*float64(time.Since(c.began))) + c.stepped + 1
}

// stepForward sets the clock forward: a suspend in which the client's timers stood still.
func (c *clock) stepForward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stepped += d
}
