package follower

import "time"

// maxGaps is the number of times without a leader that a member remembers. When there are more, the two oldest become
// one, with the time between them: a client that has been silent since then seems to be silent for less.
const maxGaps = 16

// leaderGaps are the times in which a client's silence does not count. It is not safe for concurrent use.
//
//   - Without a leader: from the last time at which the leader of the last ping is known to have led (Raft.LastLead), to the first ping
//     of the next leader. Until then a client that had lost its connection could come back. That ping itself may have come late, or from
//     a leader that had been replaced, so it counts only if raft knows nothing.
//   - More than a tick between two pings of one leader, or between its last ping and that time. This member or the leader was cut off, or
//     was paused: while this process does not run, its clients' requests lie unread in its sockets.
type leaderGaps struct {
	tick     time.Duration // of two pings
	nonce    uint64        // of the term of the last ping
	raftTerm uint64        // likewise, in raft
	lastPing time.Time     // before the first, when this process started
	gaps     []gap         // oldest first; none overlaps another
}

type gap struct{ from, to time.Time }

// formerLeader is the leader before the present one.
type formerLeader struct {
	nonce uint64
	led   time.Time // the last time at which it is known to have led
}

// notePing records a ping of a leader's term. If it is the first of that term, it returns the leader before. lastLead is Raft.LastLead.
func (g *leaderGaps) notePing(nonce, raftTerm uint64, now time.Time, lastLead func(term uint64) time.Time) (
	former formerLeader, changed bool,
) {
	if changed = nonce != g.nonce; changed {
		former = formerLeader{g.nonce, g.lastPing}
		if raftTerm != g.raftTerm { // otherwise raft does not tell the two from each other
			if at := lastLead(g.raftTerm); !at.IsZero() && at.Sub(g.lastPing) <= g.tick {
				former.led = at
			}
		}
		g.add(gap{former.led, now})
	} else if now.Sub(g.lastPing) > g.tick {
		g.add(gap{g.lastPing, now})
	}
	g.nonce, g.raftTerm, g.lastPing = nonce, raftTerm, now
	return former, changed
}

func (g *leaderGaps) add(next gap) {
	if next.from.IsZero() {
		return // nothing is known before the first ping
	}
	for n := len(g.gaps); n > 0 && g.gaps[n-1].to.After(next.from); n = len(g.gaps) {
		next.from = earlier(next.from, g.gaps[n-1].from)
		g.gaps = g.gaps[:n-1]
	}
	if len(g.gaps) == maxGaps {
		g.gaps[1].from = g.gaps[0].from
		g.gaps = append(g.gaps[:0], g.gaps[1:]...)
	}
	g.gaps = append(g.gaps, next)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// all returns the gaps in memory of their own.
func (g *leaderGaps) all() gapList { return append(gapList(nil), g.gaps...) }

// gapList is a list of gaps, oldest first.
type gapList []gap

// since returns the part of the time from heard to the end of the last gap that is in gaps.
func (l gapList) since(heard time.Time) (d time.Duration) {
	for i := len(l) - 1; i >= 0 && l[i].to.After(heard); i-- {
		from := l[i].from
		if from.Before(heard) {
			from = heard
		}
		d += l[i].to.Sub(from)
	}
	return d
}
