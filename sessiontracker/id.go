package sessiontracker

import (
	"math"
	"sync/atomic"

	"rollcall/zk/jute"
)

// An id is a member's number in the top byte and a count below it. The count starts at the milliseconds of a
// clock, shifted left by 16 bits. A member therefore stores nothing across restarts: the count would have to
// grow by 65 ids per microsecond to overtake the clock.
const (
	countBits = 56
	countMask = 1<<countBits - 1
)

// IDGenerator counts up the ids of one member's new sessions. Make one with NewIDGenerator. It is safe for
// concurrent use.
type IDGenerator struct {
	member uint64 // in the top byte
	count  atomic.Uint64
}

// NewIDGenerator returns a generator for member (1 to 255). Its ids start at nowMs, a wall clock's time. If
// the clock is behind highest, the member's greatest id in the replicated state or 0, they start after
// highest.
func NewIDGenerator(member uint32, nowMs int64, highest jute.SessionID) *IDGenerator {
	g := &IDGenerator{member: uint64(member) << countBits}
	next := uint64(nowMs) << 24 >> 8
	if uint64(highest)&^countMask == g.member {
		next = max(next, uint64(highest)&countMask+1)
	}
	g.count.Store(next)
	return g
}

// Next returns an id that no earlier call returned. It never returns the least int64, which marks containers
// in ZooKeeper.
func (g *IDGenerator) Next() jute.SessionID {
	for {
		count := (g.count.Add(1) - 1) & countMask
		if id := jute.SessionID(g.member | count); id != math.MinInt64 {
			return id
		}
	}
}
