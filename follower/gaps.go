package follower

import "time"

// maxGaps is the number of times without a leader that a member remembers. When there are more, the two oldest become
// one, with the time between them: a client that has been silent since then seems to be silent for less.
const maxGaps = 16

// leaderGaps are the times for which this member has heard no leader: from the last ping of a leader to the first ping of the next one, and
// more than a tick between two pings. In the second case one of the two was cut off, or was paused: while this process does not run, its
// clients' requests lie unread in its sockets. A client's silence does not count meanwhile. It is not safe for concurrent use.
type leaderGaps struct {
	tick     time.Duration // of two pings
	nonce    uint64        // of the term of the last ping
	lastPing time.Time     // before the first, when this process started
	gaps     []gap         // oldest first
}

type gap struct{ from, to time.Time }

// notePing records a ping of a leader's term.
func (g *leaderGaps) notePing(nonce uint64, now time.Time) {
	if !g.lastPing.IsZero() && (nonce != g.nonce || now.Sub(g.lastPing) > g.tick) {
		if len(g.gaps) == maxGaps {
			g.gaps[1].from = g.gaps[0].from
			g.gaps = append(g.gaps[:0], g.gaps[1:]...)
		}
		g.gaps = append(g.gaps, gap{g.lastPing, now})
	}
	g.nonce, g.lastPing = nonce, now
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
