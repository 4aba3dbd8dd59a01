package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// checkLive judges (a): no session that was heard from within its granted timeout, by a
// member that the leader could hear, is expired. For each session that was expired it
// follows what the leader of that term must have known:
//
//   - At the beginning of the term, when it is opened and at each attach, the session has
//     a full timeout; an attach may shorten what it had.
//   - A touch gives it a full timeout, from when the owner's member heard it, if the
//     leader could hear that member for a tick from then on, or until the close. If it
//     could not, the touch counts once it has heard the member for a tick, as touches are
//     kept and sent again; unless the member itself was down, and has forgotten it.
//   - The leader's time stands still while it is paused. A pause counts if it is so long
//     that a check must have been late by over a quarter tick, less the half tick that
//     the check may not have been due yet.
//
// Allowed is an expiry that was right when it was decided: after a silence of a full
// timeout the session may be heard again for as long as a tick and yet be closed, because
// the touch came behind the PING round that asked for it.
//
// Besides, no client is told that its session is expired before a member has closed it.
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

// renewal is what gives a session time.
type renewal struct {
	arrives time.Duration // at the leader
	at      time.Duration // the timeout runs from here
	timeout time.Duration
	sets    bool   // it replaces what the session had
	member  uint32 // of a touch
}

// tooEarly says why a session must not have been expired in term; "" if it might.
func (b *book) tooEarly(l *life, term Term) string {
	lost := b.lost(term.Leader)
	clock := func(at time.Duration) time.Duration { return at - lost.until(at) }
	end := l.closed.At
	var until time.Duration // on the leader's clock
	var last renewal
	saved := forever // when a touch came too late, and may not have saved the session
	for _, r := range b.renewals(l, term) {
		switch {
		case r.sets:
			saved, until = forever, 0
		case clock(r.arrives) > until:
			saved = r.arrives
		case saved != forever && r.arrives-saved > b.Tick:
			saved = forever
		}
		until = max(until, clock(r.at)+r.timeout)
		last = r
	}
	if clock(end) >= until || saved != forever {
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

// lost is the time that a leader's pauses must have taken from its table.
func (b *book) lost(leader uint32) spans {
	var out []span
	for _, p := range b.paused(leader) {
		if p.to-p.from > b.step()+b.late() {
			out = append(out, span{from: p.from + b.step(), to: p.to})
		}
	}
	return union(out)
}

// renewals are those that the leader of term must have counted before l was closed.
func (b *book) renewals(l *life, term Term) []renewal {
	var out []renewal
	end := l.closed.At
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
		if heard := d.clear(t.At, b.Tick, end); heard != t.At {
			if b.paused(t.Member).meet(t.At, heard) {
				continue
			}
			r.arrives = heard + b.Tick
		}
		if r.arrives < end {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(x, y renewal) int { return cmp.Compare(x.arrives, y.arrives) })
	return out
}
