package leader

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
)

const year = 365 * 24 * time.Hour

// fakeWall is a wall clock that can be set.
type fakeWall struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (w *fakeWall) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead).Round(0)
}

func (w *fakeWall) step(by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += by
}

// A clock that was set counts as jumped until it has run evenly for an hour, or is set back.
func TestClockJumps(t *testing.T) {
	type step struct {
		by, wait, want time.Duration
	}
	for name, steps := range map[string][]step{
		"right":          {{want: 0}, {wait: year}},
		"a second":       {{by: time.Second}, {wait: time.Hour}, {by: -time.Second}},
		"the limit":      {{by: maxClockGap}, {by: -2 * maxClockGap}},
		"just too far":   {{by: maxClockGap + 1, want: maxClockGap + 1}},
		"back":           {{by: -maxClockGap - 1, want: -maxClockGap - 1}},
		"a year":         {{by: year, want: year}, {wait: time.Hour - 1, want: year}, {wait: 1}, {wait: time.Hour}},
		"a year back":    {{by: -year, want: -year}, {wait: time.Hour - 1, want: -year}, {wait: 1}, {wait: time.Hour}},
		"there and back": {{by: year, want: year}, {by: -year}, {by: -year, want: -year}, {by: year}},
		"again within the hour": {
			{by: year, want: year},
			{wait: 59 * time.Minute, want: year},
			{by: time.Hour, want: year + time.Hour},
			{wait: time.Hour - 1, want: year + time.Hour},
			{wait: 1},
		},
		"a little more within the hour": { // it still goes on evenly
			{by: year, want: year},
			{wait: 30 * time.Minute, want: year},
			{by: time.Second, want: year + time.Second},
			{wait: 30 * time.Minute},
		},
		"back after the hour": {{by: year, want: year}, {wait: time.Hour}, {by: -year, want: -year}, {wait: time.Hour}},
		"small corrections": {
			{by: 50 * time.Second}, {wait: time.Hour}, {by: 50 * time.Second}, {wait: time.Hour}, {by: 50 * time.Second},
		},
		"small steps within the hour": {{by: 50 * time.Second}, {wait: time.Minute}, {by: 50 * time.Second, want: 100 * time.Second}},
		"beyond what a Duration holds": {
			{by: 250 * year, want: 100 * year},
			{wait: time.Minute, want: 100*year - time.Minute},
			{by: -250 * year},
			{by: -250 * year, want: -100 * year},
			{by: 250 * year},
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var wall fakeWall
			c := NewClock(wall.now)
			for i, s := range steps {
				wall.step(s.by)
				_ = c.Now()
				time.Sleep(s.wait)
				if got := c.Jump(); (got-s.want).Abs() > 10*time.Minute && s.want.Abs() > 99*year || got != s.want && s.want.Abs() < 99*year {
					t.Errorf("%s: step %d: jump %v, want %v", name, i, got, s.want)
				}
			}
		})
	}
}

// A clock that drifts all the time is never trusted.
func TestClockDrifts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wall fakeWall
		c := NewClock(wall.now)
		for i := range 1000 {
			time.Sleep(10 * time.Second)
			wall.step(time.Second)
			if got, drifted := c.Jump(), time.Duration(i+1)*time.Second; (got != 0) != (drifted > maxClockGap) {
				t.Fatalf("after %v: jump %v", drifted, got)
			}
		}
	})
}

const (
	notTrusted = "this member's clock is not trusted: containers and nodes with a TTL are not removed until it is"
	trusted    = "this member's clock is trusted again"
)

// A leader whose clock jumps stops in the middle of a round and logs it. It continues with the next
// round when the clock has been set back, or has run evenly for an hour.
func TestReaperIsHeldByAJump(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, year, -time.Hour, -year} {
		synctest.Test(t, func(t *testing.T) {
			var wall fakeWall
			e := newReaper(t, 500) // one each 10 ms
			e.cfg.WallClock = NewClock(wall.now)
			for id := 1; id <= 3; id++ { // all clocks jump alike
				e.members[id].change = func(pong *proto.Pong) bool {
					pong.ClockMs = wall.now().UnixMilli()
					return true
				}
			}
			e.run()
			e.at(11*time.Second + 5*time.Millisecond)
			wall.step(by)
			e.at(35 * time.Second)
			got, _ := e.log.reaped(t)
			if len(got) != 101 {
				t.Errorf("%v: %d nodes in all, 101 before the jump", by, len(got))
			}
			if n := e.records.count(notTrusted); n != 1 || !e.Stats().ReaperPaused {
				t.Errorf("%v: said %d times, held %t", by, n, e.Stats().ReaperPaused)
			}
			wall.step(-by)
			e.at(41*time.Second + 5*time.Millisecond)
			if got, _ := e.log.reaped(t); len(got) != 202 || e.records.count(trusted) != 1 || e.Stats().ReaperPaused {
				t.Errorf("%v: %d nodes, held %t", by, len(got), e.Stats().ReaperPaused)
			}
			e.at(60 * time.Second) // between two rounds
			wall.step(by)
			before, _ := e.log.reaped(t)
			e.at(58 * time.Minute)
			if got, _ := e.log.reaped(t); len(got) != len(before) {
				t.Errorf("%v: %d nodes in the hour after it", by, len(got)-len(before))
			}
			e.at(62 * time.Minute)
			if got, _ := e.log.reaped(t); len(got) == len(before) || e.records.count(trusted) != 2 {
				t.Errorf("%v: no nodes after an hour", by)
			}
			e.end()
		})
	}
}

// A leader reaps only if its clock agrees with the clocks of a majority of the members, itself included.
func TestReaperIsHeldByOthers(t *testing.T) {
	const away = year + 1 // the member does not answer
	tests := []struct {
		name         string
		second, last time.Duration
		reaps, says  bool
		apart        time.Duration
	}{
		{"all agree", 0, time.Minute, true, false, time.Minute},
		{"one is an hour ahead", time.Hour, 0, true, false, time.Hour},
		{"one is a year behind", 0, -year, true, false, year},
		{"both are an hour ahead", time.Hour, time.Hour, false, true, time.Hour},
		{"both are a year behind", -year, -year, false, true, year},
		{"all differ", time.Hour, -time.Hour, false, true, time.Hour},
		{"both just too far", time.Minute + time.Second, -time.Minute - time.Second, false, true, time.Minute + time.Second},
		{"one is away", 0, away, true, false, 0},
		{"one is away, the other differs", time.Hour, away, false, true, time.Hour},
		{"both are away", away, away, false, false, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			e := newReaper(t, 5)
			for id, ahead := range map[int]time.Duration{1: 0, 2: tt.second, 3: tt.last} {
				e.members[id].change = func(pong *proto.Pong) bool {
					if pong.Number != 0 {
						pong.ClockMs = time.Now().Add(ahead).UnixMilli()
					}
					return ahead != away
				}
			}
			e.run()
			e.at(11 * time.Second)
			got, _ := e.log.reaped(t)
			if s := e.Stats(); (len(got) == 5) != tt.reaps || (len(got) == 0) == tt.reaps ||
				(e.records.count(notTrusted) == 1) != tt.says || s.ReaperPaused != tt.says || s.MaxClockGap != tt.apart {
				t.Errorf("%s: %d nodes, said %d times, held %t, %v apart",
					tt.name, len(got), e.records.count(notTrusted), s.ReaperPaused, s.MaxClockGap)
			}
			e.end()
		})
	}
}

// What a member reported of its clock is forgotten when the stream has ended. No value that a
// member can report is taken for the leader's clock, or for one that differs by more than a century.
func TestClocksOfOthers(t *testing.T) {
	c := newClocks(nil, nil, nil)
	now := time.Now()
	for _, ms := range []int64{-1 << 63, 1<<63 - 1, 1, -1} {
		c.recordClock(2, ms, now)
		if agree, differ, most := c.compareClocks([]uint32{1, 2, 3}); agree != 0 || len(differ) != 1 || most < 50*year || most > 100*year {
			t.Errorf("%d: %d agree, %v differ, %v apart", ms, agree, differ, most)
		}
	}
	c.forgetMember(2)
	if agree, differ, most := c.compareClocks([]uint32{1, 2, 3}); agree != 0 || len(differ) != 0 || most != 0 {
		t.Errorf("forgotten: %d agree, %v differ, %v apart", agree, differ, most)
	}
}
