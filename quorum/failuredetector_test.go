package quorum

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// soon is within which time the death of a leader's process must have led to another leader: less than the shortest
// election timeout.
const soon = 2*dialPause + 4*standDelayPerRank

// membersExcept returns the members without some.
func (e *ensemble) membersExcept(without ...uint32) []uint32 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(e.members)), func(id uint32) bool { return slices.Contains(without, id) })
}

// greatestTerm returns the greatest term that any of the members has.
func (e *ensemble) greatestTerm(ids ...uint32) (term uint64) {
	for _, id := range ids {
		term = max(term, e.members[id].node.status.Term())
	}
	return term
}

// A leader whose process dies is replaced by one candidate, long before the first timeout. The others are notified of
// the death.
func TestDeadLeaderIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	for _, members := range []int{3, 4, 5} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, members)
				var died atomic.Uint32
				for _, m := range e.members {
					m.adjust = func(cfg *Config) { cfg.LeaderDied = func(id uint32) { died.Store(id) } }
				}
				e.begin()
				for range 3 {
					time.Sleep(standCooldown * 2 * time.Second)
					all := e.membersExcept()
					old := e.leader(all...)
					rest, term := e.membersExcept(old), e.greatestTerm(all...)
					e.kill(old)
					begin := time.Now()
					e.leader(rest...)
					if took := time.Since(begin); took > soon {
						t.Errorf("another leader after %v, want at most %v", took, soon)
					}
					time.Sleep(soon) // the turns of all others
					if got := e.greatestTerm(rest...); got != term+1 {
						t.Errorf("term %d after term %d: several candidates", got, term)
					}
					if died.Swap(0) != old {
						t.Errorf("nobody is told that member %d has died", old)
					}
					e.start(old)
					e.leader(all...)
				}
			})
		})
	}
}

// What may be no more than a fault of the network ends no leader's term.
func TestNoFalseDetection(t *testing.T) {
	t.Parallel()
	tests := map[string]func(e *ensemble, lead, other uint32){
		"the leader's port refuses, and its connections live": func(e *ensemble, lead, other uint32) {
			e.net.set(e.net.refused, other, lead, true)
		},
		"its connections end, and its port takes new ones": func(e *ensemble, lead, other uint32) {
			e.net.reset(lead, other)
		},
		"its connections end, and its port does not answer": func(e *ensemble, lead, other uint32) {
			e.net.set(e.net.unheard, other, lead, true)
			e.net.reset(lead, other)
		},
		"its connections end, and its port refuses once": func(e *ensemble, lead, other uint32) {
			e.net.set(e.net.refused, other, lead, true)
			e.net.set(e.net.refused, lead, other, true) // so that it comes back later than the second dial
			e.net.reset(lead, other)
			time.Sleep(dialPause / 2)
			e.net.set(e.net.refused, other, lead, false)
			time.Sleep(dialPause)
		},
		"its connections end, and it is back at once": func(e *ensemble, lead, other uint32) {
			e.net.set(e.net.refused, other, lead, true)
			e.net.reset(lead, other)
			time.Sleep(dialPause / 2)
			n, p := e.members[lead].node, e.members[other].server
			beat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.status.selfPeer().ServerID()), Addr: []byte(n.status.selfPeer().Addr)}, Term: n.status.Term()}
			for n.transport.AppendEntries(p.ServerID(), p.ServerAddress(), beat, new(raft.AppendEntriesResponse)) != nil {
				time.Sleep(time.Millisecond / 2) // an idle connection has ended too
			}
		},
	}
	for name, fault := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.begin()
				lead := e.leader(1, 2, 3)
				time.Sleep(time.Second)
				term := e.greatestTerm(1, 2, 3)
				for _, other := range others(lead) {
					fault(e, lead, other)
				}
				time.Sleep(soon)
				for _, other := range others(lead) {
					for _, way := range [][2]uint32{{lead, other}, {other, lead}} {
						e.net.set(e.net.refused, way[0], way[1], false)
						e.net.set(e.net.unheard, way[0], way[1], false)
					}
				}
				time.Sleep(5 * time.Second)
				if now := e.greatestTerm(1, 2, 3); now != term || e.leader(1, 2, 3) != lead {
					t.Errorf("member %d leads in term %d, want %d in term %d", e.leader(1, 2, 3), now, lead, term)
				}
			})
		})
	}
}

// forge makes a live leader look dead to the others for a moment.
func (e *ensemble) forge(lead uint32) {
	for _, set := range []bool{true, false} {
		for _, other := range e.membersExcept(lead) {
			e.net.set(e.net.refused, other, lead, set)
			e.net.set(e.net.refused, lead, other, set)
			if set {
				e.net.reset(lead, other)
			}
		}
		time.Sleep(soon)
	}
}

// stands is a handler of a log that notes when a member stands after a detection.
type stands struct {
	mu sync.Mutex
	at []time.Time
}

func (*stands) Enabled(context.Context, slog.Level) bool { return true }
func (s *stands) WithAttrs([]slog.Attr) slog.Handler     { return s }
func (s *stands) WithGroup(string) slog.Handler          { return s }

func (s *stands) Handle(_ context.Context, r slog.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(r.Message, "process has died") {
		s.at = append(s.at, time.Now())
	}
	return nil
}

// False detections end the terms of leaders that live, but each member stands once in a while only.
func TestFalseDetectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		stood := map[uint32]*stands{}
		for id, m := range e.members {
			stood[id] = new(stands)
			m.adjust = func(cfg *Config) { cfg.Logger = slog.New(stood[id]) }
		}
		e.begin()
		const windows = 5
		window := standCooldown * e.members[1].node.electionTimeout
		for begin := time.Now(); time.Since(begin) < windows*window; {
			e.forge(e.leader(1, 2, 3))
		}
		total := 0
		for id, s := range stood {
			total += len(s.at)
			for i := 1; i < len(s.at); i++ {
				if apart := s.at[i].Sub(s.at[i-1]); apart < window {
					t.Errorf("member %d stood twice within %v, want at most once in %v", id, apart, window)
				}
			}
		}
		if total < windows {
			t.Errorf("%d elections after false detections in %d windows: this shows nothing", total, windows)
		}
		e.propose("b", 1, 2, 3)
		e.awaitApplied([]string{"a", "b"}, 1, 2, 3)
	})
}

// The kernel may accept a few connections on a port after its process has dropped the others, and closes them. If it
// continues to accept them, the process is alive.
func TestDyingPort(t *testing.T) {
	t.Parallel()
	for dials, stands := range map[int]bool{1: true, maxDials - requiredRefusals: true, maxDials - requiredRefusals + 1: false, 1000: false} {
		t.Run(fmt.Sprint(dials), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.begin()
				old := e.leader(1, 2, 3)
				rest, term := others(old), e.greatestTerm(1, 2, 3)
				e.net.mu.Lock()
				for _, id := range rest {
					e.net.dying[[2]uint32{id, old}] = dials
				}
				e.net.mu.Unlock()
				e.kill(old)
				time.Sleep(maxDials*dialPause + 2*standDelayPerRank)
				if now := e.greatestTerm(rest...); now > term != stands {
					t.Errorf("term %d after term %d", now, term)
				}
			})
		})
	}
}

// slowStable is a stable store whose writes take a time.
type slowStable struct {
	raft.StableStore
	takes atomic.Int64
}

func (s *slowStable) Set(key, val []byte) error {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.StableStore.Set(key, val)
}

func (s *slowStable) SetUint64(key []byte, val uint64) error {
	time.Sleep(time.Duration(s.takes.Load()))
	return s.StableStore.SetUint64(key, val)
}

// A voter with a shorter log stands first and is not elected. The next one does not wait for its turn, but until it has
// stored the term of the first one.
func TestShorterLogStandsFirst(t *testing.T) {
	t.Parallel()
	for _, slow := range []time.Duration{0, 30 * time.Millisecond} {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				disks := map[uint32]*slowStable{}
				var died atomic.Int64 // when the last member has detected it, in Unix nanoseconds
				for id, m := range e.members {
					m.adjust = func(cfg *Config) { cfg.LeaderDied = func(uint32) { died.Store(time.Now().UnixNano()) } }
					disks[id] = &slowStable{StableStore: m.stores.Stable}
					m.stores.Stable = disks[id]
				}
				e.begin()
				old := e.leader(1, 2, 3)
				time.Sleep(time.Second)
				short := others(old)[0]
				if rank, _ := standRank(short, old, []uint32{1, 2, 3}, e.greatestTerm(old)); rank > 0 {
					short = others(old)[1]
				}
				next := e.membersExcept(old, short)[0]
				e.net.limitRate(old, short, 256<<10)
				e.propose(strings.Repeat("b", 1<<20), old, next) // takes four seconds to get to the other one
				if e.members[short].node.status.LastIndex() >= e.members[next].node.status.LastIndex() {
					t.Fatal("no log is shorter: this shows nothing")
				}
				disks[next].takes.Store(int64(slow))
				begin := time.Now()
				led := e.whenLed(next)
				e.kill(old)
				end, detected := <-led, time.Unix(0, died.Load())
				if took, most := end.Sub(begin), 2*soon+2*slow; took > most {
					t.Errorf("another leader after %v, want at most %v", took, most)
				}
				if took := end.Sub(detected); slow == 0 && took >= standDelayPerRank {
					t.Errorf("the next one leads %v after it has detected the death: it has waited for its turn", took)
				}
			})
		})
	}
}

// whenLed sends the time at which a member first leads, or that after which it should have.
func (e *ensemble) whenLed(id uint32) <-chan time.Time {
	led := make(chan time.Time, 1)
	go func() {
		for end := time.Now().Add(time.Minute); !e.members[id].node.status.IsLeader() && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		led <- time.Now()
	}()
	return led
}

// slowTerm is a stable store that takes a time to store a term, and not to store a vote.
type slowTerm struct {
	raft.StableStore
	takes atomic.Int64
}

func (s *slowTerm) SetUint64(key []byte, val uint64) error {
	if string(key) == "CurrentTerm" {
		time.Sleep(time.Duration(s.takes.Load()))
	}
	return s.StableStore.SetUint64(key, val)
}

// The terms in which two turns stand are never the same, whenever they stand and how often, and are always later than the
// present one.
func TestOwnTerms(t *testing.T) {
	for voters := 3; voters <= 4; voters++ {
		owner := map[uint64]int{}
		for turn := range 2 * voters {
			for current := uint64(10); current < 40; current++ {
				term := ownTerm(10, current, turn, voters)
				if of, taken := owner[term]; taken && of != turn || term <= current {
					t.Fatalf("%d voters: turn %d stands in term %d after term %d, which belongs to turn %d", voters, turn, term, current, of)
				}
				owner[term] = turn
			}
		}
		if first := ownTerm(10, 10, 0, voters); first != 11 {
			t.Errorf("the first turn stands in term %d, want 11", first)
		}
	}
}

// byTurn returns the members without a leader, in the order in which they stand after its death.
func (e *ensemble) byTurn(leader uint32) []uint32 {
	turnOf := func(id uint32) int {
		turn, _ := standRank(id, leader, e.membersExcept(), e.greatestTerm(leader))
		return turn
	}
	byTurn := e.membersExcept(leader)
	slices.SortFunc(byTurn, func(a, b uint32) int { return turnOf(a) - turnOf(b) })
	return byTurn
}

// The first voter's request for a vote takes longer than a turn, so the second one stands meanwhile. No vote is split: the second one
// is elected, or the first one in its next term if the second one's log is shorter. It does not matter how late the first
// one rejects the second one.
func TestRequestTakesLongerThanATurn(t *testing.T) {
	t.Parallel()
	const slow, slower = standDelayPerRank * 3 / 2, standDelayPerRank * 9 / 2
	for _, tt := range []struct {
		name    string
		members int
		isShort bool
		takes   time.Duration // to store a term
	}{
		{"equal logs", 3, false, slow},
		{"the second one's log is shorter", 3, true, slow},
		{"the second one's log is shorter, and the disk slower", 3, true, slower},
		{"equal logs of four", 4, false, slow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, tt.members)
				disks := map[uint32]*slowTerm{}
				var died atomic.Int64
				for id, m := range e.members {
					m.adjust = func(cfg *Config) { cfg.LeaderDied = func(uint32) { died.Store(time.Now().UnixNano()) } }
					disks[id] = &slowTerm{StableStore: m.stores.Stable}
					m.stores.Stable = disks[id]
				}
				e.begin()
				all := e.membersExcept()
				old := e.leader(all...)
				time.Sleep(time.Second)
				byTurn := e.byTurn(old)
				first, wanted := byTurn[0], byTurn[1]
				if tt.isShort {
					wanted = first
					e.net.limitRate(old, byTurn[1], 256<<10)
					e.propose(strings.Repeat("b", 1<<20), e.membersExcept(byTurn[1])...)
				}
				disks[first].takes.Store(int64(tt.takes))
				lost := e.greatestTerm(old)
				want := ownTerm(lost, lost, 1, tt.members)
				if tt.isShort {
					want = ownTerm(lost, want, 0, tt.members)
				}
				led := e.whenLed(wanted)
				e.kill(old)
				took := (<-led).Sub(time.Unix(0, died.Load()))
				if most := 5*tt.takes + standDelayPerRank; took > most {
					t.Errorf("member %d leads after %v, want at most %v: a vote was split", wanted, took, most)
				}
				if got, term := e.leader(byTurn...), e.greatestTerm(byTurn...); got != wanted || term != want {
					t.Errorf("member %d leads in term %d, want %d in term %d", got, term, wanted, want)
				}
			})
		})
	}
}

// A member whose connections from the dead leader end only after another candidate's request, at which raft forgets the
// leader, stands all the same.
func TestLossIsNoticedAfterACandidate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		old := e.leader(1, 2, 3)
		time.Sleep(time.Second)
		short, next := others(old)[0], others(old)[1]
		e.net.limitRate(old, short, 256<<10)
		e.propose(strings.Repeat("b", 1<<20), old, next) // takes four seconds to get to the other one
		lost := e.greatestTerm(1, 2, 3)
		for _, id := range others(old) {
			e.net.set(e.net.refused, id, old, true)
			e.net.set(e.net.refused, old, id, true)
		}
		e.net.set(e.net.mute, old, next, true)
		e.net.reset(old, short)
		e.wait("the leader to be forgotten", func() bool {
			status := e.members[next].node.status
			return status.Term() > lost && status.LeaderID() == 0
		})
		begin := time.Now()
		e.net.set(e.net.mute, old, next, false)
		e.net.reset(old, next)
		if took := (<-e.whenLed(next)).Sub(begin); took > soon {
			t.Errorf("member %d leads after %v, want at most %v", next, took, soon)
		}
	})
}

// Of five voters, one that notices the loss after another candidate's request does not stand: the candidate may have been
// elected without it, and is not deposed.
func TestLateLossDeposesNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 5)
		disks := map[uint32]*slowStable{}
		for id, m := range e.members {
			disks[id] = &slowStable{StableStore: m.stores.Stable}
			m.stores.Stable = disks[id]
		}
		e.begin()
		old := e.leader(e.membersExcept()...)
		time.Sleep(time.Second)
		byTurn := e.byTurn(old)
		late, short := byTurn[1], e.membersExcept(old, byTurn[1])
		for _, id := range short {
			e.net.limitRate(old, id, 256<<10)
		}
		lost, last := e.greatestTerm(old), e.members[old].node.status.LastIndex()
		e.members[old].node.Propose([]byte(strings.Repeat("b", 1<<20)), nil) // takes four seconds to get to the other ones
		e.wait("one longer log", func() bool { return e.members[late].node.status.LastIndex() > last })
		for _, id := range byTurn[2:] { // the first one waits for their terms and votes, and the late one would stand meanwhile
			disks[id].takes.Store(int64(3 * standDelayPerRank))
		}
		for _, id := range e.membersExcept(old) {
			e.net.set(e.net.refused, id, old, true)
			e.net.set(e.net.refused, old, id, true)
			if id != late {
				e.net.reset(old, id)
			}
		}
		e.net.set(e.net.mute, old, late, true)
		e.wait("a candidate's term to be known", func() bool { return e.members[late].node.status.Term() > lost })
		e.net.set(e.net.mute, old, late, false)
		e.net.reset(old, late)
		if lead, term := e.leader(short...), e.greatestTerm(e.membersExcept(old)...); term != lost+1 {
			t.Errorf("member %d leads in term %d after %d: the first candidate was deposed", lead, term, lost)
		}
		e.mustRun(e.membersExcept()...)
	})
}

// A member that must not stand, or need not, leaves a dead leader to the others, and to the timeouts.
func TestUnfitMemberDoesNotStand(t *testing.T) {
	t.Parallel()
	tests := map[string]func(n *Node){
		"declines":   func(n *Node) { n.transfer.DeclineIncoming() },
		"is damaged": func(n *Node) { _ = n.record.StoreDamage("for a test") },
	}
	for name, unable := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.begin()
				old := e.leader(1, 2, 3)
				rest := others(old)
				for _, id := range rest {
					unable(e.members[id].node)
				}
				term := e.greatestTerm(rest...)
				e.kill(old)
				time.Sleep(soon)
				if now := e.greatestTerm(rest...); now != term {
					t.Errorf("term %d after term %d: somebody has stood", now, term)
				}
			})
		})
	}
}

// Of two voters the other one cannot be elected alone, and does not stand.
func TestOneOfTwoDoesNotStand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.begin()
		old := e.leader(1, 2)
		other, term := e.membersExcept(old)[0], e.greatestTerm(1, 2)
		e.kill(old)
		time.Sleep(soon)
		if now := e.greatestTerm(other); now != term {
			t.Errorf("term %d after term %d", now, term)
		}
	})
}

// The voters other than the leader take turns, and each has a rank of its own. Observers do not stand.
func TestRankOf(t *testing.T) {
	t.Parallel()
	for _, voters := range [][]uint32{{1, 2, 3}, {9, 4, 7, 1}, {1, 2, 3, 4, 5}} {
		for term := range uint64(2 * len(voters)) {
			ranks := map[int]uint32{}
			for _, id := range voters[1:] {
				rank, ok := standRank(id, voters[0], voters, term)
				if before, _ := standRank(id, voters[0], voters, term+uint64(len(voters)-1)); !ok || before != rank || rank >= len(voters)-1 {
					t.Errorf("of %v in term %d member %d has rank %d, %t; %d a round later", voters, term, id, rank, ok, before)
				}
				ranks[rank] = id
			}
			if len(ranks) != len(voters)-1 {
				t.Errorf("of %v in term %d the ranks are %v", voters, term, ranks)
			}
		}
	}
	for _, none := range []struct {
		self   uint32
		voters []uint32
	}{{2, []uint32{1, 2}}, {2, []uint32{1}}, {4, []uint32{1, 2, 3}}, {1, []uint32{1, 2, 3}}} {
		if rank, ok := standRank(none.self, 1, none.voters, 7); ok {
			t.Errorf("member %d of %v has rank %d", none.self, none.voters, rank)
		}
	}
}

// closing is a StreamLayer that calls a function before it is closed.
type closing struct {
	raft.StreamLayer
	before func()
}

func (c closing) Close() error {
	c.before()
	return c.StreamLayer.Close()
}

// A leader that must stop closes its port only after another member leads, so that no member takes it for dead before.
func TestPortClosesAfterHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		var leaders atomic.Int32
		for id, m := range e.members {
			m.adjust = func(cfg *Config) {
				cfg.StreamLayer = closing{cfg.StreamLayer, func() {
					e.mu.Lock()
					defer e.mu.Unlock()
					for _, other := range others(id) {
						if n := e.members[other].node; n != nil && n.status.IsLeader() {
							leaders.Add(1)
						}
					}
				}}
			}
		}
		e.begin()
		for range 3 {
			old := e.leader(1, 2, 3)
			leaders.Store(0)
			e.stop(old)
			if leaders.Load() != 1 {
				t.Errorf("nobody else led when member %d closed its port", old)
			}
			e.start(old)
			e.awaitJoined(old)
		}
	})
}
