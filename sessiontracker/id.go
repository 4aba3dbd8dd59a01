package sessiontracker

import (
	"math"
	"sync/atomic"

	"rollcall/jute"
)

// An id is a member's number in the top byte and a count below it. The count starts at a
// clock's milliseconds, moved up by 16 bits: a member needs to remember nothing, and a
// count would have to run at 65 ids per microsecond to overtake its clock.
const (
	countBits = 56
	countMask = 1<<countBits - 1
)

// IDGenerator counts up the ids of one member's new sessions. Make one with
// NewIDGenerator. Safe for concurrent use.
type IDGenerator struct {
	member uint64 // in the top byte
	count  atomic.Uint64
}

// NewIDGenerator returns a generator for member (1 to 255) whose ids start at the wall
// clock's nowMs, or behind highest, the greatest id of this member that the replicated
// state knows of (0: none), if the clock is behind that.
func NewIDGenerator(member uint32, nowMs int64, highest jute.SessionID) *IDGenerator {
	g := &IDGenerator{member: uint64(member) << countBits}
	next := uint64(nowMs) << 24 >> 8
	if uint64(highest)&^countMask == g.member {
		next = max(next, uint64(highest)&countMask+1)
	}
	g.count.Store(next)
	return g
}

// Next returns an id that no earlier call returned. It is never that of ZooKeeper's mark
// for the owner of a container, the least int64.
func (g *IDGenerator) Next() jute.SessionID {
	for {
		count := (g.count.Add(1) - 1) & countMask
		if id := jute.SessionID(g.member | count); id != math.MinInt64 {
			return id
		}
	}
}
