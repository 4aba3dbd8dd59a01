package leader

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// commitIn commits an entry that takes the time took, from which the leader learns the duration of commits, and drops
// the entry.
func (e *ensemble) commitIn(took time.Duration) {
	e.t.Helper()
	e.log.delay = took
	e.intake.enqueueReapWhenRoom(&proto.Txn{Op: int32(jute.OpReap)})
	time.Sleep(took + gatherTime)
	if n := e.log.countApplied(); n != 1 {
		e.t.Fatalf("%d transactions are applied, want 1", n)
	}
	e.log.forget()
}

// forget forgets the entries so far.
func (f *fakeLog) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proposed, f.begun, f.sizes, f.from, f.applied, f.most = nil, nil, nil, nil, nil, 0
}

// An entry waits for the one before for a sixteenth of the time of a commit, or for one that is far enough from it not at all.
func TestEntriesOverlap(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name    string
		commit  time.Duration
		writes  []time.Duration // since the first one
		entries []time.Duration // since the first write
		lengths []int
	}{
		{"a link with a delay", 80 * ms, []time.Duration{0, 1 * ms, 2 * ms, 6 * ms, 18 * ms, 19 * ms}, []time.Duration{0, 5 * ms, 10 * ms, 18 * ms, 23 * ms}, []int{1, 2, 1, 1, 1}},
		{"a short delay", 3 * ms, []time.Duration{0, ms / 4, 3 * ms / 2}, []time.Duration{0, ms, 2 * ms}, []int{1, 1, 1}},
		{"no delay", overlapFrom - 1, []time.Duration{0, ms / 4, 3 * ms / 2}, []time.Duration{0, overlapFrom - 1}, []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t)
				e.run()
				e.commitIn(tt.commit)
				stream, _, hangUp := e.forward(0)
				begun := time.Now()
				for i, at := range tt.writes {
					time.Sleep(time.Until(begun.Add(at)))
					stream.in <- writes(2, 10, uint64(i+1))
				}
				time.Sleep(time.Second)
				counted(t, e.log.seqs(2), len(tt.writes))
				var got []time.Duration
				for _, at := range e.log.begun {
					got = append(got, at.Sub(begun))
				}
				if n := e.log.lengths(); !slices.Equal(got, tt.entries) || !slices.Equal(n, tt.lengths) {
					t.Errorf("entries of %d after %v, want %d after %v", n, got, tt.lengths, tt.entries)
				}
				hangUp()
				e.end()
			})
		})
	}
}

// If commits become slow, the entries under way are limited in number and in bytes.
func TestEntriesUnderWayAreLimited(t *testing.T) {
	for _, tt := range []struct{ size, most int }{
		{10, maxUnderWay},
		{maxEntryBytes, maxUnderWayBytes / maxEntryBytes},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			e.run()
			const n = 2 * maxUnderWay
			stream, _, hangUp := e.forward(n)
			for range 2 {
				e.commitIn(20 * time.Millisecond)
				e.log.delay = time.Second
				for seq := uint64(1); seq <= n; seq++ {
					stream.in <- writes(2, tt.size, seq)
					time.Sleep(10 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				counted(t, e.log.seqs(2), n)
				if e.log.most != tt.most {
					t.Errorf("%d entries were under way at a time, want %d", e.log.most, tt.most)
				}
				e.log.forget()
			}
			hangUp()
			e.end()
		})
	}
}

// The expected time of a commit falls to the time of a shorter one at once, and rises slowly. So one slow commit makes
// no entries overlap.
func TestCommitTime(t *testing.T) {
	var u underWay
	now := time.Now()
	for i, tt := range []struct{ took, want time.Duration }{
		{900, 900}, {640, 640}, {1280, 650}, {640 + 640 + 10, 660}, {600, 600}, {600, 600},
	} {
		u.add(proposedEntry{begun: now})
		u.removeOldest(now.Add(tt.took))
		if u.commitTime != tt.want {
			t.Errorf("after commit %d, which took %d, the time of a commit is %d, want %d", i, tt.took, u.commitTime, tt.want)
		}
	}
}

// While an entry with removals is under way, the next ones have none, and the pause after it lasts as long as it took.
func TestRemovalsDoNotOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sessions []sessiontracker.TrackedSession
		for id := range 3 * maxExpiries {
			sessions = append(sessions, session(jute.SessionID(id+10), 3))
		}
		e := newEnsemble(t, sessions...)
		e.run()
		const took = 20 * time.Millisecond
		e.commitIn(took)
		stream, _, hangUp := e.forward(0)
		e.at(8 * time.Second)
		for seq := uint64(1); seq <= 200; seq++ {
			stream.in <- writes(2, 1, seq)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		hangUp()
		counted(t, e.log.seqs(2), 200)
		e.log.mu.Lock()
		defer e.log.mu.Unlock()
		var with []time.Time
		for i, entry := range e.log.proposed {
			if entry.Txns[len(entry.Txns)-1].Op == int32(jute.OpExpire) {
				with = append(with, e.log.begun[i])
			}
		}
		if len(with) != 3 || e.log.most < 4 {
			t.Fatalf("%d entries have expiries, want 3; %d entries were under way at a time, want 4 at least", len(with), e.log.most)
		}
		for i := range with[1:] {
			if pause := with[i+1].Sub(with[i]); pause < 2*took {
				t.Errorf("an entry with expiries began %v after the one before, want %v at least", pause, 2*took)
			}
		}
		if late, n := e.counters.ExpiryLateness.Buckets().Count, e.counters.Expired.Load(); late != 3*maxExpiries || n != 3*maxExpiries {
			t.Errorf("%d expiries and %d of them with their lateness were counted, want %d", n, late, 3*maxExpiries)
		}
		e.stop()
	})
}

// An entry that fails while others are under way ends the term.
func TestFailureAmongEntriesUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		e.commitIn(20 * time.Millisecond)
		e.log.fail = 2
		stream, _, _ := e.forward(0)
		for seq := uint64(1); seq <= 3; seq++ {
			stream.in <- writes(2, 10, seq)
			time.Sleep(5 * time.Millisecond)
		}
		select {
		case err := <-e.ended:
			if !errors.Is(err, errLost) || len(e.log.proposed) != 3 || len(e.log.seqs(2)) == 0 {
				t.Errorf("Run: %v after %d entries, want %v after 3", err, len(e.log.proposed), errLost)
			}
		case <-time.After(time.Minute):
			t.Fatal("the term goes on after an entry has failed")
		}
		e.stop()
		e.streams.Wait()
	})
}

// While the leader's disk is slow, the next entry waits for the one before, as on links without a delay.
func TestEntriesWaitForTheLeadersDisk(t *testing.T) {
	for _, slow := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			e.run()
			e.commitIn(20 * time.Millisecond)
			e.log.slowDisk = slow
			stream, _, hangUp := e.forward(0)
			for seq := range uint64(10) {
				stream.in <- writes(2, 10, seq+1)
				time.Sleep(6 * time.Millisecond)
			}
			time.Sleep(time.Second)
			counted(t, e.log.seqs(2), 10)
			if most := e.log.most; slow != (most == 1) {
				t.Errorf("with a slow disk: %t; %d entries under way at a time", slow, most)
			}
			hangUp()
			e.stop()
			e.end()
		})
	}
}
