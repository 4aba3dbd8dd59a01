package follower

import (
	"testing"
	"time"

	"rollcall/proto"
)

// A client's silence does not count while there is no leader: from the last ping of one to the first ping of the next. When there are
// too many of these times, the oldest become one, which seems longer.
func TestLeaderGaps(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	g := leaderGaps{tick: time.Minute}
	g.notePing(1, at(10)) // no leader before is known
	g.notePing(1, at(20))
	g.notePing(2, at(25))
	g.notePing(2, at(40))
	g.notePing(3, at(41))
	for heard, want := range map[int]int{0: 6, 20: 6, 22: 4, 25: 1, 30: 1, 41: 0, 50: 0} {
		if got := g.all().since(at(heard)); got != time.Duration(want)*time.Second {
			t.Errorf("silent since %d s: %v without a leader, want %d s", heard, got, want)
		}
	}
	for n := range 3 * maxGaps {
		g.notePing(uint64(4+n), at(50+10*n))
		g.notePing(uint64(4+n), at(51+10*n))
	}
	gaps := g.all()
	if len(gaps) != maxGaps || gaps[0].from != at(20) {
		t.Errorf("%d times are kept, from %v on, want %d from 20 s on", len(gaps), gaps[0].from.Sub(base), maxGaps)
	}
	for i, gap := range gaps[1:] {
		if gap.from.Before(gaps[i].to) {
			t.Errorf("times overlap: %v", gaps)
		}
	}
}

// A time of more than a tick between two pings of one leader does not count either, and a tick does.
func TestPausesAreGaps(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	g := leaderGaps{tick: 10 * time.Second}
	for _, s := range []int{10, 20, 31, 40} {
		g.notePing(1, at(s))
	}
	for heard, want := range map[int]int{10: 11, 20: 11, 25: 6, 31: 0} {
		if got := g.all().since(at(heard)); got != time.Duration(want)*time.Second {
			t.Errorf("silent since %d s: %v without pings, want %d s", heard, got, want)
		}
	}
}

// A member keeps what the last leader has said latest about lost members, and what the one before it has.
func TestLostReports(t *testing.T) {
	var l lostReports
	ping := func(nonce, term, order uint64) *proto.LostMembers {
		report := &proto.LostMembers{Term: term, Order: order}
		l.record(&proto.Ping{Nonce: nonce, Term: term, Lost: report})
		return report
	}
	if l.before(1) != nil {
		t.Error("a report before the first ping")
	}
	ping(1, 1, 4)
	newest := ping(1, 1, 6)
	ping(1, 1, 5) // on another stream
	l.record(&proto.Ping{Nonce: 1, Term: 1})
	if l.before(1) != nil || l.before(2) != newest {
		t.Errorf("to the same leader %v, to the next one %v; want none, and the newest", l.before(1), l.before(2))
	}
	second := ping(2, 2, 1)
	ping(1, 1, 7) // late
	if l.before(2) != newest || l.before(3) != second {
		t.Errorf("to leader 2 %v, to the next one %v", l.before(2), l.before(3))
	}
	third := ping(3, 2, 9) // the same member, in the same term of raft
	if l.before(3) != second || l.before(4) != third {
		t.Errorf("to leader 3 %v, to the next one %v", l.before(3), l.before(4))
	}
}
