package quorum

import (
	"sync"
	"time"
)

const (
	// narrowInterval is the time in which a tolerance that was widened comes halfway back, if no pause needs it: a machine that
	// was short of processors an hour ago may be so again, and by tomorrow the cause has gone.
	narrowInterval = time.Hour
	// narrowings is the number of intervals after which nothing of the widening is left: 1/64 of it is less than the time
	// between two heartbeats.
	narrowings = 6
)

// pauseTolerance is the length of a pause, of a leader's process or of the network, for which this member keeps its leader. It
// begins with the usual one, is widened when pauses come close to it, and narrows again over hours. It is safe for concurrent use.
type pauseTolerance struct {
	usual, longest time.Duration // by Config.HeartbeatTimeout

	mu        sync.Mutex
	widenedTo time.Duration // 0: never widened
	widenedAt time.Time     // by the last pause that needed that much
}

func newPauseTolerance(heartbeat time.Duration) *pauseTolerance {
	return &pauseTolerance{usual: usualPause(heartbeat), longest: longestPause(heartbeat)}
}

// notePause widens the tolerance if a pause of this length comes within a fifth of it. A pause that is longer than the longest
// tolerance teaches nothing: no tolerance that is allowed would have been enough.
func (p *pauseTolerance) notePause(now time.Time, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	needed := length + length/4
	if length > p.longest || needed <= p.current(now) {
		return
	}
	p.widenedTo, p.widenedAt = min(needed, p.longest), now
}

// at returns the tolerance at a time.
func (p *pauseTolerance) at(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current(now)
}

func (p *pauseTolerance) current(now time.Time) time.Duration {
	if p.widenedTo == 0 {
		return p.usual
	}
	hours := now.Sub(p.widenedAt) / narrowInterval
	if hours >= narrowings {
		return p.usual
	}
	return p.usual + (p.widenedTo-p.usual)>>hours
}
