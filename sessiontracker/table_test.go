package sessiontracker

import (
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"rollcall/zk/jute"
)

const tick = 2 * time.Second

var start = time.Unix(1_000_000, 0)

func seeds(ids ...jute.SessionID) iter.Seq[TrackedSession] {
	return func(yield func(TrackedSession) bool) {
		for _, id := range ids {
			if !yield(TrackedSession{ID: id, Timeout: 4 * time.Second, OwnerMember: uint32(id), OwnerIndex: uint64(id) * 10}) {
				return
			}
		}
	}
}

// touchesAt returns touches that were all made at the same time.
func touchesAt(at time.Time, ids []int64, timeoutsMs []uint32) Touches {
	return Touches{First: at, IDs: ids, TimeoutsMs: timeoutsMs, AfterMs: make([]uint32, len(ids))}
}

func decided(t *GlobalTable) (ids []jute.SessionID) {
	for _, s := range t.TakeOverdue(nil, 1000) {
		ids = append(ids, s.ID)
	}
	slices.Sort(ids)
	return ids
}

// steps calls Advance in time until now, and returns when sessions first fell due.
func steps(t *GlobalTable, from, to time.Duration) (due time.Duration) {
	for now := from + t.UntilAdvance(start.Add(from)); now <= to; now += t.UntilAdvance(start.Add(now)) {
		if t.AdvanceIfDue(start.Add(now)); t.HasDue() {
			return now
		}
	}
	return -1
}

// All sessions of one bucket expire together, except the one that is touched just before the end of
// the bucket.
func TestOneBucketGoesTogether(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1, 2, 3))
	table.AddIfMissing(TrackedSession{ID: 4, Timeout: 4 * time.Second}, start.Add(500*ms))
	if due := steps(table, 0, 4*time.Second); due != -1 {
		t.Fatalf("due at %v, before the end of the bucket", due)
	}
	if !table.Touch(2, start.Add(4999*ms), 4*time.Second) {
		t.Error("Touch of a live session: false")
	}
	if due := steps(table, 4*time.Second, time.Minute); due != 5*time.Second {
		t.Fatalf("due at %v, want 5s", due)
	}
	if ids := decided(table); !slices.Equal(ids, []jute.SessionID{1, 3, 4}) {
		t.Errorf("decided %v, want 1, 3 and 4", ids)
	}
	if table.HasDue() {
		t.Error("Due after all were decided")
	}
	if due := steps(table, 5*time.Second, time.Minute); due != 9*time.Second {
		t.Fatalf("the touched one is due at %v, want 9s", due)
	}
	if got := table.TakeOverdue(nil, 2); len(got) != 1 || got[0].ID != 2 || got[0].LastHeard != 4999*ms {
		t.Errorf("decided %+v, want 2, heard last at 4.999s", got)
	}
}

// A touch saves a session that is due and not yet decided, even if the touch was made before the
// session fell due.
func TestTouchSavesWhatIsDue(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1, 2, 3, 4))
	now := start.Add(steps(table, 0, time.Minute))
	table.Touch(1, now.Add(10*ms), 4*time.Second)
	table.TouchAll(2, touchesAt(now.Add(-1500*ms), []int64{2}, []uint32{4000}), nil) // heard in time: due at 7.5 s
	table.TouchAll(3, touchesAt(now.Add(-2500*ms), []int64{3}, []uint32{2400}), nil) // heard, but too long ago
	if ids := decided(table); !slices.Equal(ids, []jute.SessionID{3, 4}) {
		t.Errorf("decided %v, want 3 and 4", ids)
	}
	if due := steps(table, now.Sub(start), time.Minute); due != 8*time.Second {
		t.Errorf("session 2 is due at %v, want 8s", due)
	}
	if ids := decided(table); !slices.Equal(ids, []jute.SessionID{2}) {
		t.Errorf("decided %v, want 2", ids)
	}
	if due := steps(table, 8*time.Second, time.Minute); due != 10*time.Second {
		t.Errorf("session 1 is due at %v, want 10s", due)
	}
}

func TestTouchAllRefuses(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1, 2, 3))
	steps(table, 0, time.Minute)
	table.Touch(2, start.Add(6*time.Second), tick)
	table.Touch(3, start.Add(6*time.Second), tick)
	decided(table) // 1 is closing
	var ids []int64
	var timeouts []uint32
	for i := range 3 * touchesPerSort {
		ids, timeouts = append(ids, int64(i%6)), append(timeouts, 4000)
	}
	refused := table.TouchAll(2, touchesAt(start.Add(6*time.Second), ids, timeouts), []int64{77})
	if refused[0] != 77 {
		t.Error("TouchAll does not append")
	}
	slices.Sort(refused)
	if want := []int64{0, 1, 3, 4, 5, 77}; !slices.Equal(slices.Compact(refused), want) {
		t.Errorf("member 2 was refused %v, want %v: only 2 is its own", refused, want)
	}
	if ids := table.TouchAll(2, touchesAt(start, nil, nil), nil); ids != nil {
		t.Errorf("TouchAll of nothing refused %v", ids)
	}
}

// Each session of a long batch gets the timeout that came with it, in whichever shard it is.
func TestTouchAllKeepsTimeouts(t *testing.T) {
	const n = 2*touchesPerSort + 5
	table := NewGlobalTable(start, tick, seeds())
	var ids []int64
	var timeouts []uint32
	for id := int64(1); id <= n; id++ {
		table.AttachSession(TrackedSession{ID: jute.SessionID(id), Timeout: time.Minute, OwnerMember: 1}, start.Add(-time.Hour)) // due long ago
		ids, timeouts = append(ids, id), append(timeouts, uint32(id))
	}
	if refused := table.TouchAll(1, touchesAt(start, ids, timeouts), nil); len(refused) != 0 {
		t.Fatalf("refused %v", refused)
	}
	for id := jute.SessionID(1); id <= n; id++ {
		if got := table.shardOf(id).queue.deadline(id); got != time.Duration(id)*ms {
			t.Fatalf("session %d is due at %v, want %v", id, got, time.Duration(id)*ms)
		}
	}
	checkShards(t, table)
}

func TestAttachRevivesAndOpenDoesNot(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1, 2))
	now := start.Add(steps(table, 0, time.Minute))
	if got := table.TakeOverdue(nil, 5); len(got) != 2 ||
		got[0].TrackedSession != (TrackedSession{ID: 1, Timeout: 4 * time.Second, OwnerMember: 1, OwnerIndex: 10}) {
		t.Fatalf("Decide = %v", got)
	}
	table.AddIfMissing(TrackedSession{ID: 1, Timeout: tick}, now)
	table.AttachSession(TrackedSession{ID: 2, Timeout: tick, OwnerMember: 9, OwnerIndex: 99}, now)
	if table.Touch(1, now, tick) || !table.Touch(2, now, tick) {
		t.Error("a late create must not save a closing session, an attach must")
	}
	if due := steps(table, 5*time.Second, time.Minute); due != 8*time.Second {
		t.Errorf("due at %v, want 8s", due)
	}
	if got := table.TakeOverdue(nil, 5); len(got) != 1 ||
		got[0].TrackedSession != (TrackedSession{ID: 2, Timeout: tick, OwnerMember: 9, OwnerIndex: 99}) {
		t.Errorf("Decide = %v, want 2 as attached", got)
	}
}

// A resume with a shorter timeout lowers the deadline; a touch with one does not.
func TestAttachLowersDeadline(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds())
	table.AddIfMissing(TrackedSession{ID: 1, Timeout: 40 * time.Second, OwnerMember: 1}, start)
	table.Touch(1, start, tick)
	table.AttachSession(TrackedSession{ID: 1, Timeout: 5 * time.Second, OwnerMember: 1}, start.Add(1500*ms))
	if due := steps(table, 0, time.Minute); due != 7*time.Second {
		t.Errorf("due at %v, want 7s", due)
	}
}

// A touch from before a resume with a shorter timeout comes late. It was made under the longer
// timeout, but the session ends as soon as its client expects now.
func TestTouchCountsWithTheGrantedTimeout(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds())
	table.AddIfMissing(TrackedSession{ID: 1, Timeout: 40 * time.Second, OwnerMember: 1}, start)
	table.AttachSession(TrackedSession{ID: 1, Timeout: 5 * time.Second, OwnerMember: 1}, start.Add(1500*ms))
	if refused := table.TouchAll(1, touchesAt(start.Add(1400*ms), []int64{1}, []uint32{40_000}), nil); len(refused) != 0 {
		t.Errorf("refused %v", refused)
	}
	table.Touch(1, start.Add(1400*ms), 40*time.Second)
	if due := steps(table, 0, time.Minute); due != 7*time.Second {
		t.Errorf("due at %v, want 7s", due)
	}
}

// However late Advance is, one call moves time by one step, and reports that it was late.
func TestAdvanceIsOneStep(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1))
	clock := start
	at := func(after time.Duration) time.Time { clock = clock.Add(after); return clock }
	tests := []struct {
		after time.Duration // since the call before
		late  bool
		wait  time.Duration // until the next
		due   bool
	}{
		{999 * ms, false, 1 * ms, false},        // early: nothing moves
		{1 * ms, false, time.Second, false},     // 1 s of table time
		{1500 * ms, false, 500 * ms, false},     // 2 s; not late, so the next one is due in time
		{1001 * ms, true, time.Second, false},   // 3 s; 501 ms late, which are lost
		{time.Hour, true, time.Second, false},   // 4 s
		{time.Second, false, time.Second, true}, // 5 s
	}
	for i, tt := range tests {
		late := table.AdvanceIfDue(at(tt.after))
		if wait := table.UntilAdvance(clock); late != tt.late || wait != tt.wait || table.HasDue() != tt.due {
			t.Errorf("call %d: late %t, wait %v, due %t; want %+v", i, late, wait, table.HasDue(), tt)
		}
	}
	if wait := table.UntilAdvance(clock.Add(time.Minute)); wait != 0 {
		t.Errorf("Wait past the check point = %v, want 0", wait)
	}
}

// While steps are in time, a touch never counts from a time ahead of the clock, nor from a time
// before it was made.
func TestTouchBetweenSteps(t *testing.T) {
	for _, delay := range []time.Duration{0, 300 * ms, 500 * ms} {
		table := NewGlobalTable(start, tick, seeds(1))
		heard := time.Second + delay // the step of 1 s is not taken yet
		table.Touch(1, start.Add(heard), 4*time.Second-300*ms)
		table.AdvanceIfDue(start.Add(heard))
		due := steps(table, heard, time.Minute)
		if lease := due - heard; lease <= 3700*ms || lease > 3700*ms+tick/2 {
			t.Errorf("step late by %v: a lease of %v for a timeout of 3.7s", delay, lease)
		}
	}
	// Advance was not called for an hour: that hour does not count.
	table := NewGlobalTable(start, tick, seeds(1))
	table.Touch(1, start.Add(time.Hour), 4*time.Second)
	due := steps(table, time.Hour, 2*time.Hour) - time.Hour
	if due <= 4*time.Second || due > 4*time.Second+tick/2+tick/4 {
		t.Errorf("due %v after a touch that followed a long pause", due)
	}
}

// While a due bucket is not decided, the next ones wait for it, and then fall due together.
func TestNextBucketWaitsForDecision(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds(1))
	for id := range jute.SessionID(5) {
		table.AddIfMissing(TrackedSession{ID: 10 + id, Timeout: 7 * time.Second}, start)
		table.AddIfMissing(TrackedSession{ID: 20 + id, Timeout: 9 * time.Second}, start)
	}
	for now := time.Second; now <= 11*time.Second; now += time.Second {
		table.AdvanceIfDue(start.Add(now))
	}
	if ids := decided(table); !slices.Equal(ids, []jute.SessionID{1}) {
		t.Fatalf("decided %v, want 1 alone: its round was not the others'", ids)
	}
	table.AdvanceIfDue(start.Add(12 * time.Second))
	if first := table.TakeOverdue(nil, 3); len(first) != 3 || !table.HasDue() {
		t.Errorf("Decide(3) = %v, due %t", first, table.HasDue())
	}
	if rest := table.TakeOverdue(nil, 100); len(rest) != 7 || table.HasDue() {
		t.Errorf("Decide(100) = %v, due %t", rest, table.HasDue())
	}
}

// model is the table in ZooKeeper's manner: a bucket for every session, computed anew at each
// touch.
type model struct {
	base     time.Time
	now      time.Duration
	polled   int64
	sessions map[jute.SessionID]*modelSession
	due      map[jute.SessionID]bool
}

type modelSession struct {
	seed    TrackedSession
	bucket  int64
	closing bool
}

func (m *model) bucket(at time.Time, timeout time.Duration) int64 {
	return int64(max(0, m.now+min(at.Sub(m.base), tick/2+tick/4)+timeout)/(tick/2)) + 1
}

func (m *model) put(s TrackedSession, at time.Time) {
	m.sessions[s.ID] = &modelSession{seed: s, bucket: max(m.polled+1, m.bucket(at, s.Timeout))}
	delete(m.due, s.ID)
}

func (m *model) touch(id jute.SessionID, member uint32, at time.Time, timeout time.Duration) bool {
	s := m.sessions[id]
	if s == nil || s.closing || member != 0 && member != s.seed.OwnerMember {
		return false
	}
	if b := m.bucket(at, min(timeout, s.seed.Timeout)); b > s.bucket {
		s.bucket = b
		if b > m.polled {
			delete(m.due, id)
		}
	}
	return true
}

func (m *model) advance(now time.Time) (late bool) {
	behind := now.Sub(m.base) - tick/2
	if behind < 0 {
		return false
	}
	m.now += tick / 2
	m.base = m.base.Add(tick / 2)
	if behind > tick/4 {
		late, m.base = true, now
	}
	if len(m.due) == 0 {
		m.polled = int64(m.now / (tick / 2))
		for id, s := range m.sessions {
			if !s.closing && s.bucket <= m.polled {
				m.due[id] = true
			}
		}
	}
	return late
}

func TestTableAgainstModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { againstModel(t, rand.New(rand.NewPCG(seed, 46))) })
	}
}

func againstModel(t *testing.T, r *rand.Rand) {
	table := NewGlobalTable(start, tick, seeds())
	m := &model{base: start, sessions: map[jute.SessionID]*modelSession{}, due: map[jute.SessionID]bool{}}
	now, closed := start, 0
	maxTicks := []int64{4, 20, 500}[r.IntN(3)]
	timeout := func() time.Duration { return time.Duration(r.Int64N(maxTicks*int64(tick/ms))+1) * ms }
	for range 10_000 {
		now = now.Add(time.Duration(r.Int64N(200)) * ms)
		s := TrackedSession{ID: jute.SessionID(r.IntN(200) + 1), Timeout: timeout(), OwnerMember: uint32(r.IntN(3) + 1), OwnerIndex: r.Uint64()}
		at := now.Add(-time.Duration(r.Int64N(3000)) * ms)
		switch n := r.IntN(100); {
		case n < 15:
			if m.sessions[s.ID] == nil {
				m.put(s, now)
			}
			table.AddIfMissing(s, now)
		case n < 25:
			m.put(s, now)
			table.AttachSession(s, now)
		case n < 30:
			ids := []jute.SessionID{s.ID}
			if n < 27 {
				table.RemoveSession(s.ID)
			} else {
				for range r.IntN(2 * touchesPerPass / shardCount) {
					ids = append(ids, jute.SessionID(r.IntN(200)+1)) // some of them unknown, or twice
				}
				table.RemoveSessions(ids)
			}
			for _, id := range ids {
				delete(m.sessions, id)
				delete(m.due, id)
			}
		case n < 50:
			if got, want := table.Touch(s.ID, at, s.Timeout), m.touch(s.ID, 0, at, s.Timeout); got != want {
				t.Fatalf("Touch(%s) = %t, want %t", s.ID, got, want)
			}
		case n < 75:
			refused := table.TouchAll(s.OwnerMember, touchesAt(at, []int64{int64(s.ID)}, []uint32{uint32(s.Timeout / ms)}), nil)
			if want := m.touch(s.ID, s.OwnerMember, at, s.Timeout); (len(refused) == 0) != want {
				t.Fatalf("TouchAll(%s) refused %v, want %t", s.ID, refused, want)
			}
		case n < 90:
			if got, want := table.AdvanceIfDue(now), m.advance(now); got != want {
				t.Fatalf("Advance late: %t, want %t", got, want)
			}
			checkShards(t, table)
		default:
			for _, got := range table.TakeOverdue(nil, r.IntN(5)) {
				if s := m.sessions[got.ID]; !m.due[got.ID] || s.seed != got.TrackedSession {
					t.Fatalf("Decide has %+v, due: %t", got, m.due[got.ID])
				} else {
					s.closing = true
					delete(m.due, got.ID)
					closed++
				}
			}
		}
		if len(m.due) > 0 && !table.HasDue() || table.Len() != len(m.sessions) {
			t.Fatalf("due %t and %d sessions, want %v and %d", table.HasDue(), table.Len(), m.due, len(m.sessions))
		}
		if table.HasDue() && len(m.due) == 0 { // the sessions of the list were saved; the next call of Due sees that
			if ids := decided(table); len(ids) > 0 {
				t.Fatalf("decided %v, want none", ids)
			}
		}
	}
	if closed < 10 {
		t.Errorf("only %d sessions closed: the test tests nothing", closed)
	}
}

// Touches, apply and expiry run at the same time. Nothing breaks, and a session that is touched all
// the time is never closed.
func TestTableConcurrent(t *testing.T) {
	table := NewGlobalTable(start, tick, seeds())
	const n, rounds = 5000, 60
	var ids []int64
	var timeouts []uint32
	for id := int64(1); id <= n; id++ {
		ids, timeouts = append(ids, id), append(timeouts, 3000)
		table.AddIfMissing(TrackedSession{ID: jute.SessionID(id), Timeout: 3 * time.Second, OwnerMember: 1}, start)
	}
	closed := map[jute.SessionID]bool{}
	for round := range time.Duration(rounds) {
		now := start.Add((round + 1) * tick / 2)
		var wg sync.WaitGroup
		wg.Go(func() { table.TouchAll(1, touchesAt(now, ids[:n/2], timeouts[:n/2]), nil) })
		wg.Go(func() { // sessions that come and go
			for id := jute.SessionID(n + 1); id < n+500; id++ {
				table.AttachSession(TrackedSession{ID: id, Timeout: tick, OwnerMember: 2}, now)
				table.Touch(id, now, tick)
				if round%2 == 0 {
					table.RemoveSession(id)
				}
			}
		})
		wg.Go(func() {
			table.AdvanceIfDue(now)
			if round%2 == 1 { // the touches of the round before are all done
				for _, s := range table.TakeOverdue(nil, 1_000_000) {
					closed[s.ID] = true
				}
			}
		})
		wg.Wait()
		checkShards(t, table)
	}
	for id := jute.SessionID(1); id <= n; id++ {
		if heard := id <= n/2; closed[id] == heard {
			t.Fatalf("%s: heard %t, closed %t", id, heard, closed[id])
		}
	}
}

func checkShards(t *testing.T, table *GlobalTable) {
	t.Helper()
	for i := range table.shards {
		check(t, table.shards[i].queue)
	}
}

func million(n int) iter.Seq[TrackedSession] {
	return func(yield func(TrackedSession) bool) {
		g := []*IDGenerator{NewIDGenerator(1, 1e12, 0), NewIDGenerator(2, 1e12, 0), NewIDGenerator(3, 1e12, 0)}
		for i := range n {
			m := i % 3
			if !yield(TrackedSession{ID: g[m].Next(), Timeout: 10 * time.Second, OwnerMember: uint32(m + 1), OwnerIndex: uint64(i)}) {
				return
			}
		}
	}
}

func TestSessionSize(t *testing.T) {
	if size := unsafe.Sizeof(sessionSlot{}); size != 32 {
		t.Errorf("a slot takes %d bytes, want 32", size)
	}
	const n, limit = 1_000_000, 96
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := NewGlobalTable(start, tick, million(n))
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := float64(after.HeapAlloc-before.HeapAlloc) / n
	t.Logf("%.1f bytes for each of %d sessions", each, table.Len())
	if each > limit {
		t.Errorf("%.1f bytes for each session, want %d at most", each, limit)
	}
	runtime.KeepAlive(table)
}

func TestTouchDoesNotAllocate(t *testing.T) {
	table := NewGlobalTable(start, tick, million(10_000))
	ids := slices.Collect(maps.Keys(maps.Collect(func(yield func(int64, bool) bool) {
		for s := range million(10_000) {
			if s.OwnerMember == 1 && !yield(int64(s.ID), true) {
				return
			}
		}
	})))
	touches := touchesAt(start, ids, make([]uint32, len(ids)))
	if n := testing.AllocsPerRun(10, func() {
		table.TouchAll(1, touches, nil)
		table.Touch(jute.SessionID(ids[0]), start, tick)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Expiries yields each session once, with the end of the bucket to which its last touch moved it,
// even if it is still filed in an earlier one. It does not yield sessions that are being closed.
func TestExpiries(t *testing.T) {
	var ids []jute.SessionID
	for id := range jute.SessionID(3 * recordsPerLock) {
		ids = append(ids, id+1)
	}
	table := NewGlobalTable(start, tick, seeds(ids...))
	table.RemoveSession(7)
	steps(table, 0, 3*time.Second)
	table.Touch(5, start.Add(3*time.Second), 4*time.Second)
	got := map[jute.SessionID]time.Duration{}
	for e := range table.Expiries() {
		if got[e.ID] != 0 {
			t.Fatalf("session %d is listed twice", e.ID)
		}
		got[e.ID] = e.At
	}
	if len(got) != len(ids)-1 || got[7] != 0 || got[6] != 5*time.Second || got[5] != 8*time.Second {
		t.Errorf("%d of %d; the removed at %v, the touched at %v, others at %v", len(got), len(ids), got[7], got[5], got[6])
	}
	if now := table.TableTime(start.Add(3 * time.Second)); now != 3*time.Second {
		t.Errorf("table time %v", now)
	}
	for now := 3 * time.Second; now <= 6*time.Second; now += tick / 2 {
		table.AdvanceIfDue(start.Add(now))
	}
	table.TakeOverdue(nil, 10)
	left := 0
	for range table.Expiries() {
		left++
	}
	if left != len(ids)-1-10 {
		t.Errorf("%d listed, 10 of %d are being closed", left, len(ids)-1)
	}
}

// LastHeard has the time since a session was touched, and the rest of its timeout.
func TestHeard(t *testing.T) {
	const timeout = 4 * time.Second
	table := NewGlobalTable(start, tick, seeds(1, 2, 3))
	for now := time.Duration(0); now <= 3*time.Second; now += tick / 2 {
		table.AdvanceIfDue(start.Add(now))
	}
	table.Touch(2, start.Add(2500*ms), timeout)
	at := start.Add(3 * time.Second)
	for id, want := range map[jute.SessionID]LastHeard{1: {3 * time.Second, time.Second}, 2: {500 * ms, 3500 * ms}} {
		if got, ok := table.LastHeard(id, at); got != want || !ok {
			t.Errorf("session %d: %+v, %t, want %+v", id, got, ok, want)
		}
	}
	if got, ok := table.LastHeard(9, at); ok {
		t.Errorf("an unknown session: %+v", got)
	}
	steps(table, 3*time.Second, 6*time.Second)
	if got, ok := table.LastHeard(1, start.Add(6*time.Second)); !ok || got != (LastHeard{Ago: 6 * time.Second}) {
		t.Errorf("an overdue session: %+v, %t", got, ok)
	}
	table.TakeOverdue(nil, 10)
	if got, ok := table.LastHeard(1, start.Add(6*time.Second)); ok {
		t.Errorf("a session that is being closed: %+v", got)
	}
}
