package leader

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
)

// These cases list, for one index, the members that get the verdict that their state differs from the others' state.
func TestDecide(t *testing.T) {
	const x, y, z = 0xa, 0xb, 0xc
	tests := []struct {
		name    string
		members int      // voters
		digests []uint64 // by members 1 (the leader), 2, 3...; 0: the member has not marked the index; the first of them are the voters
		old     []uint32 // members whose digests are of another version
		late    bool
		wrong   []uint32
		open    bool // undecided
	}{
		{name: "nobody", members: 3, digests: []uint64{0, 0, 0}},
		{name: "no data but the leader's", members: 3, digests: []uint64{x, 0, 0}},
		{name: "three of three", members: 3, digests: []uint64{x, x, x}},
		{name: "two agree, one is away", members: 3, digests: []uint64{x, x, 0}, late: true},
		{name: "two to one", members: 3, digests: []uint64{x, x, y}, wrong: []uint32{3}},
		{name: "the leader is in the minority", members: 3, digests: []uint64{x, y, y}, wrong: []uint32{1}},
		{name: "the leader has not come so far", members: 3, digests: []uint64{0, y, y}},
		{name: "two differ, the leader has not come so far", members: 3, digests: []uint64{0, x, y}, late: true},
		{name: "one to one, the third may yet decide", members: 3, digests: []uint64{x, y, 0}, open: true},
		{name: "one to one, the third is away", members: 3, digests: []uint64{x, y, 0}, late: true, wrong: []uint32{2}, open: true},
		{name: "three different ones", members: 3, digests: []uint64{x, y, z}, wrong: []uint32{2, 3}},
		{name: "one of two", members: 2, digests: []uint64{x, y}, wrong: []uint32{2}},
		{name: "alone", members: 1, digests: []uint64{x}},
		{name: "two, two and one", members: 5, digests: []uint64{x, y, y, x, z}, wrong: []uint32{2, 3, 5}},
		{name: "two and two, one away", members: 5, digests: []uint64{x, y, y, x, 0}, open: true},
		{name: "two and two, one away for long", members: 5, digests: []uint64{x, y, y, x, 0}, late: true, wrong: []uint32{2, 3}, open: true},
		{name: "three and two", members: 5, digests: []uint64{x, y, y, x, y}, wrong: []uint32{1, 4}},
		{name: "three suffice without the others", members: 5, digests: []uint64{x, y, x, x, 0}, wrong: []uint32{2}},
		{name: "another version says nothing", members: 3, digests: []uint64{x, y, x}, old: []uint32{2}},
		{name: "a majority of another version", members: 3, digests: []uint64{x, y, y}, old: []uint32{2, 3}},
		{name: "a majority of another version has a minority", members: 5, digests: []uint64{x, y, y, y, z}, old: []uint32{2, 3, 4, 5}, wrong: []uint32{5}},
		{name: "an observer differs", members: 3, digests: []uint64{x, x, x, y}, wrong: []uint32{4}},
		{name: "observers are no majority", members: 3, digests: []uint64{x, x, 0, y, y, y}, wrong: []uint32{4, 5, 6}},
		{name: "observers make up for no voter", members: 3, digests: []uint64{x, y, 0, y, y}, open: true},
		{name: "observers do not decide", members: 3, digests: []uint64{x, y, 0, y, y}, late: true, wrong: []uint32{2, 4, 5}, open: true},
		{name: "two versions", members: 5, digests: []uint64{x, x, y, z, z}, old: []uint32{4, 5}, wrong: []uint32{3}},
	}
	voters := func(n int) (ids []uint32) {
		for id := range uint32(n) {
			ids = append(ids, id+1)
		}
		return ids
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all []memberView
			for i, digest := range tt.digests {
				id, version := uint32(i+1), uint32(2)
				if slices.Contains(tt.old, id) {
					version = 1
				}
				if digest != 0 {
					all = append(all, memberView{id, view{version, digest}})
				}
			}
			verdicts := map[uint32]*proto.Verdict{}
			open := addVerdictsAt(9, all, 1, voters(tt.members), tt.late, verdicts)
			if wrong := slices.Sorted(maps.Keys(verdicts)); !slices.Equal(wrong, tt.wrong) || open != tt.open {
				t.Errorf("against %v, undecided %t; want %v, %t", wrong, open, tt.wrong, tt.open)
			}
			for id, v := range verdicts {
				if v.Index != 9 || v.Own != tt.digests[id-1] || v.Theirs == v.Own || v.Agree < 1 || v.Members != uint32(tt.members) {
					t.Errorf("member %d is told %v", id, v)
				}
			}
		})
	}
}

func marksAt(digest uint64, indexes ...uint64) *proto.StateHashes {
	m := &proto.StateHashes{Version: 1, Indexes: indexes}
	for _, i := range indexes {
		m.Digests = append(m.Digests, digest+i)
	}
	return m
}

// setMarks sets the marks with which a member replies from now on.
func (m *fakeMember) setMarks(marks *proto.StateHashes) {
	m.set(func() {
		m.change = func(pong *proto.Pong) bool {
			if pong.Number != 0 {
				pong.StateHashes = marks
			}
			return true
		}
	})
}

func (m *fakeMember) lastVerdict() (v *proto.Verdict) {
	m.set(func() { v = m.verdict })
	return v
}

// A member that differs gets a verdict with the next ping. A member that lags is compared at the
// indexes that it has reached. The others get no verdict.
func TestVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.members[1].setMarks(marksAt(0, 10, 20, 30))
		e.members[2].setMarks(marksAt(0, 10))
		e.members[3].setMarks(marksAt(0, 10, 20))
		e.run()
		e.at(3 * tick)
		for _, m := range e.members[1:] {
			if v := m.lastVerdict(); v != nil {
				t.Fatalf("member %d is told %v", m.id, v)
			}
		}
		e.members[1].setMarks(marksAt(0, 20, 30, 40))
		e.members[2].setMarks(marksAt(0, 20, 30))
		e.members[3].setMarks(marksAt(5, 20, 30))
		e.at(4*tick + time.Millisecond)
		want := &proto.Verdict{Own: 35, Theirs: 30, Index: 30, Agree: 2, Members: 3} // the newest
		v := e.members[3].lastVerdict()
		if v == nil {
			t.Fatal("no member got a verdict")
		}
		if v.String() != want.String() {
			t.Errorf("told %v, want %v", v, want)
		}
		if e.members[1].lastVerdict() != nil || e.members[2].lastVerdict() != nil {
			t.Error("the others are told, too")
		}
		if n := e.records.count("a member's state differs from that of the others"); n != 1 {
			t.Errorf("%d lines of it", n)
		}
		e.end()
	})
}

// If a member differs at several indexes, it gets a verdict about one: the index at which most of the others agree, and
// the newest of several such indexes. The order of the comparisons does not matter.
func TestVerdictIsTheBest(t *testing.T) {
	x := func(n int, digest uint64) (all []memberView) {
		for i := range n {
			all = append(all, memberView{uint32(i + 1), view{1, digest}})
		}
		return append(all, memberView{5, view{1, 99}})
	}
	at := map[uint64][]memberView{10: x(3, 1), 20: x(4, 2), 30: x(4, 3), 40: x(3, 4)}
	for _, order := range [][]uint64{{10, 20, 30, 40}, {40, 30, 20, 10}, {30, 40, 10, 20}} {
		verdicts := map[uint32]*proto.Verdict{}
		for _, index := range order {
			addVerdictsAt(index, at[index], 1, []uint32{1, 2, 3, 4, 5}, false, verdicts)
		}
		if v := verdicts[5]; v == nil || v.Index != 30 || v.Theirs != 3 || v.Agree != 4 {
			t.Errorf("in the order %v: told %v", order, v)
		}
	}
}

// If no majority decides, the leader waits for the absent members. After that the leader's side is
// right.
func TestVerdictWithoutAMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.members[1].setMarks(marksAt(0, 10))
		e.members[2].setMarks(marksAt(5, 10))
		e.members[3].silent = true
		e.run()
		e.at(4 * tick)
		if v := e.members[2].lastVerdict(); v != nil {
			t.Errorf("told %v while the third may decide", v)
		}
		e.at(6*tick + time.Millisecond)
		if v := e.members[2].lastVerdict(); v == nil || v.Agree != 1 {
			t.Errorf("told %v when the third has been away for so long", v)
		}
		e.end()
	})
}

// When a member comes back on another stream its old marks do not count, because it may be another
// process.
func TestMarksOfAnOldStreamAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.members[1].setMarks(marksAt(0, 10))
		e.members[2].setMarks(marksAt(0, 10))
		e.members[3].setMarks(marksAt(5, 10))
		e.run()
		e.at(tick)
		if e.members[3].lastVerdict() == nil {
			t.Fatal("not told")
		}
		e.membership.presentLinks()[3].closeStreams()
		e.members[3].setMarks(nil)
		e.members[3].set(func() { e.members[3].verdict = nil })
		e.at(4 * tick)
		if v := e.members[3].lastVerdict(); v != nil {
			t.Errorf("told %v of what its former self had", v)
		}
		e.end()
	})
}

// One route to a member breaks and is opened again all the time. What the other one has brought is kept: a difference that no
// majority decides is decided in time, and the member's clock is known.
func TestFlappingRouteForgetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		flapping := &fakeMember{id: 2, silent: true}
		e.addRoute(0, flapping)
		e.members[1].setMarks(marksAt(0, 10))
		e.members[2].setMarks(marksAt(5, 10))
		e.members[2].delay = time.Millisecond // member 1 is compared without what was forgotten
		e.members[3].silent = true
		e.run()
		m := e.membership.presentLinks()[2]
		for now := tick / 8; now < 7*tick; now += tick / 2 { // pings come each tick/2, and a route opens tick/4 after its end
			e.at(now)
			m.mu.Lock()
			m.routes[0].closeStream()
			m.mu.Unlock()
			e.at(now + tick/4)
			if agree, _, _ := e.clocks.compareClocks([]uint32{1, 2, 3}); agree != 2 {
				t.Fatalf("%d clocks are known after %v, want 2", agree, now)
			}
		}
		if v := e.members[2].lastVerdict(); v == nil || flapping.dials() < 10 {
			t.Errorf("told %v, after %d dials of the other route", v, flapping.dials())
		}
		e.end()
	})
}

// Invalid marks end the stream.
func TestMarksRefused(t *testing.T) {
	c := newComparison(&Config{Self: 1, Tick: tick, SyncLimit: 5})
	long := marksAt(0, make([]uint64, maxStateHashes+1)...)
	for _, marks := range []*proto.StateHashes{{Indexes: []uint64{1}}, {Digests: []uint64{1}}, long} {
		if _, err := c.updateVerdicts(2, marks, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "member 2 sent") {
			t.Errorf("%d and %d: %v", len(marks.Indexes), len(marks.Digests), err)
		}
	}
	if _, err := c.updateVerdicts(2, marksAt(0, make([]uint64, maxStateHashes)...), nil, time.Now()); err != nil {
		t.Error(err)
	}
}
