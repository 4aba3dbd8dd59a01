package history

import (
	"testing"
	"time"

	"rollcall/zk/jute"
	"rollcall/znode"
)

// every returns the times from, from+step and so on, up to to.
func every(from, step, to time.Duration) []time.Duration {
	var out []time.Duration
	for at := from; at <= to; at += step {
		out = append(out, at)
	}
	return out
}

// (a). Sessions have a timeout of 4 s, and a tick is 1 s.
func TestLive(t *testing.T) {
	judgeTapes(t, []rule{
		{"silent, expired", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.expired(5*sec, s, 1, 1, 2, 3)
		}, ""},
		{"heard half a second before", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, every(sec, sec, 9*sec)...)
			p.expired(9500*ms, s, 1, 1, 2, 3)
		}, liveExpired},
		{"a moment too early", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.expired(5*sec-1, s, 1, 1, 2, 3)
		}, liveExpired},
		{"without a full timeout since it was opened", func(p *tape) {
			p.expired(3*sec, p.opened(0, 1, 2), 1, 1)
		}, liveExpired},
		{"heard on the leader itself", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.touches(1, s, 4900*ms)
			p.expired(5*sec, s, 1, 1)
		}, ""}, // after a silence of over 4 s the expiry may have been decided before
		{"heard too late, but for more than a tick", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.touches(1, s, every(4100*ms, 300*ms, 6*sec)...)
			p.expired(6*sec, s, 1, 1)
		}, liveExpired},
		{"heard by a member that does not own it", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(3, s, every(sec, sec, 4*sec)...)
			p.expired(5*sec, s, 1, 1)
		}, ""},
		{"heard by its new owner", func(p *tape) {
			s := p.attached(2*sec, p.opened(0, 1, 2), 3, 4*sec, 20)
			p.touches(3, s, 4*sec)
			p.expired(7*sec, s, 1, 1)
		}, liveExpired},
		{"attached with a shorter timeout", func(p *tape) {
			s := p.attached(1*sec, p.opened(0, 1, 2), 3, 2*sec, 20)
			p.expired(3500*ms, s, 1, 1)
		}, ""},
		{"heard by a member that the leader cannot hear", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, every(sec, sec, 4*sec)...)
			p.expired(5*sec, s, 1, 1)
		}, ""},
		{"cut within a tick of the touch", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 2*sec)
			p.Cut(2500*ms, 2, 1)
			p.expired(5*sec, s, 1, 1)
		}, ""},
		{"cut when the touch was through", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 2*sec)
			p.Cut(3100*ms, 2, 1)
			p.expired(5*sec, s, 1, 1)
		}, liveExpired},
		{"healed in time, and heard for a tick", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, 1*sec)
			p.Healed(2*sec, 1, 2)
			p.expired(4500*ms, s, 1, 1)
		}, liveExpired},
		{"healed too late to be heard for a tick", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, 1*sec)
			p.Healed(3500*ms, 1, 2)
			p.expired(4800*ms, s, 1, 1)
		}, ""},
		{"healed in time, but the member had crashed", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, 1*sec)
			p.Cut(1500*ms, 2, 2)
			p.Healed(1800*ms, 2, 2)
			p.Healed(2*sec, 1, 2)
			p.expired(4500*ms, s, 1, 1)
		}, ""},
		{"the leader's clock is fast", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 1.1}
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(4640*ms, s, 1, 1)
		}, ""},
		{"the leader's clock is not that fast", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 1.1}
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(4630*ms, s, 1, 1)
		}, liveExpired},
		{"the leader's clock is faster than it may be", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 2}
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(3*sec, s, 1, 1)
		}, liveExpired},
		{"the leader's clock is slow", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 0.9}
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(5440*ms, s, 1, 1)
		}, liveExpired},
		{"a fast clock has counted the age of a touch", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{2: 1.1}
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.expired(4900*ms, s, 1, 1)
		}, ""},
		{"a fast clock has not counted that much", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{2: 1.1}
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.expired(4890*ms, s, 1, 1)
		}, liveExpired},
		{"expired soon after its leader led again in its term", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 1, 1)
			p.Leads(6*sec, 1, 1, 1)
			p.expired(7*sec, s, 1, 1)
		}, liveExpired},
		{"cut only behind the close", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 3800*ms)
			p.expired(4500*ms, s, 1, 1)
			p.Cut(4600*ms, 2, 1)
			p.end = 6 * sec
		}, liveExpired},
		{"heard too late, then attached", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 4100*ms)
			s = p.attached(4300*ms, s, 3, 4*sec, 20)
			p.expired(5*sec, s, 1, 1)
		}, liveExpired},
		{"a new leader leaves a third of the timeout", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Leads(3*sec, 2, 0, 3)
			p.expired(4*sec, s, 2, 3)
		}, liveExpired},
		{"a new leader knows what its member has heard", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 2500*ms)
			p.Leads(3*sec, 2, 0, 3)
			p.expired(5*sec, s, 2, 3)
		}, liveExpired},
		{"expired by the new leader in time", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Leads(3*sec, 2, 0, 3)
			p.expired(7*sec, s, 2, 3)
		}, ""},
		{"a term that nobody led", func(p *tape) {
			p.expired(5*sec, p.opened(0, 1, 2), 7, 1)
		}, noTerm},
		{"the leader was paused, and counts the pause", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.Cut(2*sec, 1, 1)
			p.Healed(12*sec, 1, 1)
			p.touches(2, s, 12400*ms)
			p.expired(12500*ms, s, 1, 1)
		}, liveExpired},
		{"the leader was paused, and the session silent", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.Cut(2*sec, 1, 1)
			p.Healed(12*sec, 1, 1)
			p.expired(15*sec, s, 1, 1)
		}, ""},
		{"told of the expiry", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.expired(5*sec, s, 1, 1, 2)
			p.Connection(6*sec, Expired, 1, 3, 2)
		}, ""},
		{"told of an expiry before it", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Connection(4900*ms, Expired, 1, 3, 2)
			p.expired(5*sec, s, 1, 1, 2)
		}, toldExpired},
		{"told of an expiry that never was", func(p *tape) {
			p.opened(0, 1, 2)
			p.Connection(3*sec, Expired, 1, 3, 2)
		}, toldExpired},
	})
}

// (b)
func TestSilent(t *testing.T) {
	judgeTapes(t, []rule{
		{"at the last moment", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(6500*ms, s, 1, 1)
		}, ""},
		{"behind the last moment", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec)
			p.expired(6501*ms, s, 1, 1)
		}, silentKept},
		{"attached with a shorter timeout", func(p *tape) {
			s := p.attached(1*sec, p.opened(0, 1, 2), 3, 2*sec, 20)
			p.expired(4600*ms, s, 1, 1)
		}, silentKept},
		{"a touch of the longer timeout comes behind the attach", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 900*ms)
			s = p.attached(1*sec, s, 3, 2*sec, 20)
			p.touches(3, s, 1500*ms)
			p.expired(6500*ms, s, 1, 1)
		}, ""},
		{"never", func(p *tape) {
			p.opened(0, 1, 2)
			p.end = 5600 * ms
		}, silentKept},
		{"closed by its client", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Closed(3*sec, 1, 50, 1<<32+50, s, false)
			p.end = 20 * sec
		}, ""},
		{"the touch of another member comes with the next PING", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(2, s, 1*sec)
			p.expired(7*sec, s, 1, 1)
		}, ""},
		{"heard again after too long a silence", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.touches(1, s, 1*sec, 7*sec)
			p.end = 7 * sec
		}, silentKept},
		{"kept alive by a member that does not own it", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.touches(3, s, every(sec, sec, 9*sec)...)
			p.end = 9 * sec
		}, silentKept},
		{"heard while the leader could not hear its member", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, 1*sec)
			p.Healed(3*sec, 1, 2)
			p.expired(9*sec, s, 1, 1)
		}, ""},
		{"heard by the leader for a moment", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 1, 2)
			p.touches(2, s, 1*sec)
			p.Healed(3*sec, 1, 2)
			p.Cut(3200*ms, 1, 2)
			p.expired(8700*ms, s, 1, 1)
		}, ""},
		{"heard in an outage that let it through", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Hampered(500*ms, 20*sec, 1, 2)
			p.touches(2, s, 1*sec, 4*sec, 7*sec, 10*sec)
			p.end = 15 * sec
		}, ""},
		{"not heard in an outage that would have let it through", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Hampered(500*ms, 3*sec, 1, 2)
			p.touches(2, s, 1*sec)
			p.end = 20 * sec
		}, silentKept},
		{"heard before the new leader, who could not hear of it for long", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(500*ms, 2, 3)
			p.touches(2, s, 1*sec)
			p.Leads(3*sec, 2, 0, 3)
			p.Healed(6*sec, 2, 3)
			p.expired(12*sec, s, 2, 3)
		}, ""},
		{"nobody led", func(p *tape) {
			p.opened(0, 1, 2)
			p.endTerm(1*sec, 1)
			p.end = 60 * sec
		}, ""},
		{"the leader was alone", func(p *tape) {
			p.opened(0, 1, 2)
			p.Cut(1*sec, 1, 2)
			p.Cut(1*sec, 1, 3)
			p.end = 60 * sec
		}, ""},
		{"one member was out of reach, and the leader not alone", func(p *tape) {
			p.opened(0, 1, 2)
			p.Cut(1*sec, 1, 2)
			p.end = 60 * sec
		}, silentKept},
		{"a new leader begins anew", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Leads(5*sec, 2, 0, 3)
			p.expired(10500*ms, s, 2, 3)
		}, ""},
		{"a new leader begins anew, once", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Leads(5*sec, 2, 0, 3)
			p.expired(10501*ms, s, 2, 3)
		}, silentKept},
		{"the leader's disk hung", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 1, 1)
			p.expired(8500*ms, s, 1, 1)
		}, ""},
		{"the leader's disk hung, and then did not", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 1, 1)
			p.expired(8501*ms, s, 1, 1)
		}, silentKept},
		{"a leader leads again in its term, and begins anew", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 1, 1)
			p.Leads(6*sec, 1, 1, 1)
			p.expired(11500*ms, s, 1, 1)
		}, ""},
		{"a leader leads again in its term, and begins anew, once", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 1, 1)
			p.Leads(6*sec, 1, 1, 1)
			p.Leads(7*sec, 1, 1, 1) // a replay
			p.expired(11501*ms, s, 1, 1)
		}, silentKept},
		{"a leader leads again in its term without a reason", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Leads(3*sec, 1, 1, 1)
			p.expired(8*sec, s, 1, 1)
		}, silentKept},
		{"the disk of another member hung", func(p *tape) {
			s := p.opened(0, 1, 1)
			p.Hampered(3*sec, 6*sec, 2, 2)
			p.expired(5501*ms, s, 1, 1)
		}, silentKept},
		{"the leader's clock is slow", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 0.9}
			p.expired(6110*ms, p.opened(0, 1, 1), 1, 1)
		}, ""},
		{"the leader's clock is not that slow", func(p *tape) {
			p.recorded.Rates = map[uint32]float64{1: 0.9}
			p.expired(6120*ms, p.opened(0, 1, 1), 1, 1)
		}, silentKept},
		{"put off once after a pause", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(3*sec, 1, 1)
			p.Healed(6*sec, 1, 1)
			p.expired(9500*ms, s, 1, 1)
		}, ""},
		{"put off for ever after a pause", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Cut(3*sec, 1, 1)
			p.Healed(6*sec, 1, 1)
			p.expired(9600*ms, s, 1, 1)
		}, silentKept},
	})
}

// (f)
func TestVouches(t *testing.T) {
	dead := func(p *tape) znode.Session {
		s := p.opened(0, 1, 2)
		p.expired(5*sec, s, 1, 1, 3)
		return s
	}
	judgeTapes(t, []rule{
		{"before the expiry", func(p *tape) {
			dead(p)
			p.Vouched(4999*ms, 2, 1, 20, true)
		}, ""},
		{"at the expiry", func(p *tape) {
			dead(p)
			p.Vouched(5*sec, 2, 1, 20, true)
		}, ""},
		{"before any other member has applied it", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.expired(5*sec, s, 1, 2)
			p.expired(6*sec, s, 1, 1, 3)
			p.Vouched(5500*ms, 2, 1, 20, true)
		}, ""},
		{"refused", func(p *tape) {
			dead(p)
			p.Vouched(5001*ms, 2, 1, 20, false)
		}, ""},
		{"after the expiry", func(p *tape) {
			dead(p)
			p.Vouched(5001*ms, 2, 1, 20, true)
		}, vouchedDead},
		{"after the expiry, on a connection that the check does not know", func(p *tape) {
			dead(p)
			p.Vouched(5001*ms, 2, 1, 0, true)
		}, vouchedDead},
		{"after the expiry, on a connection that lost the session before", func(p *tape) {
			dead(p)
			p.Vouched(5001*ms, 2, 1, 19, true)
		}, ""},
		{"a session that its client closed", func(p *tape) {
			s := p.opened(0, 1, 2)
			p.Closed(1*sec, 1, 50, 1<<32+50, s, false)
			p.Vouched(1001*ms, 2, 1, 20, true)
		}, ""},
	})
}

func TestClientWindow(t *testing.T) {
	p := newTape(t)
	s := p.opened(0, 1, 2)
	p.expired(5*sec, s, 1, 1)
	p.recordCall(4000, 5200, get("/a"), no(jute.NoNode, 7))
	p.Event(5100*ms, 1, 1, jute.EventNodeCreated, "/a")
	p.recordCall(4000, 5900, get("/a"), no(jute.SessionExpired, 7))
	if got := clientWindow(p.history()); got != 200*ms {
		t.Errorf("clientWindow = %v, want 200ms", got)
	}
}

// In an ensemble with an even number of members, half of them are not a majority.
func TestAlone(t *testing.T) {
	h := History{Members: []uint32{1, 2, 3, 4}, Outages: []Outage{
		{A: 1, B: 2, From: 1, To: 9}, {A: 3, B: 3, From: 4, To: 6}, {A: 2, B: 4, From: 0, To: 20},
	}}
	got := indexHistory(&h).withoutMajority(1)
	if len(got) != 1 || got[0].from != 4 || got[0].to != 6 {
		t.Errorf("alone = %v, want 4 to 6", got)
	}
}

// While the members change, a leader counts as alone unless it hears all members of both lists. Afterwards the new list
// has the majority.
func TestAloneWhileMembersChange(t *testing.T) {
	h := History{Members: []uint32{1, 2, 3}, Configurations: []Configuration{
		{From: 10, Members: []uint32{1, 2, 3, 4, 5}, Moving: true}, {From: 20, Members: []uint32{1, 4, 5}},
	}, Outages: []Outage{{A: 1, B: 2, From: 5, To: 15}, {A: 1, B: 2, From: 25, To: 40}, {A: 1, B: 3, From: 25, To: 40}, {A: 1, B: 4, From: 30, To: 40}, {A: 1, B: 5, From: 35, To: 40}}}
	got := indexHistory(&h).withoutMajority(1)
	if len(got) != 2 || got[0].from != 10 || got[0].to != 15 || got[1].from != 35 || got[1].to != 40 {
		t.Errorf("alone = %v, want 10 to 15 and 35 to 40", got)
	}
}

// clientWindow returns the longest time for which a client still received replies and events after
// a member had applied the expiry of the session.
func clientWindow(h History) time.Duration {
	indexed := indexHistory(&h)
	var longest time.Duration
	measure := func(session jute.SessionID, at time.Duration) {
		if l := indexed.sessions[session]; l != nil && l.closed != nil && l.closed.Expired {
			longest = max(longest, at-l.closed.At)
		}
	}
	for i := range h.Calls {
		if c := &h.Calls[i]; c.hasReply() && c.Reply.Code != jute.SessionExpired && c.Reply.Code != jute.SessionMoved {
			measure(c.Session, c.Returned.At)
		}
	}
	for _, e := range h.Events {
		measure(e.Session, e.At)
	}
	return longest
}
