package sessiontracker

import (
	"math"
	"sync/atomic"

	"rollcall/jute"
)

// A session id holds the member's number in the top byte and a count below it. The count starts at
// the wall clock's milliseconds, shifted left by 16 bits. So a member does not have to remember its
// last id: it would have to give out 65 ids per microsecond for the count to overtake the clock.
const (
	countBits = 56
	countMask = 1<<countBits - 1
)

// IDGenerator generates the ids of one member's new sessions by counting up. Make one with
// NewIDGenerator. It is safe for concurrent use.
type IDGenerator struct {
	member uint64 // in the top byte
	count  atomic.Uint64
}

// NewIDGenerator returns a generator for member (1 to 255). Its ids start at the wall clock's
// nowMs. If that is not above highest, they start right after highest, which is the greatest id of
// this member in the replicated state (0 if there is none).
func NewIDGenerator(member uint32, nowMs int64, highest jute.SessionID) *IDGenerator {
	g := &IDGenerator{member: uint64(member) << countBits}
	next := uint64(nowMs) << 24 >> 8
	if uint64(highest)&^countMask == g.member {
		next = max(next, uint64(highest)&countMask+1)
	}
	g.count.Store(next)
	return g
}

// Next returns an id that no earlier call returned. It never returns the least int64, because
// ZooKeeper uses that value to mark the owner of a container.
func (g *IDGenerator) Next() jute.SessionID {
	for {
		count := (g.count.Add(1) - 1) & countMask
		if id := jute.SessionID(g.member | count); id != math.MinInt64 {
			return id
		}
	}
}
