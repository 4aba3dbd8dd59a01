package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Pings go out at once and then every half tick, to every member.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		for _, m := range e.members[1:] {
			m.set(func() {
				if !slices.Equal(m.pings, []uint64{1}) {
					t.Errorf("member %d got %v at the start, want 1", m.id, m.pings)
				}
			})
		}
		e.at(5*tick + time.Millisecond)
		for _, m := range e.members[1:] {
			m.set(func() {
				if len(m.pings) != 11 || !slices.IsSorted(m.pings) {
					t.Errorf("member %d got %v in five ticks, want 11", m.id, m.pings)
				}
			})
		}
		e.end()
	})
}

// Touches are acknowledged at once, with the rejected sessions and the commit index.
func TestAcknowledgement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2), session(2, 2), session(3, 3))
		e.run()
		m := e.members[2]
		for id := range jute.SessionID(5) {
			m.touched.Touch(id, timeout, time.Now())
		}
		e.at(tick / 2)
		want := &proto.Ack{Incarnation: 77, Through: 1, Refused: []int64{0, 3, 4}, Commit: 100}
		if got := m.acked(); len(got) != 1 || got[0].String() != want.String() {
			t.Fatalf("acknowledged %v, want %v", got, want)
		}
		m.touched.Touch(1, timeout, time.Now())
		m.flush() // unasked
		synctest.Wait()
		if got := m.acked(); len(got) != 2 || got[1].Through != 2 || len(got[1].Refused) != 0 {
			t.Errorf("acknowledged %v, want through 2", got)
		}
		e.end()
	})
}

// An acknowledgement waits until a majority has answered a proof round that began after the touches
// came, and is then sent at once.
func TestAcknowledgementNeedsProof(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		e.members[2].joining, e.members[3].joining = true, true
		e.run()
		m := e.members[2]
		m.touched.Touch(1, timeout, time.Now())
		e.at(4500 * time.Millisecond)
		if got := m.acked(); len(got) != 0 {
			t.Fatalf("acknowledged %v on this member's word alone", got)
		}
		if at, closed := e.log.when(1); closed {
			t.Errorf("closed at %v: the touch must count all the same", at)
		}
		e.members[3].set(func() { e.members[3].joining = false })
		e.members[3].stream.out <- &proto.Pong{Proof: 1}
		synctest.Wait()
		if got := m.acked(); len(got) != 2 { // for the touches' first coming, and for all later ones
			t.Errorf("acknowledged %v at once when the proof was there, want two", got)
		}
		e.end()
	})
}

// A member that has applied more of the log than the leader may know sessions that the leader does not know. They are
// rejected only once the leader has caught up.
func TestLeaderBehindMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		e.run()
		m := e.members[2]
		e.applied.Store(9)
		m.set(func() { m.applied = 10 })
		m.touched.Touch(1, timeout, time.Now())
		m.touched.Touch(5, timeout, time.Now())
		e.at(tick)
		if got := m.acked(); len(got) != 0 {
			t.Fatalf("acknowledged %v", got)
		}
		e.table.AddIfMissing(session(5, 2), time.Now())
		e.applied.Store(10)
		e.at(tick + tick/2)
		if got := m.acked(); len(got) != 1 || got[0].Through != 1 || len(got[0].Refused) != 0 {
			t.Errorf("acknowledged %v, want all", got)
		}
		m.set(func() { m.applied = 20 })
		m.touched.Touch(5, timeout, time.Now())
		e.at(2 * tick)
		if got := m.acked(); len(got) != 2 {
			t.Errorf("acknowledged %v: nothing was in doubt", got)
		}
		e.end()
	})
}

// A reply in parts is one reply. Many rejected sessions are sent in parts, and only the last part acknowledges.
func TestAnswersInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		e.run()
		m := e.members[2]
		const n = maxRefused + 10
		var parts []*proto.Pong
		for part := range int64(2) {
			batch := &proto.Batch{Number: 4, TimeoutsMs: make([]uint32, n/2+1), AfterMs: make([]uint32, n/2+1)}
			for i := range int64(n/2 + 1) {
				batch.Sessions = append(batch.Sessions, part*(n/2)+i+1) // 1 is known, one comes twice
			}
			parts = append(parts, &proto.Pong{Incarnation: 77, More: part == 0, Batches: []*proto.Batch{batch}})
		}
		m.stream.out <- parts[0]
		synctest.Wait()
		if got := m.acked(); len(got) != 0 {
			t.Fatalf("acknowledged half an answer: through %d", got[0].Through)
		}
		m.stream.out <- parts[1]
		synctest.Wait()
		got := m.acked()
		if len(got) != 2 || got[0].Through != 0 || got[1].Through != 4 {
			t.Fatalf("acknowledged in %d parts, want two", len(got))
		}
		if len(got[0].Refused) != maxRefused || len(got[1].Refused) != 10 || got[1].Refused[9] != n+1 {
			t.Errorf("refused %d and %v", len(got[0].Refused), got[1].Refused)
		}
		e.end()
	})
}

// A proof alone is not the reply to a ping. It does not end the reply between whose parts it comes, whatever its More
// says.
func TestProofIsNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2), session(2, 2))
		m := e.members[2]
		m.change = func(*proto.Pong) bool { return false }
		e.run()
		answered := func() uint64 {
			l := e.membership.presentLinks()[2]
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.repliedPing
		}
		part := func(id int64, number uint64, more bool) *proto.Pong {
			batch := &proto.Batch{Number: 4, Sessions: []int64{id}, TimeoutsMs: []uint32{6000}, AfterMs: []uint32{0}}
			return &proto.Pong{Incarnation: 77, Number: number, More: more, Batches: []*proto.Batch{batch}}
		}
		for _, more := range []bool{false, true} {
			m.stream.out <- &proto.Pong{Incarnation: 77, Proof: 1, More: more}
			synctest.Wait()
			if n := answered(); n != 0 {
				t.Errorf("a proof, with more %t, is taken for the answer to ping %d", more, n)
			}
		}
		m.stream.out <- part(1, 1, true)
		for _, more := range []bool{true, false} {
			m.stream.out <- &proto.Pong{Incarnation: 77, Proof: 1, More: more}
			synctest.Wait()
			if got := m.acked(); len(got) != 0 || answered() != 0 {
				t.Fatalf("half an answer and a proof, with more %t: acknowledged %v, ping %d answered", more, got, answered())
			}
		}
		m.stream.out <- part(2, 1, false)
		synctest.Wait()
		if got := m.acked(); len(got) != 1 || got[0].Through != 4 || answered() != 1 {
			t.Errorf("the whole answer: acknowledged %v, ping %d answered", got, answered())
		}
		e.end()
	})
}

// An invalid reply ends the stream, not the term. Another stream is opened.
func TestBrokenAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		e.run()
		m := e.members[2]
		m.stream.out <- &proto.Pong{Proof: 999} // a round that is still to come
		m.stream.out <- &proto.Pong{Batches: []*proto.Batch{{Number: 1, Sessions: []int64{1, 2}, TimeoutsMs: []uint32{1}}}}
		e.at(tick)
		if m.dials() != 2 || e.records.count("member is out of reach") != 1 || e.records.count("member is back") != 1 {
			t.Errorf("dialled %d times, logged %v", m.dials(), e.records.seen)
		}
		// An age beyond all bounds is old, not new.
		m.stream.out <- &proto.Pong{Batches: []*proto.Batch{{Number: 1, AgeUs: 1 << 63, Sessions: []int64{1}, TimeoutsMs: []uint32{6000}, AfterMs: []uint32{0}}}}
		e.at(time.Minute)
		if at, _ := e.log.when(1); at != 8*time.Second {
			t.Errorf("closed at %v, want 8s", at)
		}
		e.end()
	})
}

// A member that sends nothing for the sync limit loses its streams, is tried again, and is logged
// once. The other members are served, and later this member too.
func TestSilentMemberIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2), session(2, 3))
		e.run()
		m := e.members[2]
		stream, ended, _ := e.forward(0)
		stream.in <- writes(2, 10, 1)
		e.at(tick)
		m.set(func() { m.silent = true })
		e.at(6*tick - time.Millisecond)
		if m.dials() != 1 || len(ended) != 0 {
			t.Fatal("cut off before the limit")
		}
		e.at(6 * tick)
		if err := <-ended; status.Code(err) != codes.Unavailable {
			t.Errorf("its writes ended with %v", err)
		}
		e.at(30 * tick)
		if m.dials() < 5 || m.dials() > 6 || e.members[3].dials() != 1 {
			t.Errorf("dialled %d times, and the healthy one %d times", m.dials(), e.members[3].dials())
		}
		if n := e.records.count("member is out of reach"); n != 1 {
			t.Errorf("logged %d times: %v", n, e.records.seen)
		}
		m.set(func() { m.silent = false })
		e.at(32 * tick)
		if e.records.count("member is back") != 1 {
			t.Errorf("logged %v", e.records.seen)
		}
		e.end()
	})
}

// A member that ends its stream without an error is stopping, and is not out of reach. A member that starts has a tick
// to reply. A member that rejects pings knows a newer term. None of these cases is logged as a warning.
func TestNoFalseAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		starts, refuses := e.members[2], e.members[3]
		starts.refuse, refuses.refuse = errors.New("connection refused"), status.Error(codes.FailedPrecondition, "ping of term 1 in term 2")
		e.run()
		e.at(tick - time.Millisecond)
		starts.set(func() { starts.refuse = nil })
		e.at(2 * tick)
		if len(e.records.seen) != 0 {
			t.Errorf("logged %v", e.records.seen)
		}
		starts.set(func() { close(starts.stream.end) })
		e.at(4 * tick)
		if want := []string{"member stops", "member is back"}; !slices.Equal(e.records.seen, want) {
			t.Errorf("logged %v, want %v", e.records.seen, want)
		}
		e.end()
	})
}

// A member that cannot be reached is tried again and again, with pauses.
func TestUnreachableMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		m := e.members[2]
		m.refuse = errors.New("connection refused")
		e.run()
		e.at(5*tick + time.Millisecond)
		if n := m.dials(); n < 10 || n > 21 || e.records.count("member is out of reach") != 1 {
			t.Errorf("dialled %d times, logged %v", n, e.records.seen)
		}
		m.set(func() { m.refuse = nil })
		e.at(6 * tick)
		m.set(func() {
			if len(m.pings) < 2 {
				t.Errorf("pings %v after it came back", m.pings)
			}
		})
		e.end()
	})
}

// If this process itself was paused, no stream is cut because of it.
func TestPauseCutsNobodyOff(t *testing.T) {
	e, r, _ := due(t)
	cut := 0
	for _, m := range e.membership.presentLinks() {
		m.openStream(m.routes[0], func() { cut++ }, e.start, 0)
	}
	e.advanceTableAndPing(r, e.start.Add(100*tick))
	e.advanceTableAndPing(r, e.start.Add(100*tick+tick/2))
	if cut != 0 {
		t.Errorf("%d members cut off after a pause", cut)
	}
	for i := range time.Duration(11) {
		e.advanceTableAndPing(r, e.start.Add(101*tick+i*tick/2))
	}
	if cut != 3 {
		t.Errorf("%d members cut off after a time of silence, want 3", cut)
	}
}

// A sync is answered after a proof begun since the call, with an index from before.
func TestSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		reply, err := e.Sync(t.Context(), &proto.SyncRequest{Nonce: nonce}, 0)
		if err != nil || reply.Index != 100 {
			t.Fatalf("Sync = %v, %v", reply, err)
		}
		want := fmt.Sprintf("leader: term %d has another nonce", term)
		if _, err := e.Sync(t.Context(), &proto.SyncRequest{Nonce: 1}, 0); status.Code(err) != codes.FailedPrecondition ||
			status.Convert(err).Message() != want {
			t.Errorf("Sync of another term: %v, want %s", err, want)
		}

		// The reply to the round of an earlier sync is still under way.
		for _, m := range e.members[2:] {
			m.set(func() { m.delay = 500 * time.Millisecond })
		}
		type result struct {
			after time.Duration
			index uint64
		}
		results := make(chan result, 3)
		ask := func() {
			began := time.Now()
			reply, err := e.Sync(t.Context(), &proto.SyncRequest{Nonce: nonce}, 0)
			if err != nil {
				t.Errorf("Sync: %v", err)
			}
			results <- result{time.Since(began), reply.GetIndex()}
		}
		go ask()
		time.Sleep(400 * time.Millisecond)
		e.log.mu.Lock()
		e.log.commit = 200
		e.log.mu.Unlock()
		go ask()
		go ask()
		if got := <-results; got != (result{500 * time.Millisecond, 100}) {
			t.Errorf("first sync: %v", got)
		}
		for range 2 { // they share the round that begins when the first is done
			if got := <-results; got != (result{600 * time.Millisecond, 200}) {
				t.Errorf("later sync: %v; an answer sent before it does not count", got)
			}
		}
		if begun, _ := e.proofs.newestRounds(); begun != 3 {
			t.Errorf("%d rounds for four syncs, want 3", begun)
		}

		// Without a majority no sync is answered, until the caller or the term ends.
		for _, m := range e.members[2:] {
			m.set(func() { m.joining = true })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := e.Sync(ctx, &proto.SyncRequest{Nonce: nonce}, 0); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("Sync without a majority: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			e.stop()
		}()
		if _, err := e.Sync(t.Context(), &proto.SyncRequest{Nonce: nonce}, 0); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("Sync when the term ends: %v", err)
		}
		e.end()
	})
}

// The sync of a member that forms a majority with this one gets its reply at once, without a round. Every other sync
// waits for a round, to which no member replies here.
func TestSyncOfASecondVoter(t *testing.T) {
	const disk, own = 20, 10 // of members 2 and 1
	voters := func(ids ...uint32) (members []Member) {
		for _, id := range ids {
			members = append(members, Member{id, 10 * uint64(id), true})
		}
		return members
	}
	for name, tt := range map[string]struct {
		members   []Member
		own, disk uint64
		raftTerm  uint64
		atOnce    bool
	}{
		"three voters":                  {voters(1, 2, 3), own, disk, term, true},
		"two voters":                    {voters(1, 2), own, disk, term, true},
		"three voters, one observer":    {append(voters(1, 2, 3), Member{4, 40, false}), own, disk, term, true},
		"four voters":                   {voters(1, 2, 3, 4), own, disk, term, false},
		"another disk":                  {voters(1, 2, 3), own, disk + 1, term, false},
		"a disk that is not known":      {voters(1, 2, 3), own, 0, term, false},
		"an observer":                   {append(voters(1, 3, 4), Member{2, disk, false}), own, disk, term, false},
		"a member that has left":        {voters(1, 3), own, disk, term, false},
		"a leader that has left":        {voters(2, 3), own, disk, term, false},
		"a leader's disk that has left": {voters(1, 2, 3), own + 1, disk, term, false},
		"a later term":                  {voters(1, 2, 3), own, disk, term + 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			for _, m := range e.members[1:] {
				m.set(func() { m.silent = true })
			}
			e.cfg.Raft = &ensembleRaft{e, tt.own}
			e.servers.Store(&tt.members)
			e.raft.Store(tt.raftTerm)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			reply, err := e.Sync(ctx, &proto.SyncRequest{Member: 2, Nonce: nonce}, tt.disk)
			if begun, _ := e.proofs.newestRounds(); tt.atOnce && (err != nil || reply.Index != 100 || begun != 0) {
				t.Errorf("%s: %v, %v, after %d rounds", name, reply, err, begun)
			} else if !tt.atOnce && (status.Code(err) != codes.DeadlineExceeded || begun != 1) {
				t.Errorf("%s: %v, %v, after %d rounds; want an end to the wait for round 1", name, reply, err, begun)
			}
		})
	}
}

// A sync of a member that pings may have named as silent waits for a round, so that others hear of it before its client does.
func TestSyncOfASilentMember(t *testing.T) {
	for silence, atOnce := range map[time.Duration]bool{tick: true, tick + time.Millisecond: false} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			for _, m := range e.members[1:] {
				m.set(func() { m.silent = true })
			}
			e.servers.Store(&[]Member{{1, 10, true}, {2, 20, true}, {3, 30, true}})
			e.cfg.Raft = &ensembleRaft{e, 10}
			e.pinger.lost.life(2).present.at = e.pinger.lost.withoutPauses(time.Now()).Add(-silence)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := e.Sync(ctx, &proto.SyncRequest{Member: 2, Boot: 20, Nonce: nonce}, 20); (err == nil) != atOnce {
				t.Errorf("silent for %v: %v, want a reply at once: %t", silence, err, atOnce)
			}
		})
	}
}

func TestProofRounds(t *testing.T) {
	p := newProofs()
	four := func() []Member { return []Member{{1, 1, true}, {2, 2, true}, {3, 3, true}, {4, 4, true}} } // a majority is 3
	if round, now := p.requestRound(); round != 1 || !now {
		t.Fatalf("begin = %d, %t", round, now)
	}
	for range 2 {
		if round, now := p.requestRound(); round != 2 || now {
			t.Fatalf("begin while 1 is under way = %d, %t", round, now)
		}
	}
	for _, a := range []struct {
		member uint32
		round  uint64
		done   bool
	}{
		{1, 1, false}, {1, 1, false}, {2, 1, false}, {3, 2, false}, {3, 1, true}, // 1 is done, 2 begins
		{4, 1, false}, {4, 2, false}, {3, 2, false}, {4, 1, false}, {1, 2, true}, {2, 2, false},
	} {
		if p.recordReply(a.member, proofReply{99, a.round}, four) {
			t.Errorf("an answer of another disk of member %d completes round %d", a.member, a.round)
		}
		if done := p.recordReply(a.member, proofReply{uint64(a.member), a.round}, four); done != a.done {
			t.Errorf("answer(%d, %d) = %t", a.member, a.round, done)
		}
	}
	if begun, done := p.newestRounds(); begun != 2 || done != 2 {
		t.Errorf("begun %d, done %d; want 2 and 2", begun, done)
	}
	if round, now := p.requestRound(); round != 3 || !now {
		t.Errorf("begin = %d, %t", round, now)
	}
}

// One of two routes to a member carries nothing. Touches, proofs and acknowledgements take the other one, so the
// session lives, and only the silent route's connection is replaced.
func TestOneOfTwoRoutesStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		e.addRoute(0, &fakeMember{id: 2, silent: true})
		replaced := map[[2]int]int{}
		e.cfg.CloseConnection = func(id uint32, route int) { replaced[[2]int{int(id), route}]++ } // one goroutine
		e.members[3].set(func() { e.members[3].silent = true })                                   // proofs need member 2
		e.run()
		for now := time.Duration(0); now < 3*timeout; now += 500 * time.Millisecond {
			e.at(now)
			e.members[2].touched.Touch(1, timeout, time.Now())
		}
		if at, closed := e.log.when(1); closed || len(e.members[2].acked()) == 0 {
			t.Errorf("closed: %t, after %v; %d acknowledgements", closed, at, len(e.members[2].acked()))
		}
		if replaced[[2]int{2, 0}] == 0 || replaced[[2]int{2, 1}] > 0 {
			t.Errorf("replaced %v, want the silent route of member 2", replaced)
		}
		e.end()
	})
}

// A member ends a stream with Aborted when a leader has opened too many. The route is opened again, whichever it is.
func TestRouteIsOpenedAgainAfterAborted(t *testing.T) {
	for number := range 2 {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t)
			m := &fakeMember{id: 2, refuse: status.Error(codes.Aborted, "newer streams of pings have taken over")}
			e.addRoute(number, m)
			e.run()
			e.at(tick)
			m.set(func() { m.refuse = nil })
			e.at(3 * tick)
			m.set(func() {
				if len(m.pings) == 0 {
					t.Errorf("route %d got no ping after %d dials", number, m.dialled)
				}
			})
			e.end()
		})
	}
}
