package leader

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "google.golang.org/protobuf/proto"

	"rollcall/proto"
	"rollcall/sessiontracker"
	"rollcall/zk/jute"
)

// A session that is not heard from is closed after its timeout and within half a tick; one that is heard
// from is kept. The last touch may come at any time within a tick.
func TestSilentSessionExpires(t *testing.T) {
	for last := 3 * time.Second; last < 3*time.Second+tick; last += 130 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, session(1, 1), session(2, 1))
			e.run()
			for now := time.Duration(0); now < 3*timeout; now += 500 * time.Millisecond {
				e.at(now)
				e.table.Touch(1, time.Now(), timeout)
				if now < last {
					e.table.Touch(2, time.Now(), timeout)
				}
				if now < last && last <= now+500*time.Millisecond {
					e.at(last)
					e.table.Touch(2, time.Now(), timeout)
				}
			}
			at, closed := e.log.when(2)
			if lease := at - last; !closed || lease <= timeout || lease > timeout+tick/2 {
				t.Errorf("silent since %v: closed %t, after %v; want (%v, %v]", last, closed, lease, timeout, timeout+tick/2)
			}
			if at, closed := e.log.when(1); closed {
				t.Errorf("closed at %v, though it was heard all the time", at)
			}
			e.end()
		})
	}
}

// Through a follower it takes no longer: its touches count from when it heard the client.
func TestSilentSessionOfFollowerExpires(t *testing.T) {
	for last := 3 * time.Second; last < 3*time.Second+tick; last += 130 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, session(1, 2), session(2, 2))
			e.run()
			for now := time.Duration(0); now < 3*timeout; now += 500 * time.Millisecond {
				e.at(now)
				e.members[2].touched.Touch(1, timeout, time.Now())
				if now <= last && last < now+500*time.Millisecond {
					e.at(last)
					e.members[2].touched.Touch(2, timeout, time.Now())
				}
			}
			at, closed := e.log.when(2)
			if lease := at - last; !closed || lease <= timeout || lease > timeout+tick/2 {
				t.Errorf("silent since %v: closed %t, after %v; want (%v, %v]", last, closed, lease, timeout, timeout+tick/2)
			}
			if at, closed := e.log.when(1); closed {
				t.Errorf("closed at %v, though it was heard all the time", at)
			}
			e.end()
		})
	}
}

// A sync keeps the session of its client, even if no member passes on that it was heard. It is a life sign of its member. When the session
// is being closed, a sync is too late, and the reply says so.
func TestSyncTouchesItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2), session(2, 2))
		e.run()
		for now := time.Duration(0); now < 3*timeout; now += timeout / 2 {
			e.at(now)
			e.pinger.lost.mu.Lock()
			e.pinger.lost.life(2).present = lifeSign{time.Now().Add(-time.Hour), 1} // nobody has heard its pongs
			e.pinger.lost.mu.Unlock()
			reply, err := e.Sync(t.Context(), &proto.SyncRequest{Member: 2, Boot: 20, Nonce: nonce, Sessions: []uint64{1, 99}}, 0)
			if err != nil || len(reply.Ending) > 0 {
				t.Fatalf("Sync = %v, %v", reply, err)
			}
			e.pinger.lost.mu.Lock()
			silences := e.pinger.lost.silences(time.Now())
			e.pinger.lost.mu.Unlock()
			for _, m := range silences {
				if m.Member == 2 && m.SilentMs > 0 {
					t.Errorf("member 2 is silent for %d ms after its sync", m.SilentMs)
				}
			}
		}
		if _, closed := e.log.when(1); closed {
			t.Error("the session of the syncs was closed")
		}
		if _, closed := e.log.when(2); !closed {
			t.Error("the other session lives")
		}
		e.end()
	})
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2))
		now := e.start
		for !e.table.HasDue() {
			now = now.Add(tick / 2)
			e.table.AdvanceIfDue(now)
		}
		e.expiry.releaseDue()
		if taken := e.expiry.takeDue(10); len(taken) != 1 {
			t.Fatalf("%d sessions are being closed", len(taken))
		}
		if ending := e.expiry.touchSyncers([]uint64{1, 99}, now); !slices.Equal(ending, []uint64{1}) {
			t.Errorf("ending: %v, want 1: session 99 is unknown", ending)
		}
	})
}

// A lost pong loses no touch, and lengthens no lease: batches are sent again, with their age.
func TestLostPongLosesNoTouch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(1, 2), session(2, 2))
		lost := 0
		e.members[2].change = func(pong *proto.Pong) bool {
			if now := time.Since(e.start); now > 2*time.Second && now < 5*time.Second && pong.Number != 0 {
				lost++
				return false
			}
			return true
		}
		e.run()
		e.at(2500 * time.Millisecond)
		e.members[2].touched.Touch(1, timeout, time.Now()) // first sent at 3 s, and lost
		e.at(time.Minute)
		if lost != 2 {
			t.Fatalf("%d pongs were lost, want 2", lost)
		}
		if at, _ := e.log.when(1); at != 10*time.Second {
			t.Errorf("closed at %v; a touch of 2.5s and %v make 9.5s", at, timeout)
		}
		if at, _ := e.log.when(2); at != 8*time.Second {
			t.Errorf("the other was closed at %v, want 8s", at)
		}
		e.end()
	})
}

// No session is closed before all members have been queried. A session is kept if any member heard from it in time, even
// if the member's reply is late. The leader waits half a tick for members that do not reply.
func TestExpiryAsksFirst(t *testing.T) {
	tests := []struct {
		name   string
		change func(e *ensemble)
		closed map[jute.SessionID]time.Duration // both are due at 8 s; 1 was touched at 7.9 s
	}{
		{"answers at once", func(*ensemble) {}, map[jute.SessionID]time.Duration{2: 8 * time.Second}},
		{"answers within half a tick", func(e *ensemble) {
			e.members[2].delay = 900 * time.Millisecond
		}, map[jute.SessionID]time.Duration{2: 8900 * time.Millisecond}},
		{"answers later", func(e *ensemble) {
			e.members[2].delay = 1100 * time.Millisecond
		}, map[jute.SessionID]time.Duration{1: 9 * time.Second, 2: 9 * time.Second}},
		{"a member out of reach is not waited for", func(e *ensemble) {
			e.members[3].silent = true
		}, map[jute.SessionID]time.Duration{2: 8 * time.Second}},
		{"an old answer does not count", func(e *ensemble) {
			e.members[3].change = func(pong *proto.Pong) bool { pong.Number = min(pong.Number, 3); return true }
		}, map[jute.SessionID]time.Duration{2: 9 * time.Second}},
		{"half an answer does not count", func(e *ensemble) {
			e.members[3].change = func(pong *proto.Pong) bool { pong.More = pong.Number > 3; return true }
		}, map[jute.SessionID]time.Duration{2: 9 * time.Second}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, session(1, 2), session(2, 2))
				tt.change(e)
				e.run()
				e.at(7900 * time.Millisecond)
				e.members[2].touched.Touch(1, timeout, time.Now())
				e.at(9500 * time.Millisecond)
				for _, id := range []jute.SessionID{1, 2} {
					at, closed := e.log.when(id)
					if want, ok := tt.closed[id]; closed != ok || at != want {
						t.Errorf("%s: closed %t at %v, want %t at %v", id, closed, at, ok, want)
					}
				}
				e.end()
			})
		})
	}
}

// An expiry has the index at which the owner was set, and says for how long the session was silent.
// Here that is eight seconds from the start of the term. It is the leader's own transaction.
func TestExpireTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, session(0x200000000000041, 2))
		e.run()
		e.at(10 * time.Second)
		if n := e.records.count("sessions expired"); n != 1 {
			t.Errorf("logged %v", e.records.seen)
		}
		if len(e.log.proposed) != 1 || len(e.log.proposed[0].Txns) != 1 {
			t.Fatalf("proposed %v", e.log.proposed)
		}
		want := &proto.Txn{Session: 0x200000000000041, Op: int32(jute.OpExpire), Body: []byte{8, 0xc1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2, 16, 0xc0, 0x3e}}
		if got := e.log.proposed[0].Txns[0]; got.String() != want.String() {
			t.Errorf("proposed %v, want %v", got, want)
		}
		e.end()
	})
}

// If a session was heard from later than the table's time, its expiry has a silence of 0. A
// negative one would be an enormous number on the wire.
func TestExpireSilenceIsClamped(t *testing.T) {
	for name, tt := range map[string]struct {
		heard time.Duration
		want  uint64 // ms
	}{
		"heard before": {7 * time.Second, 1000},
		"heard now":    {8 * time.Second, 0},
		"heard later":  {9 * time.Second, 0},
	} {
		txn, err := expireTxn(sessiontracker.OverdueSession{TrackedSession: session(1, 2), LastHeard: tt.heard}, 8*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var got proto.Expire
		if err := pb.Unmarshal(txn.GetBody(), &got); err != nil || got.GetSilentMs() != tt.want {
			t.Errorf("%s: silent for %d ms, %v, want %d", name, got.GetSilentMs(), err, tt.want)
		}
	}
}

// due returns a leader that does not run, with a session that falls due at the step of 8 s.
func due(t *testing.T) (*ensemble, *round, func(after time.Duration) time.Duration) {
	e := newEnsemble(t, session(1, 2))
	var r round
	now := e.start
	wake := func(after time.Duration) (wait time.Duration) {
		now = now.Add(after)
		return e.stepExpiry(&r, now)
	}
	for range 7 {
		wake(tick / 2)
	}
	return e, &r, wake
}

// A late step delays the decision on due sessions by half a tick, only once.
func TestLateCheckPutsOffOnce(t *testing.T) {
	second := time.Second
	tests := []struct {
		name string
		wake []time.Duration // after the step of 7 s; nobody answers
		want []bool          // decided
	}{
		{"in time", []time.Duration{second, second - 1, 1}, []bool{false, false, true}},
		{"a little late", []time.Duration{1400 * time.Millisecond, 600 * time.Millisecond, 400 * time.Millisecond}, []bool{false, false, true}},
		{"falls due late", []time.Duration{2 * second, second, second - 1, 1}, []bool{false, false, false, true}},
		{"late while it is asked about", []time.Duration{second, 1600 * time.Millisecond, second, second - 1, 1}, []bool{false, false, false, false, true}},
		{"late again and again", []time.Duration{9 * second, 9 * second, 9 * second}, []bool{false, false, true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, _, wake := due(t)
			if e.expiry.dueReleased.Load() || e.table.HasDue() {
				t.Fatal("due before its time")
			}
			for i, after := range tt.wake {
				wake(after)
				if got := e.expiry.dueReleased.Load(); got != tt.want[i] {
					t.Errorf("wake %d: decided %t, want %t", i, got, tt.want[i])
				}
			}
			if got := e.expiry.takeDue(10); len(got) != 1 || e.expiry.dueReleased.Load() {
				t.Errorf("took %v, still deciding: %t", got, e.expiry.dueReleased.Load())
			}
		})
	}
}

// A leader is paused again and again, each time before it reads any reply. A pause counts as one step of table time, so three pauses end
// no session with the shortest timeout whose client sends a ping every third of it: the last touch that was read is at most a third of
// the timeout and a step old when the first pause begins.
func TestThreePausesEndNoLiveSession(t *testing.T) {
	for _, steps := range []int{7, 8} {
		alive := session(1, 2)
		alive.Timeout = 2 * tick
		e := newEnsemble(t, alive)
		var r round
		now := e.start
		for range steps {
			now = now.Add(tick / 2)
			e.table.Touch(alive.ID, now.Add(-tick/2-alive.Timeout/3), alive.Timeout)
			e.stepExpiry(&r, now)
		}
		pauses := 0
		for ; len(e.expiry.takeDue(1)) == 0; pauses++ {
			now = now.Add(10 * alive.Timeout)
			e.stepExpiry(&r, now)
		}
		if pauses <= 3 {
			t.Errorf("after %d steps in time, %d pauses end the session of a living client", steps, pauses)
		}
	}
}

// A round is over half a tick after its ping, not at the next step.
func TestRoundHasItsOwnEnd(t *testing.T) {
	e, _, wake := due(t)
	if wait := wake(1400 * time.Millisecond); wait != 600*time.Millisecond {
		t.Errorf("next look after %v, want the step after 600ms", wait)
	}
	if wait := wake(600 * time.Millisecond); wait != 400*time.Millisecond || e.expiry.dueReleased.Load() {
		t.Errorf("next look after %v, want the end of the round after 400ms", wait)
	}
	if wait := wake(400 * time.Millisecond); wait != 600*time.Millisecond || !e.expiry.dueReleased.Load() {
		t.Errorf("next look after %v, want the step after 600ms", wait)
	}
}

// Replies that came before a late step do not complete the round that begins after it.
func TestLateCheckAsksAnew(t *testing.T) {
	e, r, wake := due(t)
	wake(time.Second)
	wake(2 * time.Second)
	for _, m := range e.membership.presentLinks() {
		m.markReplied(e.pinger.newestPing.Load())
	}
	wake(500 * time.Millisecond)
	if e.expiry.dueReleased.Load() {
		t.Error("decided within half a tick of a late step")
	}
	wake(500 * time.Millisecond)
	if r.pingNumber != e.pinger.newestPing.Load() || e.expiry.dueReleased.Load() {
		t.Errorf("round asks with ping %d of %d", r.pingNumber, e.pinger.newestPing.Load())
	}
	e.table.Touch(1, e.start.Add(11*time.Second), timeout)
	for _, m := range e.membership.presentLinks() {
		m.markReplied(r.pingNumber)
	}
	wake(0)
	if !e.expiry.dueReleased.Load() {
		t.Error("not decided when all have answered")
	}
	if got := e.expiry.takeDue(10); len(got) != 0 || e.expiry.dueReleased.Load() {
		t.Errorf("took %v, which was touched", got)
	}
}

// While due sessions go into entries, touches still save the rest, and no other sessions are taken.
func TestOnlyWhatWasAskedAboutIsTaken(t *testing.T) {
	e, _, wake := due(t)
	for id := jute.SessionID(2); id <= 6; id++ {
		e.table.AttachSession(session(id, 2), e.start.Add(7*time.Second-timeout)) // due with 1
	}
	e.table.AttachSession(session(9, 2), e.start.Add(8500*time.Millisecond-timeout)) // at 10 s
	wake(time.Second)
	wake(time.Second)
	if got := e.expiry.takeDue(2); len(got) != 2 || !e.expiry.dueReleased.Load() {
		t.Fatalf("took %v", got)
	}
	e.table.Touch(5, e.start.Add(9*time.Second), timeout)
	wake(time.Second)
	got := e.expiry.takeDue(100)
	if slices.ContainsFunc(got, func(s sessiontracker.OverdueSession) bool { return s.ID == 5 || s.ID == 9 }) ||
		len(got) != 3 || e.expiry.dueReleased.Load() {
		t.Errorf("took %v, want three of 1 to 6 without 5", got)
	}
	wake(time.Second) // 11 s: 9 is due by now, and is asked about
	if e.expiry.dueReleased.Load() || !e.table.HasDue() {
		t.Error("9 is decided without a question, or not due")
	}
}

// Thousands of expiries do not keep a write waiting for more than an entry or two. Few of them are
// in one entry, and the leader pauses after it for as long as it took.
func TestMassExpiryIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, took = 40 * maxExpiries, 2 * time.Millisecond
		var sessions []sessiontracker.TrackedSession
		for id := range jute.SessionID(n) {
			sessions = append(sessions, session(id+10, 3))
		}
		e := newEnsemble(t, sessions...)
		e.log.delay = took
		e.run()
		stream, _, hangUp := e.forward(0)
		e.at(8*time.Second - 5*time.Millisecond)
		var sent []time.Time
		for seq := uint64(1); seq <= 250; seq++ {
			stream.in <- writes(2, 100, seq)
			sent = append(sent, time.Now())
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		hangUp()
		next, between, closes := 1, 0, 0
		var last time.Time // that an entry with expiries was sealed
		for _, entry := range e.log.proposed {
			expires, at := 0, time.UnixMilli(entry.TimeMs)
			for _, txn := range entry.Txns {
				if txn.Op == int32(jute.OpExpire) {
					expires++
				} else if next++; closes > 0 && closes < n {
					between++
					if wait := at.Sub(sent[txn.Seq-1]); wait > took {
						t.Errorf("write %d waited %v for an entry", txn.Seq, wait)
					}
				}
			}
			closes += expires
			if expires > maxExpiries || len(entry.Txns) > maxEntryOps {
				t.Errorf("an entry of %d transactions with %d expiries", len(entry.Txns), expires)
			}
			if expires > 0 {
				if rest := at.Sub(last); rest < 2*took {
					t.Errorf("expiries %v after the last ones, want them to rest for %v after an entry of %v", rest, took, took)
				}
				last = at
			}
		}
		if next-1 != 250 || closes != n || between < 100 {
			t.Errorf("%d writes, %d of them between %d closes", next-1, between, closes)
		}
		e.end()
	})
}

// When 5,000 sessions expire at once, at most 32 are ahead of a write that comes meanwhile: those in the entry that is
// under way. Entries that take 2 ms end all of them within 0.7 s.
func TestWriteMeetsFewExpiries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, took, mostAhead, mostTime = 5_000, 2 * time.Millisecond, 32, 700 * time.Millisecond
		var due []sessiontracker.TrackedSession
		for id := range jute.SessionID(sessions) {
			due = append(due, session(id+10, 3))
		}
		e := newEnsemble(t, due...)
		e.log.delay = took
		e.run()
		stream, _, hangUp := e.forward(0)
		e.at(8*time.Second - 5*time.Millisecond)
		var sent []time.Time
		for seq := uint64(1); e.counters.Expired.Load() < sessions && seq <= 5_000; seq++ {
			stream.in <- writes(2, 100, seq)
			sent = append(sent, time.Now())
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		hangUp()
		e.log.mu.Lock()
		defer e.log.mu.Unlock()
		var ends []time.Time // of each expiry, when its entry was proposed
		met := 0             // writes that have met expiries
		for i, entry := range e.log.proposed {
			for _, txn := range entry.Txns {
				if txn.Op == int32(jute.OpExpire) {
					ends = append(ends, e.log.begun[i])
					continue
				}
				ahead := 0 // expiries that are not done when the write comes, and come before it in the log
				for _, begun := range slices.Backward(ends) {
					if !begun.Add(took).After(sent[txn.Seq-1]) {
						break
					}
					ahead++
				}
				if ahead > mostAhead {
					t.Fatalf("%d expiries are ahead of write %d, want %d at most", ahead, txn.Seq, mostAhead)
				}
				met += min(ahead, 1)
			}
		}
		if len(ends) != sessions || met < 100 {
			t.Fatalf("%d sessions expired, and %d writes met some of them", len(ends), met)
		}
		if span := ends[sessions-1].Sub(ends[0]); span > mostTime {
			t.Errorf("the sessions ended within %v, want %v at most", span, mostTime)
		}
		e.end()
	})
}
