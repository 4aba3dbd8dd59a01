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
// the round of pings that asked for it.
//
// In addition, no client is told that its session has expired before a member has closed it.
func checkLive(b *book, found func(Violation)) {
	for _, l := range b.order {
		if l.closed == nil || !l.closed.Expired {
			continue
		}
		c := l.closed
		v := Violation{Fault: liveExpired, Session: l.id, At: c.At, Index: c.Index, Zxid: c.Zxid}
		term := b.term(uint64(c.Zxid) >> 32)
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
		if l := b.lives[c.Session]; l == nil || l.closed == nil || l.closed.At > c.At {
			found(Violation{Fault: toldExpired, Session: c.Session, At: c.At, Detail: fmt.Sprintf("member %d said so", c.Member)})
		}
	}
}

// renewal extends a session's time.
type renewal struct {
	arrives time.Duration // at the leader
	at      time.Duration // the timeout starts here
	timeout time.Duration
	sets    bool   // it replaces the time that the session had left
	member  uint32 // the member that heard the touch
}

// tooEarly returns why a session must not have been expired in term, or "" if that was allowed.
func (b *book) tooEarly(l *life, term Term) string {
	lost, rate := b.lost(term.Leader), b.rate(term.Leader)
	clock := func(at time.Duration) time.Duration { return counted(rate, at-lost.until(at)) }
	end := l.closed.At
	var until time.Duration // by the leader's clock
	var last renewal
	saved := forever // when a touch came too late and may not have saved the session
	for _, r := range b.renewals(l, term) {
		switch {
		case r.sets:
			saved, until = forever, 0
		case clock(r.arrives) > until:
			saved = r.arrives
		case saved != forever && r.arrives-saved > counted(1/rate, b.Tick):
			saved = forever
		}
		until = max(until, clock(r.at)+r.timeout-b.older(r, rate))
		last = r
	}
	if clock(end)+rounding(rate) >= until || saved != forever {
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

// older returns how much older than it is a touch may have seemed to a leader with a clock of that rate.
func (b *book) older(r renewal, rate float64) time.Duration {
	if r.member == 0 {
		return 0
	}
	return counted(max(0, b.rate(r.member)-rate), r.arrives-r.at+b.Tick)
}

// lost returns the time that a leader's pauses must have taken from its table.
func (b *book) lost(leader uint32) spans {
	var out []span
	rate := b.rate(leader)
	step, late := counted(1/rate, b.step()), counted(1/rate, b.late())
	for _, p := range b.paused(leader) {
		if p.to-p.from > step+late {
			out = append(out, span{from: p.from + step, to: p.to})
		}
	}
	return union(out)
}

// renewals returns the renewals that the leader of term must have counted before l was closed.
func (b *book) renewals(l *life, term Term) []renewal {
	var out []renewal
	end, tick := l.closed.At, max(b.Tick, counted(1/b.rate(term.Leader), b.Tick))
	if g := l.owner(term.From); g != nil {
		out = append(out, renewal{arrives: term.From, at: term.From, timeout: g.Timeout, sets: true})
	}
	for _, g := range l.grants {
		if g.At > term.From && g.At <= end {
			out = append(out, renewal{arrives: g.At, at: g.At, timeout: g.Timeout, sets: true})
		}
	}
	deaf := map[uint32]spans{}
	for _, t := range l.touches {
		g := l.owner(t.At)
		if t.At < term.From || t.At >= end || g == nil || g.Owner.Member != t.Member {
			continue
		}
		d, ok := deaf[t.Member]
		if !ok {
			d = b.deaf(term.Leader, t.Member)
			deaf[t.Member] = d
		}
		r := renewal{arrives: t.At, at: t.At, timeout: g.Timeout, member: t.Member}
		if heard := d.clear(t.At, tick, end); heard != t.At {
			if b.paused(t.Member).meet(t.At, heard) {
				continue
			}
			r.arrives = heard + tick
		}
		if r.arrives < end {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y renewal) int { return cmp.Compare(x.arrives, y.arrives) })
	return out
}
