package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// checkLive judges (a): no session is expired if a member that the leader could hear has heard from
// it within its granted timeout. For each expired session it follows what the leader of that term
// must have known:
//
//   - At the beginning of the term, when it is opened and at each attach, the session gets a full
//     timeout. An attach may shorten what it had.
//   - A touch gives it a full timeout from the moment when the owner's member heard it, if the
//     leader could hear that member for a tick from then on, or until the close. If the leader
//     could not, the touch counts once the leader has heard the member for a tick, since touches
//     are kept and sent again. The exception is a member that was down in between and has forgotten
//     the touch.
//   - The age of a touch is counted by the clock of its member. If that is faster than the leader's, the
//     touch may seem older than it is.
//   - The leader's time stops while it is paused. A pause counts if it is so long that a check must
//     have been over a quarter tick late, after subtracting the half tick in which the check may
//     not have been due yet.
//
// One kind of expiry is allowed, because it was right when it was decided. After a silence of a
// full timeout, a session may be heard again up to a tick before it is closed: the touch came after
// the round of pings that would have reported it.
//
// In addition, no client receives "session expired" before a member has closed its session.
func checkLive(b *indexedHistory, found func(Violation)) {
	for _, l := range b.sessionsByID {
		if l.closed == nil || !l.closed.Expired {
			continue
		}
		c := l.closed
		v := Violation{Fault: liveExpired, Session: l.id, At: c.At, Index: c.Index, Zxid: c.Zxid}
		term := b.findTerm(uint64(c.Zxid)>>32, c.Index)
		if term == nil {
			v.Fault, v.Detail = noTerm, fmt.Sprintf("there is no term %d", c.Zxid>>32)
			found(v)
			continue
		}
		if detail := b.tooEarly(l, *term); detail != "" {
			v.Detail = detail
			found(v)
		}
	}
	for _, c := range b.Connections {
		if c.Kind != Expired {
			continue
		}
		if l := b.sessions[c.Session]; l == nil || l.closed == nil || l.closed.At > c.At {
			found(Violation{Fault: toldExpired, Session: c.Session, At: c.At, Detail: fmt.Sprintf("member %d said so", c.Member)})
		}
	}
}

// sessionRenewal extends a session's time.
type sessionRenewal struct {
	arrives  time.Duration // at the leader
	at       time.Duration // the timeout starts here
	timeout  time.Duration
	replaces bool   // it replaces the time that the session had left
	member   uint32 // the member that heard the touch
}

// grantsIn returns the renewals by the grants in a term: by the one that is in force when it begins, and by each later one.
func (l *sessionLife) grantsIn(term Term) (out []sessionRenewal) {
	if g := l.grantAt(term.From); g != nil {
		out = append(out, sessionRenewal{arrives: term.From, at: term.From, timeout: g.Timeout, replaces: true})
	}
	for _, g := range l.grants {
		if g.At > term.From {
			out = append(out, sessionRenewal{arrives: g.At, at: g.At, timeout: g.Timeout, replaces: true})
		}
	}
	return out
}

// tooEarly returns the reason why a session must not have been expired in term, or "" if it was due.
func (b *indexedHistory) tooEarly(l *sessionLife, term Term) string {
	lost, rate := b.timeLostInPauses(term.Leader), b.clockRate(term.Leader)
	clock := func(at time.Duration) time.Duration { return elapsedOnClock(rate, at-lost.coveredBefore(at)) }
	end := l.closed.At
	var until time.Duration // by the leader's clock
	var last sessionRenewal
	saved := forever // when a touch came too late and may not have saved the session
	for _, r := range b.certainRenewals(l, term) {
		switch {
		case r.replaces:
			saved, until = forever, 0
		case clock(r.arrives) > until:
			saved = r.arrives
		case saved != forever && r.arrives-saved > elapsedOnClock(1/rate, b.Tick):
			saved = forever
		}
		until = max(until, clock(r.at)+r.timeout-b.extraTouchAge(r, rate))
		last = r
	}
	if clock(end)+clockRounding(rate) >= until || saved != forever {
		return ""
	}
	what := "its term began"
	if last.member != 0 {
		what = fmt.Sprintf("member %d heard from it", last.member)
	} else if last.at > term.From {
		what = "it was opened or attached"
	}
	return fmt.Sprintf("%s at %v, its timeout is %v, the leader (member %d) could have known", what, last.at, last.timeout, term.Leader)
}

// extraTouchAge returns the error of a touch's age: a leader whose clock has this rate may take the touch to be so much
// older.
func (b *indexedHistory) extraTouchAge(r sessionRenewal, rate float64) time.Duration {
	if r.member == 0 {
		return 0
	}
	return elapsedOnClock(max(0, b.clockRate(r.member)-rate), r.arrives-r.at+b.Tick)
}

// timeLostInPauses returns the time that a leader's pauses must have taken from its table.
func (b *indexedHistory) timeLostInPauses(leader uint32) spans {
	var out []span
	rate := b.clockRate(leader)
	step, late := elapsedOnClock(1/rate, b.checkInterval()), elapsedOnClock(1/rate, b.pauseThreshold())
	for _, p := range b.pausesOf(leader) {
		if p.to-p.from > step+late {
			out = append(out, span{from: p.from + step, to: p.to})
		}
	}
	return mergeSpans(out)
}

// leastRestShare is the share of its timeout that a session has at least when a term begins: a third.
const leastRestShare = 3

// certainRenewals returns the renewals that the leader of term must have counted before l was closed. When the term begins,
// it has a part of its timeout left, and more if its owner's member could tell the leader that it had heard the session.
func (b *indexedHistory) certainRenewals(l *sessionLife, term Term) []sessionRenewal {
	end, tick := l.closed.At, max(b.Tick, elapsedOnClock(1/b.clockRate(term.Leader), b.Tick))
	out := slices.DeleteFunc(l.grantsIn(term), func(r sessionRenewal) bool { return r.at > max(end, term.From) })
	present := l.grantAt(term.From)
	if present != nil && present.At < term.From {
		out[0].timeout /= leastRestShare
	}
	deaf := map[uint32]spans{}
	for _, t := range l.touches {
		g := l.grantAt(t.At)
		if g != nil && g == present && t.At < term.From && g.Owner.Member == t.Member &&
			!b.outages(term.Leader, t.Member, false).overlaps(t.At, end) && !b.pausesOf(t.Member).overlaps(t.At, end) {
			out = append(out, sessionRenewal{arrives: term.From, at: t.At, timeout: g.Timeout, member: t.Member})
		}
		if t.At < term.From || t.At >= end || g == nil || g.Owner.Member != t.Member {
			continue
		}
		d, ok := deaf[t.Member]
		if !ok {
			d = b.outages(term.Leader, t.Member, false)
			deaf[t.Member] = d
		}
		r := sessionRenewal{arrives: t.At, at: t.At, timeout: g.Timeout, member: t.Member}
		if heard := d.firstUncovered(t.At, tick, end); heard != t.At {
			if b.pausesOf(t.Member).overlaps(t.At, heard) {
				continue
			}
			r.arrives = heard + tick
		}
		if r.arrives < end {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y sessionRenewal) int { return cmp.Compare(x.arrives, y.arrives) })
	return out
}
