package follower

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/internal/monotonic"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// All waiting syncs share one call to the leader, which begins after they came, and complete once
// its index has been applied.
func TestSync(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		calls := 0
		index := r.state.index + 1
		release := make(chan struct{})
		l.sync = func(context.Context) (uint64, error) {
			calls++
			<-release
			return index, nil
		}
		first, second, third := &heard{}, &heard{}, &heard{}
		r.f.Sync(1, 0, first)
		synctest.Wait()
		r.f.Sync(1, 0, second) // too late for the call under way
		r.f.Sync(2, 0, third)
		synctest.Wait()
		release <- struct{}{}
		synctest.Wait()
		if first.times() != 0 || calls != 2 {
			t.Errorf("heard %d times before the index was applied; %d calls", first.times(), calls)
		}
		r.apply()
		synctest.Wait()
		if first.times() != 1 || second.times()+third.times() != 0 {
			t.Errorf("heard %d, %d, %d times", first.times(), second.times(), third.times())
		}
		release <- struct{}{} // its index has been applied already
		synctest.Wait()
		if first.times() != 1 || second.times() != 1 || third.times() != 1 || calls != 2 {
			t.Errorf("heard %d, %d, %d times after %d calls", first.times(), second.times(), third.times(), calls)
		}
	})
}

// If a call fails, or its leader changes, the request is sent to the current leader.
func TestSyncSurvivesItsLeader(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		tries := 0
		l.sync = func(ctx context.Context) (uint64, error) {
			tries++
			if tries == 1 {
				return 1, errors.New("no proof")
			}
			<-ctx.Done()
			return 1, ctx.Err()
		}
		w, gone := &heard{}, &heard{}
		r.f.Sync(1, 0, w)
		r.f.Sync(2, 0, gone)
		time.Sleep(tick / 4) // a second try is under way
		r.f.Detach(0, 2)
		began := time.Now()
		next := &fakeLeader{nonce: 1002, sync: func(context.Context) (uint64, error) { return 1, nil }}
		r.mu.Lock()
		r.leaders[2] = next
		r.mu.Unlock()
		r.start(2, 2, next.nonce)
		synctest.Wait()
		if w.times() != 1 || gone.times() != 0 || tries != 2 || time.Since(began) != 0 {
			t.Errorf("heard %d times after %d tries and %v; by a connection that is gone: %d", w.times(), tries, time.Since(began), gone.times())
		}
	})
}

// A leader returns the last index on its disk, and ends. The next leader's log is shorter, and no client writes. The
// sync is complete once the next TermStart is applied here, also if the reply comes after it. It is not complete before.
func TestSyncIndexIsLost(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l, release := r.announced(), make(chan struct{})
		lost := r.state.index + 10
		l.sync = func(context.Context) (uint64, error) {
			<-release
			return lost, nil
		}
		named, late := &heard{}, &heard{}
		r.f.Sync(1, 0, named)
		release <- struct{}{}
		synctest.Wait()
		r.f.Sync(2, 0, late)
		synctest.Wait()
		r.apply()
		synctest.Wait()
		if named.times() != 0 {
			t.Error("complete before its index is applied, in its term")
		}
		r.start(2, 2, 1002)
		synctest.Wait()
		if named.times() != 1 || late.times() != 0 {
			t.Errorf("in the next term: complete %d times, and %d times without a reply", named.times(), late.times())
		}
		release <- struct{}{}
		synctest.Wait()
		if late.times() != 1 {
			t.Errorf("a sync whose index was named after its term: complete %d times", late.times())
		}
	})
}

// A request is repeated if the leader does not reply. While raft is ahead of the leader that the member knows, no
// request is sent.
func TestSyncWaits(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		var asked []time.Time
		l.sync = func(ctx context.Context) (uint64, error) {
			asked = append(asked, time.Now())
			<-ctx.Done()
			return 1, ctx.Err()
		}
		began := time.Now()
		r.f.Sync(1, 0, &heard{})
		time.Sleep(tick + tick/200 + 1)
		synctest.Wait()
		if len(asked) != 2 || asked[1].Sub(began) != tick+tick/200 {
			t.Errorf("asked %d times", len(asked))
		}
		r.raft.term.Store(2)
		time.Sleep(10 * tick)
		synctest.Wait()
		if len(asked) != 2 {
			t.Errorf("asked %d times although raft's term has gone on", len(asked))
		}
	})
}

// A sync whose connection has ended is never completed, whatever it waits for.
func TestSyncDetached(t *testing.T) {
	bubble(t, nil, func(t *testing.T, r *rig) {
		l := r.announced()
		index := r.state.index + 1
		l.sync = func(context.Context) (uint64, error) { return index, nil }
		answered, asked, waiting := &heard{}, &heard{}, &heard{}
		r.f.Sync(1, 0, answered)
		synctest.Wait()
		l.sync = func(ctx context.Context) (uint64, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		r.f.Sync(2, 0, asked)
		synctest.Wait()
		r.f.Sync(3, 0, waiting)
		r.f.Detach(0, 1)
		r.f.Detach(0, 2)
		r.f.Detach(0, 3)
		r.apply()
		r.f.syncs.mu.Lock()
		if len(r.f.syncs.waiting) != 0 {
			t.Error("still waits")
		}
		r.f.syncs.mu.Unlock()
		time.Sleep(tick + tick/2)
		synctest.Wait()
		if answered.times()+asked.times()+waiting.times() != 0 {
			t.Errorf("heard %d, %d, %d times", answered.times(), asked.times(), waiting.times())
		}
		if s := r.f.syncs; len(s.waiting)+len(s.requested)+len(s.rounds) != 0 {
			t.Errorf("left: %d, %d, %d", len(s.waiting), len(s.requested), len(s.rounds))
		}
	})
}

// A call names the sessions whose clients wait, once each. A sync of a session that the leader is closing gets
// SessionExpired: its reply must not prove that the session lives.
func TestSyncsOfSessions(t *testing.T) {
	s, present := newSyncs(&Config{Tick: tick}, nil, nil), newTerm(znode.Term{}, time.Now())
	live, ending, other := &heard{}, &heard{}, &heard{}
	s.addSync(1, 21, live)
	s.addSync(1, 21, live)
	s.addSync(2, 22, ending)
	s.addSync(3, 0, other)
	s.claimWaitingSyncs()
	sessions := s.requestedSessions()
	slices.Sort(sessions)
	if !slices.Equal(sessions, []uint64{21, 22}) {
		t.Errorf("the call names %v", sessions)
	}
	s.assignReply(present, &proto.SyncReply{Index: 10, Ending: []uint64{30, 22}})
	s.advanceAppliedIndex(10)
	codes := map[znode.Waiter][]jute.Code{}
	for _, d := range s.takeDone(9) {
		codes[d.waiter] = append(codes[d.waiter], d.code)
	}
	if !slices.Equal(codes[live], []jute.Code{jute.OK, jute.OK}) || !slices.Equal(codes[other], []jute.Code{jute.OK}) ||
		!slices.Equal(codes[ending], []jute.Code{jute.SessionExpired}) {
		t.Errorf("live %v, ending %v, other %v", codes[live], codes[ending], codes[other])
	}
}

// A read by a lease waits for the entry that it depends on over the end of a term: the entry may be of the next term. If the entry is cut
// off, the read waits for the rest of what its member holds.
func TestHeldReadsOverTerms(t *testing.T) {
	for _, cutTo := range []uint64{10, 9} {
		first := newTerm(znode.Term{Term: 1}, time.Now())
		u := newUnapplied(monotonic.System{}, tick)
		u.entryStored(10, nil)
		s, read := newSyncs(&Config{Tick: tick}, &leadership{term: first}, u), &heard{}
		s.addHeld(1, 10, read)
		first.cancel()
		u.entryStored(cutTo, nil)
		for applied := uint64(8); applied < cutTo; applied++ {
			s.advanceAppliedIndex(applied)
			if done := s.takeDone(9); len(done) != 0 {
				t.Errorf("applied up to %d, and %d is held: the read is done", applied, cutTo)
			}
		}
		s.advanceAppliedIndex(cutTo)
		if done := s.takeDone(9); len(done) != 1 || done[0].waiter != read {
			t.Errorf("applied up to %d: %v done, want the read", cutTo, done)
		}
	}
}

// A read that depends on an earlier entry does not wait for those after it, although another read that came before does.
func TestHeldReadsInOrderOfEntries(t *testing.T) {
	leads := &leadership{term: newTerm(znode.Term{Term: 1}, time.Now())}
	u := newUnapplied(monotonic.System{}, tick)
	u.entryStored(20, nil)
	s := newSyncs(&Config{Tick: tick}, leads, u)
	reads := map[uint64]*heard{10: {}, 6: {}, 8: {}, 7: {}}
	for _, index := range []uint64{10, 6, 8, 8, 7} {
		s.addHeld(index, index, reads[index])
	}
	ending := &heard{}
	s.addSync(22, 22, ending)
	s.claimWaitingSyncs()
	s.assignReply(leads.term, &proto.SyncReply{Index: 8, Ending: []uint64{22}})
	s.addHeld(8, 8, reads[8])
	for _, tt := range []struct {
		applied uint64
		done    []*heard
	}{{5, nil}, {6, []*heard{reads[6]}}, {7, []*heard{reads[7]}}, {9, []*heard{reads[8], reads[8], reads[8], ending}}, {10, []*heard{reads[10]}}} {
		s.advanceAppliedIndex(tt.applied)
		done := s.takeDone(9)
		got := map[znode.Waiter]int{}
		for _, d := range done {
			got[d.waiter]++
			if (d.code == jute.SessionExpired) != (d.waiter == ending) {
				t.Errorf("applied up to %d: code %v", tt.applied, d.code)
			}
		}
		for _, w := range tt.done {
			got[w]--
			if got[w] < 0 {
				t.Errorf("applied up to %d: a read is not done", tt.applied)
			}
		}
		if len(done) != len(tt.done) {
			t.Errorf("applied up to %d: %d done, want %d", tt.applied, len(done), len(tt.done))
		}
	}
}

// A sync is for the call that begins after it, and is done once the index of that call is applied.
func TestSyncsInRounds(t *testing.T) {
	s, present := newSyncs(&Config{Tick: tick}, nil, nil), newTerm(znode.Term{}, time.Now())
	s.addSync(1, 0, &heard{})
	if !s.claimWaitingSyncs() {
		t.Fatal("no call for the first")
	}
	s.addSync(2, 0, &heard{})
	s.assignReply(present, &proto.SyncReply{Index: 10})
	s.advanceAppliedIndex(9)
	if done := s.takeDone(9); len(done) != 0 {
		t.Errorf("%d done before the index is applied", len(done))
	}
	s.advanceAppliedIndex(10)
	if done := s.takeDone(9); len(done) != 1 {
		t.Errorf("%d done, want the one before the call", len(done))
	}
	if !s.claimWaitingSyncs() {
		t.Error("no call for the second")
	}
	s.dropConn(2)
	s.assignReply(present, &proto.SyncReply{Index: 10})
	if done := s.takeDone(9); len(done) != 0 {
		t.Errorf("%d done of a connection that has gone", len(done))
	}
}
