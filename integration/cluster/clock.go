package cluster

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Clock is a member's wall clock, which may be wrong. It has nothing to do with monotonic time. It
// is safe for concurrent use.
type Clock struct {
	mu   sync.Mutex
	past []clockCourse // ordered by since; the last one is current
}

// clockCourse is the speed and the value of a clock from one moment on.
type clockCourse struct {
	since time.Time     // real time
	ahead time.Duration // by how much it was ahead of real time then
	rate  float64       // seconds that it gains each second
}

func (c clockCourse) error(now time.Time) time.Duration {
	return c.ahead + time.Duration(c.rate*float64(now.Sub(c.since)))
}

// newClock returns a clock that shows the right time.
func newClock() *Clock { return &Clock{past: []clockCourse{{since: time.Now()}}} }

// Now returns the time that it shows.
func (c *Clock) Now() time.Time {
	now := time.Now()
	return now.Add(c.Ahead()).Round(0) // without a monotonic reading
}

// Ahead returns by how much it is ahead of real time; the result is negative if it is behind.
func (c *Clock) Ahead() time.Duration { return c.aheadAt(time.Now()) }

func (c *Clock) aheadAt(at time.Time) time.Duration {
	then := clockCourse{}
	for _, p := range c.courses() {
		if !p.since.After(at) {
			then = p
		}
	}
	return then.error(at)
}

func (c *Clock) courses() []clockCourse {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.past)
}

// Step sets it forward, or back if by is negative.
func (c *Clock) Step(by time.Duration) { c.set(func(n *clockCourse) { n.ahead += by }) }

// Drift makes it gain so much each second from now on, or lose if each is negative.
func (c *Clock) Drift(each time.Duration) { c.set(func(n *clockCourse) { n.rate = each.Seconds() }) }

func (c *Clock) set(change func(*clockCourse)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	present := c.past[len(c.past)-1]
	next := clockCourse{since: now, ahead: present.error(now), rate: present.rate}
	change(&next)
	c.past = append(c.past, next)
}

// Steady reports whether it has run evenly, except for less than limit, since a moment of real
// time.
func (c *Clock) Steady(since time.Time, limit time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.past {
		if i > 0 && !p.since.Before(since) && (p.ahead-c.past[i-1].error(p.since)).Abs() > limit {
			return false
		}
	}
	return true
}

// Latest returns the latest time that it has shown since a moment of real time, in ms since 1970.
func (c *Clock) Latest(since time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := int64(0)
	for i, p := range c.past {
		first, last := p.since, time.Now()
		if first.Before(since) {
			first = since
		}
		if i+1 < len(c.past) {
			last = c.past[i+1].since
		}
		if !last.Before(first) {
			latest = max(latest, first.Add(p.error(first)).UnixMilli(), last.Add(p.error(last)).UnixMilli())
		}
	}
	return latest
}

// showed reports whether it showed a time, in ms since 1970, between two moments of real time.
func (c *Clock) showed(ms int64, from, to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, p := range c.past {
		first, last := p.since, to
		if first.Before(from) {
			first = from
		}
		if i+1 < len(c.past) && c.past[i+1].since.Before(to) {
			last = c.past[i+1].since
		}
		if !last.Before(first) && first.Add(p.error(first)).UnixMilli() <= ms && ms <= last.Add(p.error(last)).UnixMilli() {
			return true
		}
	}
	return false
}

// Stamped returns an error if a transaction cannot have been stamped with ms (since 1970) between
// two moments of real time. It judges by the clock of the leader in whose term the transaction took
// its zxid. It needs Options.Record.
func (e *Ensemble) Stamped(zxid, ms int64, from, to time.Time) error {
	term := uint64(zxid) >> 32
	leader, ok := e.record.leader(term)
	switch {
	case !ok:
		return fmt.Errorf("cluster: no member led in term %d", term)
	case !e.Clock(leader).showed(ms, from, to):
		return fmt.Errorf("cluster: stamped %v in term %d: the clock of its leader, member %d, did not show that between %v and %v",
			time.UnixMilli(ms).UTC(), term, leader, from.UTC(), to.UTC())
	}
	return nil
}

// CommonTime returns by how much the clocks of most members are ahead of real time, within a
// minute. It returns false if most do not agree.
func (e *Ensemble) CommonTime() (ahead time.Duration, ok bool) { return e.commonTime(time.Now()) }

// CommonJump reports whether the clocks of most members ever agreed, within a minute, that they are
// ahead of real time by so much or more.
func (e *Ensemble) CommonJump(ahead time.Duration) bool {
	for _, id := range e.IDs() {
		for _, p := range e.Clock(id).courses() {
			if common, ok := e.commonTime(p.since); ok && common >= ahead {
				return true
			}
		}
	}
	return false
}

func (e *Ensemble) commonTime(at time.Time) (ahead time.Duration, ok bool) {
	for _, id := range e.IDs() {
		ahead, agree := e.Clock(id).aheadAt(at), 0
		for _, other := range e.IDs() {
			if (e.Clock(other).aheadAt(at) - ahead).Abs() <= time.Minute {
				agree++
			}
		}
		if agree > len(e.IDs())/2 {
			return ahead, true
		}
	}
	return 0, false
}
