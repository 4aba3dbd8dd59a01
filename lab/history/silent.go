package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// checkSilent judges (b): a session that is silent for its timeout T is closed within T + 1.5 ticks
// of time in which a leader could hear. In each term it follows the latest that the leader may have
// known about each session:
//
//   - The timeout runs from the beginning of the term, from opening and attaching, and from each
//     touch that the owner's member heard, whether or not that member could be reached.
//   - What another member heard reaches the leader with the next PING, at most half a tick later.
//     If the leader could not hear that member meanwhile, it arrives half a tick after it can, or
//     within a shorter time in which it could. In a partial outage the leader may or may not have
//     heard it: both count.
//   - Only time counts in which the leader could hear a majority, including itself.
//   - If the leader was paused for over a quarter tick, a bucket may have been put off once, by
//     half a tick, and the bucket after it has to wait for as long again.
//
// All of these times run by the leader's clock.
//
// The 1.5 ticks are ZooKeeper's rounding up to a bucket, and a PING round without the reply of some
// member. History.Slack is added.
func checkSilent(b *indexedHistory, found func(Violation)) {
	for _, term := range b.tenures() {
		alone, paused := b.withoutMajority(term.Leader), b.longPauses(term.Leader)
		deaf := map[uint32][]spans{}
		for _, m := range b.allMembers() {
			deaf[m] = []spans{b.outages(term.Leader, m, false), b.outages(term.Leader, m, true)}
		}
		for _, l := range b.sessionsByID {
			end := min(term.To, b.End)
			if l.closed != nil {
				end = min(end, l.closed.At)
			}
			if len(l.grants) == 0 || l.grants[0].At >= end {
				continue
			}
			s := silenceCheck{history: b, term: term, withoutMajority: alone, paused: paused, end: end, rate: b.clockRate(term.Leader)}
			if v, ok := s.findOverdue(l, s.possibleRenewals(l, deaf)); ok {
				found(v)
			}
		}
	}
}

// tenures returns the terms. A leader that leads again in its term begins anew only if there was a reason to give up leading: a time in
// which nothing that it decided took effect. Otherwise both parts of the term are one.
func (b *indexedHistory) tenures() (all []Term) {
	for _, t := range b.Terms {
		n := len(all) - 1
		again := n >= 0 && all[n].Term == t.Term && all[n].Leader == t.Leader
		if again && !b.withoutMajority(t.Leader).overlaps(all[n].From, t.From) {
			all[n].To = t.To
			continue
		}
		all = append(all, t)
	}
	return all
}

// silenceCheck judges one session in one term.
type silenceCheck struct {
	history                 *indexedHistory
	term                    Term
	withoutMajority, paused spans
	end                     time.Duration
	rate                    float64 // of the leader's clock
}

// longPauses returns the pauses of a leader after which a check may be so late that it puts a
// bucket off.
func (b *indexedHistory) longPauses(leader uint32) spans {
	return mergeSpans(slices.DeleteFunc(b.pausesOf(leader), func(p span) bool { return p.to-p.from <= elapsedOnClock(1/b.clockRate(leader), b.pauseThreshold()) }))
}

// findOverdue returns the first silence that lasted too long.
func (s *silenceCheck) findOverdue(l *sessionLife, signs []sessionRenewal) (v Violation, ok bool) {
	var last sessionRenewal // on which the deadline depends
	var until time.Duration // by a clock that stops while the leader is alone
	for _, r := range append(signs, sessionRenewal{at: s.end}) {
		if last.timeout > 0 {
			limit := s.history.silenceGrace() + s.history.Slack + clockRounding(s.rate)
			if s.paused.overlaps(last.at, r.at) {
				limit += 2 * s.history.checkInterval() // its own bucket, and the one before
			}
			if over := s.leaderTime(r.at) - until; over > limit {
				return Violation{
					Fault: silentKept, Session: l.id, At: r.at,
					Detail: fmt.Sprintf("the leader can have heard of it until %v, its timeout is %v, in term %d of member %d it was still there %v after that ran out",
						last.at, last.timeout, s.term.Term, s.term.Leader, over),
				}, true
			}
		}
		if d := s.leaderTime(r.at) + r.timeout; r.replaces || d >= until {
			last, until = r, d
		}
	}
	return Violation{}, false
}

func (s *silenceCheck) leaderTime(at time.Duration) time.Duration {
	return elapsedOnClock(s.rate, at-s.withoutMajority.coveredBefore(at))
}

// possibleRenewals returns the latest moments from which l's timeout may have run.
func (s *silenceCheck) possibleRenewals(l *sessionLife, deaf map[uint32][]spans) []sessionRenewal {
	out := l.grantsIn(s.term)
	first, _ := slices.BinarySearchFunc(l.touches, s.term.From, func(t Touch, at time.Duration) int { return cmp.Compare(t.At, at) })
	for _, t := range l.touches[max(0, first-1):] { // the one before may still have been waiting
		g := l.grantAt(t.At)
		if g == nil || g.Owner.Member != t.Member {
			continue
		}
		if t.Member == s.term.Leader {
			out = append(out, sessionRenewal{at: t.At, timeout: g.Timeout})
			continue
		}
		for _, d := range deaf[t.Member] {
			for _, at := range d.uncoveredEnds(max(t.At, s.term.From), elapsedOnClock(1/s.rate, s.history.checkInterval())) {
				out = append(out, sessionRenewal{at: at, timeout: g.Timeout})
			}
		}
	}
	out = slices.DeleteFunc(out, func(r sessionRenewal) bool { return r.at < s.term.From || r.at >= s.end })
	slices.SortStableFunc(out, func(x, y sessionRenewal) int { return cmp.Compare(x.at, y.at) })
	return out
}
