package cluster

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// Monotonic is the clock by which a member counts the timeouts and the leases of sessions. It runs at
// a rate of its own, and while the member is paused its timers do not fire. It goes on meanwhile, as the
// clock of a machine does while a process is stopped. It is safe for concurrent use.
type Monotonic struct {
	mu     sync.Mutex
	since  time.Time // real time
	shown  time.Time // the time that it showed then
	rate   float64   // its seconds in a real one
	paused bool
	held   []chan<- time.Time // timers that ran out while the member was paused
}

func newMonotonic() *Monotonic {
	now := time.Now()
	return &Monotonic{since: now, shown: now, rate: 1}
}

// Now implements monotonic.Clock.
func (c *Monotonic) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Monotonic) now() time.Time {
	return c.shown.Add(time.Duration(c.rate * float64(time.Since(c.since))))
}

// After implements monotonic.Clock.
func (c *Monotonic) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	time.AfterFunc(time.Duration(math.Ceil(float64(d)/c.rate)), func() { c.fire(fired) })
	return fired
}

func (c *Monotonic) fire(timer chan<- time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused {
		c.held = append(c.held, timer)
		return
	}
	timer <- c.now()
}

// setRate makes it run at another rate from now on. Timers that are set already run out when they would have.
func (c *Monotonic) setRate(rate float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown, c.since, c.rate = c.now(), time.Now(), rate
}

func (c *Monotonic) pause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = true
}

// resume fires the timers that ran out in the pause.
func (c *Monotonic) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, timer := range c.held {
		timer <- c.now()
	}
	c.paused, c.held = false, nil
}

// SetRate makes the clock by which a member counts run at a rate from now on, through all its restarts:
// 2 is twice as fast as real time. A history has one rate for each member, so set it before sessions are opened.
func (e *Ensemble) SetRate(id uint32, rate float64) { e.members[id].monotonic.setRate(rate) }

// farApart is by how much the clocks of two members may differ in speed.
const farApart = 1.1

// DrawRates draws rates for the clocks of the members that there are, and sets them. No clock is more than
// a tenth faster than another one, or than real time, by which the clients and later members count. Half of
// the clocks are as slow or as fast as that allows.
func (e *Ensemble) DrawRates(rng *rand.Rand) {
	slowest := 1 - rng.Float64()*(1-1/farApart)
	for _, id := range e.IDs() {
		rate := slowest
		switch rng.IntN(4) {
		case 0:
		case 1:
			rate *= farApart
		default:
			rate *= 1 + rng.Float64()*(farApart-1)
		}
		e.SetRate(id, rate)
	}
}

// rates returns the rates of all members.
func (e *Ensemble) rates() map[uint32]float64 {
	rates := make(map[uint32]float64, len(e.members))
	for id, r := range e.members {
		r.monotonic.mu.Lock()
		rates[id] = r.monotonic.rate
		r.monotonic.mu.Unlock()
	}
	return rates
}
