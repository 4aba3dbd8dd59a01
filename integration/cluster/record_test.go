package cluster

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/lab/history"
	"rollcall/member"
	"rollcall/znode"
)

// A leader queries a member that has left for as long as that may have clients, also if the leader itself is no member
// of the newest list. The leader of a later term does not query it, from the beginning of its term on.
func TestWhomLeadersAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tick = time.Second
		r, err := newRecord(tick, []uint32{1, 2, 3}, false)
		if err != nil {
			t.Fatal(err)
		}
		all := []uint32{1, 2, 3, 4}
		start := func(number uint64, leader uint32) {
			w := &memberWitness{historyRecord: r, id: leader}
			w.TermStarted(znode.Term{Term: number, Leader: leader}, znode.LeaderCause{})
		}
		start(1, 2)
		at := func(d time.Duration, leader uint32, configuration ...uint32) {
			time.Sleep(d - r.sinceStart())
			r.noteLeading(leader, configuration, all)
		}
		at(1*tick, 2, 1, 2, 3)
		at(2*tick, 2, 2, 3) // 1 has left since the last look
		at(3*tick, 2, 2, 3, 4)
		at(4*tick, 2, 3, 4) // so has the leader itself, and 4 has come
		time.Sleep(tick)
		start(2, 3)
		at(6*tick, 3, 3, 4)
		at(7*tick, 3, 1, 3, 4) // 1 is back
		at(9*tick, 3, 1, 3, 4)
		at(10*tick, 3, 3, 4) // and has left again, but not for long
		at(11*tick, 3, 1, 3, 4)
		at(12*tick, 3, 3, 4)
		time.Sleep(tick)
		start(3, 3)
		at(14*tick, 3, 3, 4)
		at(20*tick, 3, 1, 3, 4)
		time.Sleep(11 * tick)
		r.endUnpinged()
		h, err := r.to.History(r.sinceStart())
		if err != nil {
			t.Fatal(err)
		}
		const asked, over = tick + member.RemovedGracePeriod, 31 * tick
		want := []history.Outage{
			{A: 1, B: 2, From: tick + asked, To: over, Partial: true},
			{A: 1, B: 3, From: 5 * tick, To: 7*tick + settling, Partial: true},
			{A: 1, B: 3, From: 13 * tick, To: 20*tick + settling, Partial: true},
			{A: 2, B: 3, From: 5 * tick, To: over, Partial: true},
			{A: 2, B: 4, From: 0, To: 3*tick + settling, Partial: true},
		}
		slices.SortStableFunc(h.Outages, func(a, b history.Outage) int { return int(a.A)*10 + int(a.B) - int(b.A)*10 - int(b.B) })
		if !slices.Equal(h.Outages, want) {
			t.Errorf("outages %+v, want %+v", h.Outages, want)
		}
	})
}

// A voter alone whose disk hangs while a session falls due gives up leading, and then leads again in its term. Whichever of its two
// times of leading the session's end belongs to, no rule is broken.
func TestSessionDueWhileTheLeaderAloneStalls(t *testing.T) {
	for _, stall := range []time.Duration{5500 * time.Millisecond, 9 * time.Second} {
		for offset := 7 * time.Second; offset < 10*time.Second; offset += 100 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				e := Start(t, 1, Options{Record: true})
				e.Ready()
				e.Connect(8 * time.Second).Abandon()
				time.Sleep(offset)
				e.record.noteFault(Played{Fault: Fault{Kind: Stall, For: stall}, Hit: 1}, e.IDs())
				e.Disk(1).Stall()
				time.Sleep(stall)
				e.Disk(1).Release()
				time.Sleep(20 * time.Second)
				h, err := e.History()
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range history.Check(h) {
					t.Errorf("stall of %v after %v: %v", stall, offset, v)
				}
			})
		}
	}
}
