package leader

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"rollcall/proto"
)

// reconfigure replaces raft's configuration and notifies the leader.
func (e *ensemble) reconfigure(voters, observers []uint32) {
	e.configure(voters, observers)
	e.RereadMembers()
	synctest.Wait()
}

// silence stops members.
func (e *ensemble) silence(ids ...uint32) {
	for _, id := range ids {
		m := e.all[id]
		m.set(func() { m.silent = true })
	}
}

// sync starts a Sync that needs a proof of its own. The channel gets its error.
func (e *ensemble) sync(ctx context.Context) <-chan error {
	outcome := make(chan error, 1)
	e.streams.Go(func() {
		_, err := e.Sync(ctx, &proto.SyncRequest{Nonce: nonce}, 0)
		outcome <- err
	})
	synctest.Wait()
	return outcome
}

// A majority of the voters proves a round. Observers prove nothing, however many reply, and a leader that is not a voter
// does not count itself.
func TestVotersProve(t *testing.T) {
	tests := []struct {
		name              string
		voters, observers []uint32
		silent            []uint32
		proved            bool
	}{
		{"all answer", []uint32{1, 2, 3}, []uint32{4, 5}, nil, true},
		{"the observers are away", []uint32{1, 2, 3}, []uint32{4, 5}, []uint32{4, 5}, true},
		{"a minority of the voters is away", []uint32{1, 2, 3}, []uint32{4, 5}, []uint32{3, 5}, true},
		{"a majority of the voters is away", []uint32{1, 2, 3}, []uint32{4, 5}, []uint32{2, 3}, false},
		{"two of four voters answer", []uint32{1, 2, 3, 4}, []uint32{5, 6}, []uint32{3, 4}, false},
		{"one voter", []uint32{1}, []uint32{2, 3}, []uint32{2, 3}, true},
		{"the leader is an observer", []uint32{2, 3, 4}, []uint32{1}, []uint32{4}, true},
		{"the leader is an observer, one of three voters answers", []uint32{2, 3, 4}, []uint32{1}, []uint32{3, 4}, false},
		{"the leader is no member, one of two voters answers", []uint32{2, 3}, nil, []uint32{3}, false},
		{"the leader is no member", []uint32{2, 3}, nil, nil, true},
		{"no configuration", nil, nil, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsembleOf(t, tt.voters, tt.observers, session(1, 2))
				e.silence(tt.silent...)
				e.run()
				outcome := e.sync(t.Context())
				e.at(3 * tick)
				if proved := len(outcome) == 1; proved != tt.proved {
					t.Errorf("proved %t, want %t", proved, tt.proved)
				}
				e.end()
				if err := <-outcome; (err == nil) != tt.proved {
					t.Errorf("Sync: %v", err)
				}
			})
		})
	}
}

// An observer's touches keep sessions and are acknowledged. They are requested before sessions expire.
func TestObserverTouches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3}, []uint32{4, 5}, session(1, 4), session(2, 4))
		e.run()
		m := e.all[4]
		for now := time.Duration(0); now < 3*timeout; now += time.Second {
			e.at(now)
			m.touched.Touch(1, timeout, time.Now())
		}
		if at, closed := e.log.when(1); closed {
			t.Errorf("closed at %v, though the observer heard it", at)
		}
		if _, closed := e.log.when(2); !closed {
			t.Error("a silent session of an observer stays open")
		}
		if len(m.acked()) < 5 {
			t.Errorf("%d acknowledgements", len(m.acked()))
		}
		e.silence(2, 3) // most voters
		before := len(m.acked())
		e.at(time.Since(e.start) + 2*tick)
		if got := m.acked(); len(got) != before {
			t.Errorf("%d acknowledgements without a majority of the voters", len(got)-before)
		}
		e.end()
	})
}

// A member that joins is pinged at once if the leader is notified, and otherwise within half a tick. When a member
// leaves, its state is dropped and its writes are rejected. Some time later it is pinged no more.
func TestMembersComeAndGo(t *testing.T) {
	pings := func(m *fakeMember) (n int) {
		m.set(func() { n = len(m.pings) })
		return n
	}
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.all[3].setMarks(marksAt(0, 10))
		e.run()
		e.at(tick + tick/4)
		e.reconfigure([]uint32{1, 2, 3}, []uint32{4})
		if e.all[4].dials() != 1 || e.all[2].dials() != 1 {
			t.Errorf("dialled %d times, and a member that stays %d times", e.all[4].dials(), e.all[2].dials())
		}
		e.configure([]uint32{1, 2, 3, 4}, []uint32{5})
		e.at(2*tick + tick/4)
		if pings(e.all[4]) == 0 || pings(e.all[5]) == 0 {
			t.Errorf("%d and %d pings", pings(e.all[4]), pings(e.all[5]))
		}

		stream, ended, _ := e.forward(1)
		stream.in <- writes(3, 1, 1)
		synctest.Wait()
		e.reconfigure([]uint32{1, 2, 4}, []uint32{5})
		if len(ended) != 1 {
			t.Fatal("the writes of a member that has gone are still read")
		}
		if err := <-ended; !errors.Is(err, errMemberLeft) {
			t.Errorf("its writes ended with %v", err)
		}
		left := time.Since(e.start)
		nothingOf(e, 3)
		e.at(left + tick)
		nothingOf(e, 3)
		e.at(left + parting + tick/2)
		gone := pings(e.all[3])
		e.at(left + parting + 3*tick)
		if n := pings(e.all[3]) - gone; n != 0 || e.all[3].stream.ctx.Err() == nil {
			t.Errorf("%d pings to a member that has gone; its stream: %v", n, e.all[3].stream.ctx.Err())
		}
		nothingOf(e, 3)
		stream, ended, _ = e.forward(1)
		stream.in <- writes(3, 1, 2)
		if err := soon(t, ended); status.Code(err) != codes.InvalidArgument {
			t.Errorf("its later writes: %v", err)
		}
		if slices.Contains(e.records.seen, "member is out of reach") {
			t.Errorf("logged %v", e.records.seen)
		}

		e.reconfigure([]uint32{1, 2, 3, 4}, []uint32{5}) // it comes back
		e.at(left + parting + 4*tick)
		if e.all[3].dials() != 2 || pings(e.all[3]) == gone {
			t.Errorf("back: dialled %d times, %d pings", e.all[3].dials(), pings(e.all[3])-gone)
		}
		e.end()
	})
}

// nothingOf checks that a member that has left has no state here, except that its touches are requested.
func nothingOf(e *ensemble, id uint32) {
	e.t.Helper()
	e.proofs.mu.Lock()
	answered := e.proofs.lastReplies[id]
	e.proofs.mu.Unlock()
	e.clocks.mu.Lock()
	_, clock := e.clocks.aheadBy[id]
	e.clocks.mu.Unlock()
	e.pinger.compared.mu.Lock()
	marks := e.pinger.compared.stateHashes[id]
	e.pinger.compared.mu.Unlock()
	if clock || marks != nil || answered.round != 0 || e.membership.presentLinks()[id] != nil {
		e.t.Errorf("kept of member %d: a clock %t, marks %v, round %d, link %v", id, clock, marks, answered.round, e.membership.presentLinks()[id])
	}
}

// A member that has left still has clients for a while. Its touches keep their sessions, as before, even if only the
// round before an expiry requests them. Its replies to proof rounds do not count.
func TestTouchesOfAMemberThatHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 3), session(2, 3))
		e.run()
		e.at(tick)
		e.reconfigure([]uint32{1, 2}, nil)
		left := time.Since(e.start)
		m := e.all[3]
		last := left + parting - tick/2
		e.at(last - time.Millisecond)
		m.touched.Touch(1, timeout, time.Now())
		e.at(last + timeout - time.Millisecond)
		if at, closed := e.log.when(1); closed {
			t.Errorf("closed at %v, though a member that left at %v heard it at %v", at, left, last)
		}
		if at, closed := e.log.when(2); !closed || at > left+timeout {
			t.Errorf("a silent session was closed at %v (%t)", at, closed)
		}
		if len(m.acked()) == 0 {
			t.Error("its touches are not acknowledged")
		}
		e.at(last + timeout + 2*tick)
		if _, closed := e.log.when(1); !closed {
			t.Error("the session stays open")
		}
		e.end()
	})
}

// The round before an expiry waits for a member that has left.
func TestRoundAsksMembersThatHaveLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 3))
		e.cfg.PartingTime = 2 * timeout
		m := e.all[3]
		m.delay = tick / 4
		e.run()
		e.at(tick / 4)
		e.reconfigure([]uint32{1, 2}, nil)
		e.at(timeout + tick/2 - time.Millisecond) // the step after this one, by which it is due at the latest
		if at, closed := e.log.when(1); closed {
			t.Fatalf("closed at %v already", at)
		}
		m.touched.Touch(1, timeout, time.Now())
		e.at(2 * timeout)
		if at, closed := e.log.when(1); closed {
			t.Errorf("closed at %v, before a member that has left had answered", at)
		}
		e.end()
	})
}

// Replies of a member that has left do not prove that this leader leads, even if the member comes back meanwhile. When
// the member stops, nothing is logged.
func TestMemberThatHasLeftProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3}, nil)
		e.run()
		e.at(tick / 4)
		e.reconfigure([]uint32{1, 2, 4}, nil)
		e.silence(2, 4)
		outcome := e.sync(t.Context())
		e.at(tick)
		e.silence(3)
		e.reconfigure([]uint32{1, 2, 3}, nil)
		e.at(2 * tick)
		if len(outcome) != 0 {
			t.Error("proved by what a member has answered while it was no member")
		}
		e.reconfigure([]uint32{1, 2}, nil)
		close(e.all[3].stream.end)
		e.at(3 * tick)
		if n := e.records.count("member stops") + e.records.count("member is out of reach"); n != 0 {
			t.Errorf("logged %v", e.records.seen)
		}
		e.end()
	})
}

// A member's reply counts only if it comes from the disk that votes: a member that has lost its disk has forgotten its
// votes. Its reply counts as soon as the new disk votes in raft's configuration.
func TestNewDiskProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const former, present = 5, 6
		e := newEnsemble(t)
		disks := func(of2 uint64) {
			e.servers.Store(&[]Member{{ID: 1, Voter: true}, {ID: 2, Disk: of2, Voter: true}, {ID: 3, Voter: true}})
			e.RereadMembers()
		}
		disks(former)
		e.members[2].change = func(pong *proto.Pong) bool { pong.Disk = present; return true }
		e.run()
		e.silence(3)
		outcome := e.sync(t.Context())
		e.at(2 * tick)
		if len(outcome) != 0 {
			t.Error("proved by the answer of a disk that does not vote")
		}
		disks(present)
		e.at(3 * tick)
		if len(outcome) != 1 {
			t.Error("not proved by the answer of a disk that votes by now")
		}
		e.end()
	})
}

// If a member leaves between two messages of its stream, the next message is rejected, even if the leader has not read
// the new configuration yet.
func TestWritesOfAMemberThatIsGoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t)
		e.run()
		stream, ended, _ := e.forward(1)
		stream.in <- writes(3, 1, 1)
		synctest.Wait()
		e.configure([]uint32{1, 2}, nil)
		stream.in <- writes(3, 1, 2)
		if err := soon(t, ended); status.Code(err) != codes.InvalidArgument {
			t.Errorf("ended with %v", err)
		}
		e.at(time.Second)
		e.end()
		if got := e.log.seqs(3); len(got) != 1 {
			t.Errorf("writes %v are in the log, want the first alone", got)
		}
	})
}

// A round that waits is counted again when the configuration changes, and by that one alone.
func TestRoundsAreCountedAnew(t *testing.T) {
	tests := []struct {
		name              string
		voters, observers []uint32 // from 1, 2 and 3 with 4 and 5, of which 1, 4 and 5 answer
		proved            bool
	}{
		{"a voter fewer", []uint32{1, 2}, []uint32{4, 5}, false},
		{"two voters fewer", []uint32{1}, []uint32{4, 5}, true},
		{"an observer becomes a voter", []uint32{1, 2, 3, 4}, []uint32{5}, false},
		{"both observers become voters", []uint32{1, 2, 3, 4, 5}, nil, true},
		{"the leader becomes an observer", []uint32{2, 3, 4}, []uint32{1, 5}, false},
		{"an observer takes a voter's place", []uint32{1, 2, 4}, []uint32{5}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsembleOf(t, []uint32{1, 2, 3}, []uint32{4, 5})
				e.silence(2, 3)
				e.run()
				outcome := e.sync(t.Context())
				e.at(tick)
				if len(outcome) != 0 {
					t.Fatal("proved without a majority of the voters")
				}
				e.reconfigure(tt.voters, tt.observers)
				if proved := len(outcome) == 1; proved != tt.proved {
					t.Errorf("proved %t, want %t", proved, tt.proved)
				}
				e.end()
			})
		})
	}
}

// A voter's reply counts only while it is a voter. A voter that has left and comes back must reply again.
func TestAnswersLeaveWithTheirMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3, 4, 5}, nil)
		e.silence(3, 4, 5)
		e.run()
		outcome := e.sync(t.Context()) // 1 and 2 answer
		e.reconfigure([]uint32{1, 3, 4, 5}, nil)
		e.silence(2)
		e.reconfigure([]uint32{1, 2, 3}, nil)
		if len(outcome) != 0 {
			t.Error("proved by what a member had answered before it left")
		}
		e.all[3].set(func() { e.all[3].silent = false })
		e.at(tick)
		if len(outcome) != 1 {
			t.Error("not proved by a majority")
		}
		e.end()
	})
}

// If raft is in a later term, its configuration may be another leader's: nothing is proved by it.
func TestNoProofByALaterConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3}, []uint32{4})
		e.silence(2, 3)
		e.run()
		outcome := e.sync(t.Context())
		e.raft.Store(term + 1)
		e.reconfigure([]uint32{1, 4, 3}, nil) // both 1 and 4 have answered
		e.at(2 * tick)
		if len(outcome) != 0 {
			t.Error("proved by the configuration of a later term")
		}
		e.end()
	})
}

// Clocks of observers neither hold the reaper nor release it, but they are reported.
func TestClocksOfObservers(t *testing.T) {
	c := newClocks(nil, nil, nil)
	now := time.Now()
	c.recordClock(1, now.UnixMilli(), now)
	c.recordClock(4, now.Add(time.Hour).UnixMilli(), now)
	c.recordClock(5, now.UnixMilli(), now)
	if agree, differ, most := c.compareClocks([]uint32{1, 2, 3}); agree != 1 || len(differ) != 0 || most < 59*time.Minute {
		t.Errorf("%d agree, %v differ, %v apart; want 1, none, an hour", agree, differ, most)
	}
	if agree, differ, _ := c.compareClocks([]uint32{1, 4, 5}); agree != 2 || len(differ) != 1 {
		t.Errorf("as voters: %d agree, %v differ", agree, differ)
	}
}

// An observer whose state differs gets a verdict. Observers that agree with each other make no
// majority.
func TestVerdictsOfObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsembleOf(t, []uint32{1, 2, 3}, []uint32{4, 5})
		for _, m := range e.members[1:] {
			m.setMarks(marksAt(0, 10))
		}
		e.all[4].setMarks(marksAt(5, 10))
		e.all[5].setMarks(marksAt(5, 10))
		e.silence(3)
		e.run()
		e.at(2 * tick)
		for id := uint32(1); id <= 5; id++ {
			v := e.all[id].lastVerdict()
			if (v != nil) != (id >= 4) {
				t.Errorf("member %d is told %v", id, v)
			}
			if v != nil && (v.Agree != 2 || v.Members != 3) {
				t.Errorf("member %d is told %v, want 2 of 3", id, v)
			}
		}
		e.end()
	})
}

// If a member cannot be reached at all, the others are served, and it is tried again.
func TestLinkFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		var tries atomic.Int64
		var healed atomic.Bool
		e.cfg.LinkTo = func(id uint32, _ int) (Link, error) {
			if id == 3 {
				if tries.Add(1); !healed.Load() {
					return nil, errors.New("no address")
				}
			}
			return e.link(id, 0)
		}
		e.run()
		e.at(4 * tick)
		if n := tries.Load(); n < 10 || n > 20 || e.records.count("member is out of reach") != 1 {
			t.Errorf("%d tries, logged %v", tries.Load(), e.records.seen)
		}
		healed.Store(true)
		e.at(5 * tick)
		if e.all[3].dials() != 1 || e.records.count("member is back") != 1 {
			t.Errorf("dialled %d times, logged %v", e.all[3].dials(), e.records.seen)
		}
		e.end()
	})
}
