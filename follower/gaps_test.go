package follower

import (
	"math"
	"slices"
	"testing"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
)

// unknown is a Raft.LastLead that knows nothing.
func unknown(uint64) time.Time { return time.Time{} }

// A client's silence does not count while there is no leader: from the last ping of one to the first ping of the next. When there are
// too many of these times, the oldest become one, which seems longer.
func TestLeaderGaps(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	g := leaderGaps{tick: time.Minute}
	ping := func(nonce uint64, now time.Time) { g.notePing(nonce, nonce, now, unknown) }
	ping(1, at(10)) // no leader before is known
	ping(1, at(20))
	ping(2, at(25))
	ping(2, at(40))
	ping(3, at(41))
	for heard, want := range map[int]int{0: 6, 20: 6, 22: 4, 25: 1, 30: 1, 41: 0, 50: 0} {
		if got := g.all().since(at(heard)); got != time.Duration(want)*time.Second {
			t.Errorf("silent since %d s: %v without a leader, want %d s", heard, got, want)
		}
	}
	for n := range 3 * maxGaps {
		ping(uint64(4+n), at(50+10*n))
		ping(uint64(4+n), at(51+10*n))
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

// A time without a leader begins when the leader of the last ping is last known to have led, before or after that ping. It begins with the
// ping if raft knows nothing or is in the same term, and if that leader led for more than a tick after it, so that pings were cut off.
func TestGapsBeginWithTheLastLead(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		name      string
		led       int // in term 5
		nextTerm  uint64
		wantBegin int
	}{
		{"after the ping", 27, 6, 27},
		{"a tick after the ping", 30, 6, 30},
		{"more than a tick after the ping", 31, 6, 20},
		{"before the ping, which came late", 17, 6, 17},
		{"unknown", -1, 6, 20},
		{"after the ping, and terms without a ping", 27, 9, 27},
		{"the same term of raft", 27, 5, 20},
	} {
		g := leaderGaps{tick: 10 * time.Second}
		lastLead := func(term uint64) time.Time {
			if term != 5 {
				return at(34)
			}
			if tt.led < 0 {
				return time.Time{}
			}
			return at(tt.led)
		}
		if _, changed := g.notePing(1, 5, at(20), lastLead); !changed {
			t.Errorf("%s: the first ping changes no leader", tt.name)
		}
		if _, changed := g.notePing(1, 5, at(20), lastLead); changed {
			t.Errorf("%s: the second ping changes the leader", tt.name)
		}
		former, changed := g.notePing(2, tt.nextTerm, at(35), lastLead)
		if want := (formerLeader{1, at(tt.wantBegin)}); !changed || former != want {
			t.Errorf("%s: after %+v, want %+v", tt.name, former, want)
		}
		if got := g.all().since(at(10)); got != time.Duration(35-tt.wantBegin)*time.Second {
			t.Errorf("%s: %v without a leader", tt.name, got)
		}
	}
}

// A time without a leader that begins before the end of others becomes one with them.
func TestGapsDoNotOverlap(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	for led, want := range map[int]int{57: 48, 55: 50, 48: 50, 20: 50, 5: 55} {
		g := leaderGaps{tick: 10 * time.Second}
		for _, s := range []int{0, 10, 25, 40, 55} { // three gaps of 15 s
			g.notePing(1, 5, at(s), unknown)
		}
		g.notePing(2, 6, at(60), func(uint64) time.Time { return at(led) })
		if got := g.all().since(at(0)); got != time.Duration(want)*time.Second {
			t.Errorf("led until %d s: %v do not count, want %d s", led, got, want)
		}
	}
}

// A time of more than a tick between two pings of one leader does not count either, and a tick does.
func TestPausesAreGaps(t *testing.T) {
	base := time.Now()
	at := func(s int) time.Time { return base.Add(time.Duration(s) * time.Second) }
	g := leaderGaps{tick: 10 * time.Second}
	for _, s := range []int{10, 20, 31, 40} {
		g.notePing(1, 1, at(s), unknown)
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
		l.record(&proto.Ping{Nonce: nonce, Term: term, Lost: report}, time.Time{})
		return report
	}
	if l.before(1) != nil {
		t.Error("a report before the first ping")
	}
	ping(1, 1, 4)
	newest := ping(1, 1, 6)
	ping(1, 1, 5) // on another stream
	l.record(&proto.Ping{Nonce: 1, Term: 1}, time.Time{})
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

// The members that the leader does not hear are those that its last ping names as silent for long enough: none of those with an earlier
// process alone, and none after the pings have ended.
func TestSilentMembers(t *testing.T) {
	base := time.Now()
	var l lostReports
	if got := l.silentMembers(base, 0, time.Hour); len(got) != 0 {
		t.Errorf("before the first ping: %v", got)
	}
	l.record(&proto.Ping{Nonce: 1, Term: 5, Lost: &proto.LostMembers{Term: 5, Order: 1, Members: []*proto.LostMember{
		{Member: 7, SilentMs: 60_000, Through: 7},
		{Member: 2, EndedSilentMs: 90_000, EndedThrough: 8},
		{Member: 4, SilentMs: 59_999, Through: 9},
		{Member: 3, SilentMs: 61_000, Through: 9},
		{Member: 5, SilentMs: 62_000}, // it lives
	}}}, base)
	want := []SilentMember{{3, 61 * time.Second}, {7, time.Minute}}
	if got := l.silentMembers(base.Add(4*time.Second), time.Minute, 4*time.Second); !slices.Equal(got, want) {
		t.Errorf("silent for a minute: %v, want %v", got, want)
	}
	if got := l.silentMembers(base.Add(4*time.Second+1), time.Minute, 4*time.Second); len(got) != 0 {
		t.Errorf("after the pings have ended: %v", got)
	}
}

// The silences in a report of lost members last until its leader is last known to have led. Members that it does not name as silent are
// not, and the report of another leader does not change.
func TestLostReportsLastAsLongAsTheirLeader(t *testing.T) {
	base := time.Now()
	said := func() *proto.LostMembers {
		return &proto.LostMembers{Term: 5, Order: 1, Members: []*proto.LostMember{
			{Member: 1, SilentMs: 3000, Through: 7},
			{Member: 2, EndedSilentMs: 4000, EndedThrough: 8},
			{Member: 3, SilentMs: math.MaxUint32 - 10, Through: 9},
		}}
	}
	for _, tt := range []struct {
		name                 string
		nonce                uint64
		led                  time.Duration // after the report
		silent, ended, third uint32
	}{
		{"when it came", 1, 0, 3000, 4000, math.MaxUint32 - 10},
		{"later", 1, 800*time.Millisecond + time.Microsecond, 3800, 4800, math.MaxUint32},
		{"before", 1, -time.Second, 3000, 4000, math.MaxUint32 - 10},
		{"of another leader", 2, time.Second, 3000, 4000, math.MaxUint32 - 10},
	} {
		var l lostReports
		l.record(&proto.Ping{Nonce: 1, Term: 5, Lost: said()}, base)
		l.endTerm(formerLeader{tt.nonce, base.Add(tt.led)})
		l.record(&proto.Ping{Nonce: 3, Term: 6, Lost: &proto.LostMembers{Term: 6, Order: 1}}, base.Add(time.Hour))
		want := said()
		want.Members[0].SilentMs, want.Members[1].EndedSilentMs, want.Members[2].SilentMs = tt.silent, tt.ended, tt.third
		if got := l.before(3); !pb.Equal(got, want) {
			t.Errorf("%s: %v, want %v", tt.name, got, want)
		}
	}
}
