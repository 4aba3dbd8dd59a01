package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/integration/cluster"
	"rollcall/integration/wire"
	"rollcall/member"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// These tests are about the entries of a term that has ended, or seems to have ended. They go to
// raft's Apply, which is not bound to a term.

// terms are the terms that have opened, by the member that led them.
type terms struct {
	mu     sync.Mutex
	opened []member.Event
}

func (s *terms) hear(e member.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Kind == member.EventLeader {
		s.opened = append(s.opened, e)
	}
}

func (s *terms) all() []member.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

// watched runs a test as ensemble does, and passes it the terms that open.
func watched(t *testing.T, opts cluster.Options, run func(t *testing.T, e *cluster.Ensemble, seen *terms)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var seen terms
		opts.Events = seen.hear
		e := cluster.Start(t, 3, opts)
		e.Ready()
		e.Joined()
		run(t, e, &seen)
	})
}

// term returns the newest term that a member knows.
func term(e *cluster.Ensemble, member uint32) znode.Term {
	s := e.Member(member).State()
	s.RLock()
	defer s.RUnlock()
	return s.Term()
}

// Raft rejects single entries in the middle of a pipeline, again and again, and still leads. Each rejection ends the
// term's object, because it is unknown whether the entries after the rejected one will follow the ones before it. All
// writes are sent again. None is lost or done twice, and each session's writes are in order.
func TestRefusedProposalInMidst(t *testing.T) {
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%t", kept), func(t *testing.T) {
			watched(t, cluster.Options{Write: 2 * time.Millisecond}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
				leader := e.Leader()
				before, gate := term(e, leader), e.Gate(leader)
				writers := startWriters(t, e, rand.New(rand.NewPCG(1, 6)), sessions, 120, sessionTimeout, 20*time.Millisecond)
				const refusals = 8
				for i := range refusals {
					if kept { // raft takes the entry after all, when another term has opened
						gate.Keep(2 + i%3)
					} else {
						gate.Refuse(2 + i%3)
					}
					for gate.Refused() == i && !finished(writers) {
						time.Sleep(time.Millisecond)
					}
					if inFlight(writers) == 0 {
						t.Fatalf("nothing was under way at refusal %d", i+1)
					}
					gate.Release()
				}
				e.Wait("the writers", writersLimit, func() bool { return finished(writers) })
				for _, w := range writers {
					w.check(t)
					if n := w.client.Disconnects(); n != 0 {
						t.Errorf("%s: %d disconnects", w.dir, n)
					}
				}
				if kept && gate.Landed() == 0 {
					t.Error("no refused entry came into the log: this shows nothing")
				}
				after := term(e, leader)
				if n := len(seen.all()); n < 1+refusals || after.Term != before.Term || after.Nonce == before.Nonce {
					t.Errorf("%d terms, %+v to %+v; want one more for each refusal, in the same term of raft", n, before, after)
				}
				e.Equal()
			})
		})
	}
}

// sealExpiries lets the leader seal an entry that expires a silent session of each follower. The leader is held up with that
// entry, or hears that raft rejected it. doomed returns the connections and the sessions.
func sealExpiries(t *testing.T, e *cluster.Ensemble, stop func(g *cluster.Gate), stopped func(g *cluster.Gate) bool) (conns map[uint32]*wire.Conn, ids map[uint32]jute.SessionID) {
	t.Helper()
	const timeout = 4 * tick
	conns, ids = map[uint32]*wire.Conn{}, map[uint32]jute.SessionID{}
	leader := e.Leader()
	for _, f := range e.Followers() {
		c, s := e.Open(f, timeout)
		conns[f], ids[f] = c, s.SessionID
	}
	e.Equal()
	g := e.Gate(leader)
	stop(g)
	e.Wait("the expiry of the silent sessions", timeout+2*tick, func() bool { return stopped(g) })
	return conns, ids
}

// lives checks that a session which the old term expired is still served on its connection, in a
// term without that expiry.
func lives(t *testing.T, c *wire.Conn) {
	t.Helper()
	if _, _, err := c.Call(jute.XidPing, jute.OpPing, nil); err != nil {
		t.Fatalf("ping in the next term: %v", err)
	}
}

// A term ends and another one opens in the same term of raft. An entry of the first, which raft reported as rejected,
// comes into the log after the TermStart of the second. All members ignore it, and the session that it expires lives.
func TestTwoTermsInOneOfRaft(t *testing.T) {
	watched(t, cluster.Options{}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		leader := e.Leader()
		before, gate := term(e, leader), e.Gate(leader)
		conns, ids := sealExpiries(t, e, func(g *cluster.Gate) { g.Keep(1) }, func(g *cluster.Gate) bool { return g.Refused() == 1 })
		e.Wait("another term", 5*tick, func() bool { return len(seen.all()) == 2 })
		time.Sleep(tick) // its pings reach all members
		for _, c := range conns {
			lives(t, c)
		}
		after := term(e, leader)
		if after.Term != before.Term || after.Nonce == before.Nonce {
			t.Fatalf("term %+v after %+v, want another one in the same of raft", after, before)
		}
		gate.Release()
		if gate.Landed() != 1 {
			t.Fatal("the old entry did not come into the log: this shows nothing")
		}
		e.Equal()
		for f, c := range conns {
			if owner(e, leader, ids[f]) != f {
				t.Errorf("session %v was expired by an entry of a term that was over", ids[f])
			}
			alive(t, c, 1, fmt.Sprint("/alive", f))
		}
		e.Equal()
	})
}

// The leader is held up with a sealed entry, while another member leads and loses leadership to it
// again. Its entry comes into the log in a raft term that is not its own. All members ignore it,
// the sessions that it expires live, and a new term opens after it.
func TestOldEntryInNewTerm(t *testing.T) {
	watched(t, cluster.Options{}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		old := e.Leader()
		gate := e.Gate(old)
		conns, ids := sealExpiries(t, e, (*cluster.Gate).Hold, func(g *cluster.Gate) bool { return g.Waiting() == 1 })
		e.Isolate(old)
		e.Wait("another leader", 5*tick, func() bool { return len(seen.all()) == 2 })
		second := seen.all()[1].Member
		third := other(e, old, second)
		time.Sleep(tick) // its pings reach the third member
		lives(t, conns[third])
		e.Rejoin(old)
		e.Equal()
		lives(t, conns[third])

		e.BlockLog(third, old) // its requests for votes, so that only the old leader can win
		e.Isolate(second)
		e.Wait("the old leader to lead again", 5*tick, func() bool { return e.Disk(old).Votes(old) > seen.all()[1].Term })
		time.Sleep(tick / 2)
		gate.Release()
		if gate.Landed() != 1 {
			t.Fatal("the old entry did not come into the log: this shows nothing")
		}
		e.Wait("the new term of the old leader", 5*tick, func() bool { return len(seen.all()) == 3 })
		if last := seen.all()[2]; last.Member != old || last.Term <= seen.all()[1].Term {
			t.Errorf("terms %+v, want the third to be of member %d, in a term of raft of its own", seen.all(), old)
		}
		alive(t, conns[third], 1, "/alive")
		e.Rejoin(second)
		e.UnblockLog(third, old)
		e.Ready()
		e.Equal()
		if owner(e, old, ids[third]) != third {
			t.Errorf("session %v was expired by an entry of a term that was over", ids[third])
		}
	})
}

// other is the third of three members.
func other(e *cluster.Ensemble, a, b uint32) uint32 {
	for _, id := range e.IDs() {
		if id != a && id != b {
			return id
		}
	}
	return 0
}

// The leader loses leadership and gets it again, with no other leader in between. It is held up in
// the middle of its term, so it notices both changes at once. Both changes count: the old term
// ends, a new one opens with a TermStart of its own, and clients of all members see only a pause.
func TestLostAndGainedBetweenTwoLooks(t *testing.T) {
	watched(t, cluster.Options{}, func(t *testing.T, e *cluster.Ensemble, seen *terms) {
		old := e.Leader()
		a, b := e.Followers()[0], e.Followers()[1]
		before, gate := term(e, old), e.Gate(old)
		clients := []*cluster.Client{e.Connect(20*tick, old), e.Connect(20*tick, a), e.Connect(20*tick, b)}
		gate.Hold()
		var calls []*cluster.Call
		for i, c := range clients {
			calls = append(calls, c.Go(jute.OpCreate, &jute.CreateRequest{Path: fmt.Appendf(nil, "/w%d", i), ACL: jute.OpenACL}))
		}
		e.Wait("an entry to be held", tick, func() bool { return gate.Waiting() == 1 })
		e.Network.Cut(a, b) // so that they elect no leader
		e.BlockLog(a, old)
		e.BlockLog(b, old)
		e.Network.Cut(old, a)
		e.Network.Cut(old, b)
		time.Sleep(tick / 2) // by then it no longer leads
		e.Network.Heal(old, a)
		e.Network.Heal(old, b)
		e.Wait("the leader to lead again", 5*tick, func() bool { return e.Disk(old).Votes(old) > before.Term })
		time.Sleep(tick / 2)
		gate.Release()
		if gate.Landed() != 1 {
			t.Fatal("the old entry did not come into the log: this shows nothing")
		}
		for i, call := range calls {
			if _, err := call.Wait(); err != nil { // if it had been made twice, it would exist already
				t.Errorf("write of client %d: %v", i, err)
			}
		}
		after := term(e, old)
		if n := len(seen.all()); n != 2 || after.Leader != old || after.Term <= before.Term || after.Nonce == before.Nonce {
			t.Errorf("%d terms, %+v to %+v; want a fresh one of the same member", n, before, after)
		}
		for i, c := range clients {
			if n := c.Disconnects(); n != 0 {
				t.Errorf("client %d saw %d disconnects", i, n)
			}
		}
		e.Network.Heal(a, b)
		e.UnblockLog(a, old)
		e.UnblockLog(b, old)
		e.Equal()
	})
}
