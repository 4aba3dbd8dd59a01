package leader

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"rollcall/proto"
	"rollcall/sessiontracker"
)

// lostAt returns the lost members that a leader of three members knows at the start of its term.
func lostAt(begun time.Time) *lostMembers {
	l := newLostMembers(&Config{
		Self: 1, Tick: tick, Sessions: sessiontracker.NewGlobalTable(begun, tick, slices.Values[[]sessiontracker.TrackedSession](nil)),
		AppliedIndex: func() uint64 { return 50 }, Boots: map[uint32]uint64{1: 10, 2: 20, 3: 30},
	}, new(atomic.Uint64), begun)
	l.runs = func(now time.Time) time.Duration { return now.Sub(begun) }
	return l
}

// reportedLost returns the lost members that a ping reports at now, by member.
func reportedLost(l *lostMembers, now time.Time) map[uint32]*proto.LostMember {
	ping := &proto.Ping{Term: 3}
	l.appendTo(ping, now)
	all := map[uint32]*proto.LostMember{}
	for _, m := range ping.Lost.Members {
		all[m.Member] = m
	}
	return all
}

// A ping names a member that was not heard for a tick, for how long its process and the one before were not heard.
func TestPingsNameLostMembers(t *testing.T) {
	begun := time.Now()
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	l := lostAt(begun)
	l.heard(2, 20, at(5), 60)
	if got := reportedLost(l, at(6)); len(got) != 1 || got[3].GetSilentMs() != 6000 || got[3].GetThrough() != 50 ||
		got[3].GetEndedThrough() != 0 {
		t.Errorf("member 3 was never heard: %v", got)
	}
	l.heard(3, 30, at(6), 61)
	l.heard(3, 31, at(8), 62) // another process
	got := reportedLost(l, at(8))
	if got[2].GetSilentMs() != 3000 || got[2].GetThrough() != 60 || got[2].GetEndedThrough() != 0 {
		t.Errorf("member 2 was heard last at 5 s: %v", got[2])
	}
	if got[3].GetThrough() != 0 || got[3].GetEndedThrough() != 61 || got[3].GetEndedSilentMs() != 2000 {
		t.Errorf("an earlier process of member 3, which was heard last at 6 s: %v", got[3])
	}
}

// The time for which the leader's own process was paused is no silence of others.
func TestPausedLeaderHearsNobody(t *testing.T) {
	begun := time.Now()
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	l := lostAt(begun)
	table := l.runs
	l.runs = func(now time.Time) time.Duration { // paused from 10 s to 30 s
		return table(now) - max(0, min(table(now), 30*time.Second)-10*time.Second)
	}
	l.heard(2, 20, at(5), 60)
	l.heard(3, 30, at(32), 61)
	if got := reportedLost(l, at(36)); got[2].GetSilentMs() != 11000 || got[3].GetSilentMs() != 4000 {
		t.Errorf("silences %v, want 11 s of 31 of member 2, and 4 s of member 3", got)
	}
}

// A process that starts between two terms ends the one that was reported.
func TestLostProcessIsReplacedBetweenTerms(t *testing.T) {
	begun := time.Now()
	l := lostAt(begun)
	l.heard(3, 31, begun.Add(time.Second), 70)
	want := []sessiontracker.LostMember{{Member: 3, EndedSilent: 10 * time.Second, EndedThrough: 40}}
	if got := l.recordReport(1, report(2, gone(3, 9000)), []uint32{1}, begun.Add(time.Second)); !slices.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func report(term uint64, members ...*proto.LostMember) *proto.LostMembers {
	return &proto.LostMembers{Term: term, Members: members}
}

func gone(member uint32, silentMs uint32) *proto.LostMember {
	return &proto.LostMember{Member: member, SilentMs: silentMs, Through: 40}
}

// A leader counts the silences of lost members when a majority of the voters has said what it knows: by the newest term, and the least.
func TestLostMembersNeedAMajority(t *testing.T) {
	voters := []uint32{1, 2, 3, 4, 5}
	ended := &proto.LostMember{Member: 5, EndedThrough: 40, EndedSilentMs: 8000}
	tests := []struct {
		name    string
		reports []*proto.LostMembers // of members 1, 2 …; nil: it has none
		want    []sessiontracker.LostMember
	}{
		{"two of five", []*proto.LostMembers{report(2, gone(5, 9000)), report(2, gone(5, 9000))}, nil},
		{
			"three of five",
			[]*proto.LostMembers{report(2, gone(5, 9000)), report(2, gone(5, 8000)), report(2, gone(5, 9000))},
			[]sessiontracker.LostMember{{Member: 5, Silent: 8 * time.Second, Through: 40}},
		},
		{"one that has started anew", []*proto.LostMembers{report(2, gone(5, 9000)), nil, report(2, gone(5, 9000))}, nil},
		{"one to which it lived", []*proto.LostMembers{report(2, gone(5, 9000)), report(2), report(2, gone(5, 9000))}, nil},
		{"the first of which is one to which it lived", []*proto.LostMembers{report(2), report(2, gone(5, 9000)), report(2, gone(5, 9000))}, nil},
		{"one of a later term", []*proto.LostMembers{report(2, gone(5, 9000)), report(2, gone(5, 9000)), report(3)}, nil},
		{
			"one of an earlier term",
			[]*proto.LostMembers{report(3, gone(5, 9000)), report(3, gone(5, 9000)), report(2)},
			[]sessiontracker.LostMember{{Member: 5, Silent: 9 * time.Second, Through: 40}},
		},
		{
			"an earlier process",
			[]*proto.LostMembers{report(2, ended), report(2, ended), report(2, ended)},
			[]sessiontracker.LostMember{{Member: 5, EndedThrough: 40, EndedSilent: 8 * time.Second}},
		},
		{"earlier processes that differ", []*proto.LostMembers{report(2, ended), report(2, gone(5, 9000)), report(2, ended)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begun := time.Now()
			l := lostAt(begun)
			var got []sessiontracker.LostMember
			for i, r := range tt.reports {
				got = append(got, l.recordReport(uint32(i+1), r, voters, begun)...)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("counted %v, want %v", got, tt.want)
			}
			if again := l.recordReport(4, report(9, gone(5, 99)), voters, begun); tt.want != nil && again != nil {
				t.Errorf("counted %v again", again)
			}
		})
	}
}

// A member that was heard in this term has not been silent for longer, whatever was reported.
func TestLostMemberIsHeard(t *testing.T) {
	begun := time.Now()
	l := lostAt(begun)
	l.heard(2, 20, begun.Add(time.Second), 60)
	if got := l.recordReport(1, report(2, gone(2, 9000)), []uint32{1}, begun.Add(time.Second)); got != nil {
		t.Errorf("counted %v", got)
	}
}
