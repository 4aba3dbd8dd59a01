package leader

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/internal/metrics"
	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// A member counts once it is heard from, and as synced once it has applied what was committed when
// its stream opened. It does not count when its stream is closed.
func TestStatsOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.members[2].applied = 100 // all that is committed
		e.members[3].applied = 99
		if s := e.Stats(); s.Learners != 0 || s.SyncedVoters != 0 {
			t.Errorf("before anybody is heard: %+v", s)
		}
		connected := func(want map[uint32]bool) {
			t.Helper()
			if got := e.ConnectedMembers(); !maps.Equal(got, want) {
				t.Errorf("the connected members are %v, want %v", got, want)
			}
		}
		connected(map[uint32]bool{2: false, 3: false})
		e.run()
		e.at(tick)
		if s := e.Stats(); s.Learners != 2 || s.SyncedVoters != 1 || s.Uptime != tick {
			t.Errorf("one is behind: %+v", s)
		}
		e.members[3].set(func() { e.members[3].applied = 100 })
		e.at(2 * tick)
		if s := e.Stats(); s.Learners != 2 || s.SyncedVoters != 2 {
			t.Errorf("both have caught up: %+v", s)
		}
		connected(map[uint32]bool{2: true, 3: true})
		e.members[2].set(func() { e.members[2].silent = true })
		e.at(10 * tick)
		if s := e.Stats(); s.Learners != 1 || s.SyncedVoters != 1 {
			t.Errorf("one is silent: %+v", s)
		}
		connected(map[uint32]bool{2: false, 3: true})
		e.end()
	})
}

// Observers are learners, and counted apart from the voters.
func TestStatsOfObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3}, []uint32{4, 5, 6})
		for _, id := range []uint32{1, 2, 4, 5} {
			e.all[id].applied = 100 // all that is committed
		}
		e.silence(6)
		e.run()
		e.at(tick)
		if s := e.Stats(); s.Learners != 4 || s.SyncedVoters != 1 || s.Observers != 2 || s.SyncedObservers != 2 {
			t.Errorf("%+v, want 4 learners, of them 1 synced voter, and 2 observers, both synced", s)
		}
		e.reconfigure([]uint32{1, 2, 3, 4}, []uint32{5, 6})
		if s := e.Stats(); s.Learners != 4 || s.SyncedVoters != 2 || s.Observers != 1 || s.SyncedObservers != 1 {
			t.Errorf("an observer has become a voter: %+v", s)
		}
		e.end()
	})
}

// Transactions, including expiries, are counted when proposed and when committed. Sizes are those
// of the transactions of this term.
func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(9, 2), session(10, 2))
		if got := e.counters.TxnSizes.Spread(); got != (metrics.Spread{Last: -1, Min: -1, Max: -1}) {
			t.Errorf("sizes before the first: %+v", got)
		}
		e.log.delay = time.Second
		e.run()
		two, _, hangUp := e.forward(0)
		sent := writes(2, 100, 1, 2, 3)
		two.in <- sent
		synctest.Wait()
		if p, c := e.counters.Proposed.Load(), e.counters.Committed.Load(); p != 3 || c != 0 {
			t.Errorf("%d proposed, %d committed", p, c)
		}
		size := int64(pb.Size(sent.Txns[0]))
		if got := e.counters.TxnSizes.Spread(); got != (metrics.Spread{Last: size, Min: size, Max: size}) {
			t.Errorf("sizes %+v, want %d", got, size)
		}
		e.at(20 * tick)
		if p, c, x := e.counters.Proposed.Load(), e.counters.Committed.Load(), e.counters.Expired.Load(); p != 5 || c != 5 || x != 2 {
			t.Errorf("%d proposed, %d committed, %d expired", p, c, x)
		}
		if got := e.counters.TxnSizes.Spread(); got.Max != size || got.Last >= size || got.Last != got.Min || got.Last <= 0 {
			t.Errorf("sizes behind an expiry: %+v", got)
		}
		for _, m := range e.members[1:] {
			m.set(func() { m.silent = true })
		}
		go func() { _, _ = e.Sync(t.Context(), &proto.SyncRequest{Member: 2, Nonce: nonce}, 22) }()
		synctest.Wait()
		if n := e.Stats().SyncsAwaitingProof; n != 1 {
			t.Errorf("%d syncs wait for a proof that nobody gives", n)
		}
		hangUp()
		e.end()
	})
}

// The lateness of an expiry is the time from the end of the session's timeout until the expiry is
// applied. A session that came back while it was being closed does not count.
func TestLatenessIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 1), session(2, 1), session(3, 1))
		e.log.delay = 300 * time.Millisecond
		e.run()
		e.at(timeout / 2)
		e.table.Touch(3, time.Now(), timeout)
		e.at(3 * timeout)
		var want time.Duration
		for id, heard := range map[jute.SessionID]time.Duration{1: 0, 2: 0, 3: timeout / 2} {
			at, _ := e.log.when(id) // it is proposed
			want += at + e.log.delay - heard - timeout
		}
		if got := e.counters.ExpiryLateness.Buckets(); got.Count != 3 || got.Sum != want.Seconds() {
			t.Errorf("%d expiries were %v s late, want 3 and %v", got.Count, got.Sum, want.Seconds())
		}
		due := sessiontracker.OverdueSession{TrackedSession: session(4, 1)}
		e.expiryReporter.sealedExpiries = []sessiontracker.OverdueSession{due, {TrackedSession: session(5, 1)}}
		e.expiryReporter.recordLateness([]jute.SessionID{5}, time.Now())
		if n := e.counters.ExpiryLateness.Buckets().Count; n != 4 {
			t.Errorf("%d expiries, want 4: one of the two sessions has come back", n)
		}
		e.end()
	})
}

// A step counts as a pause if it is more than a quarter tick late.
func TestPausesAreCounted(t *testing.T) {
	e, _, wake := due(t)
	for _, step := range []struct {
		after time.Duration
		want  uint64
	}{{tick / 2, 0}, {tick/2 + tick/4, 0}, {tick/2 - tick/4, 0}, {tick/2 + tick/4 + 1, 1}, {5 * tick, 2}} {
		wake(step.after)
		if n := e.counters.Pauses.Load(); n != step.want {
			t.Errorf("a step after %v: %d pauses, want %d", step.after, n, step.want)
		}
	}
}

// What waits for an entry is shown.
func TestIntakeIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.log.delay = time.Second
		e.run()
		two, _, hangUp := e.forward(0)
		two.in <- writes(2, 100, 1)
		synctest.Wait()
		more := writes(2, 100, 2, 3)
		two.in <- more
		synctest.Wait()
		if s := e.Stats(); s.QueuedTxns != 2 || s.QueuedBytes != 2*pb.Size(more.Txns[0]) {
			t.Errorf("%d transactions of %d bytes wait, want 2 of %d", s.QueuedTxns, s.QueuedBytes, 2*pb.Size(more.Txns[0]))
		}
		e.at(tick)
		if s := e.Stats(); s.QueuedTxns != 0 || s.QueuedBytes != 0 {
			t.Errorf("%d transactions of %d bytes wait behind the last", s.QueuedTxns, s.QueuedBytes)
		}
		hangUp()
		e.end()
	})
}
