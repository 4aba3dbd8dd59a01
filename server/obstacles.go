package server

import (
	"context"
	"sync/atomic"
	"time"
)

// Obstacle is a reason to serve no sessions. Each has one part of the member that watches it, and only that part sets
// and clears it, so the end of one obstacle does not end another.
type Obstacle uint32

const (
	// Damaged: the member's state is damaged. It is never cleared.
	Damaged Obstacle = 1 << iota
	// Disputed: the member's state differs from the leader's, and no majority says which one is right.
	Disputed
	// Claimed: another ensemble serves that has this member's number and address.
	Claimed
	// Unlisted: the member is not in the list of servers.
	Unlisted
	// DiskAway: the member's disk hangs for long.
	DiskAway
	// CutOff: others may have a leader that this member does not reach. Only this obstacle lets clients of the
	// read-only mode in.
	CutOff
)

// obstacles is the set of the reasons for which a server serves no sessions. The zero value is the empty set, with
// which it serves.
//
// While the set is not empty, no connection has a session of the ensemble, and none gets one, apart from those that
// SuspendGradually is still closing. A handshake looks at the set when its connection is in the connectionTable. So
// it sees an obstacle, or it came before the obstacle was added, and whoever has added it then finds and drops its
// connection.
type obstacles struct{ set atomic.Uint32 }

// add adds an obstacle, and reports whether it was not in the set.
func (o *obstacles) add(why Obstacle) bool { return o.set.Or(uint32(why))&uint32(why) == 0 }

func (o *obstacles) remove(why Obstacle) { o.set.And(^uint32(why)) }

// any reports whether the set is not empty.
func (o *obstacles) any() bool { return o.set.Load() != 0 }

// keepOutReaders reports whether there is an obstacle for clients of the read-only mode, too.
func (o *obstacles) keepOutReaders() bool { return o.set.Load()&^uint32(CutOff) != 0 }

// Suspend adds an obstacle. If it is new, Suspend closes every connection, and sends nothing more. From then on the
// server replies to four-letter commands only, until every obstacle was removed. It never blocks.
func (s *Server) Suspend(why Obstacle) {
	if s.obstacles.add(why) {
		s.DropAll()
	}
}

// SuspendGradually adds the obstacle CutOff, and closes the connections with a session of the ensemble, spread evenly
// over a time, so that the clients do not all reach the other members at once. Connections that wait for a session are
// closed at once, and no other one gets one. Those of the read-only mode stay. SuspendGradually returns the number of
// closed sessions' connections; if ctx ends, it returns early.
func (s *Server) SuspendGradually(ctx context.Context, over time.Duration) (closed int) {
	s.obstacles.add(CutOff)
	s.conns.dropMatching(droppedByMember, (*conn).awaitsSession)
	return dropGradually(ctx, s.conns.withSession(), over, droppedByMember)
}

// Resume removes an obstacle. The server serves sessions again if no other one is left.
func (s *Server) Resume(why Obstacle) { s.obstacles.remove(why) }

// awaitsSession reports whether the connection has no session yet, and may get one.
func (c *conn) awaitsSession() bool {
	c.stream.Lock()
	defer c.stream.Unlock()
	return !c.isCommand && !c.readOnly && c.stream.Life.Timeout() == 0
}
