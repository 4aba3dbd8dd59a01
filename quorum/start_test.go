package quorum

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Three new members begin one ensemble, in whatever order they are started, and not before all of
// them run.
func TestFirstStartInEveryOrder(t *testing.T) {
	t.Parallel()
	for _, order := range [][]uint32{{1, 2, 3}, {1, 3, 2}, {2, 1, 3}, {2, 3, 1}, {3, 1, 2}, {3, 2, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				for i, id := range order {
					e.start(id)
					if i < 2 {
						time.Sleep(10 * time.Second)
					}
					for _, before := range order[:min(i+1, 2)] {
						if i < 2 && e.ready(before) {
							t.Fatalf("member %d began with %v started", before, order[:i+1])
						}
					}
				}
				e.propose("a", 1, 2, 3)
				e.applied([]string{"a"}, 1, 2, 3)
				for id := range e.members {
					e.joined(id)
				}
			})
		})
	}
}

func (e *ensemble) ready(id uint32) bool {
	select {
	case <-e.members[id].node.Ready():
		return true
	default:
		return false
	}
}

// slowLog takes its time for each write.
type slowLog struct {
	*raft.InmemStore
	each time.Duration
}

func (s *slowLog) StoreLogs(logs []*raft.Log) error {
	time.Sleep(s.each)
	return s.InmemStore.StoreLogs(logs)
}

// fill writes count commands and returns all there are.
func (e *ensemble) fill(count int, ids ...uint32) []string {
	e.t.Helper()
	all := e.members[ids[0]].machine.commands()
	for i := range count {
		all = append(all, fmt.Sprint("w", i))
		e.propose(all[len(all)-1], ids...)
	}
	e.applied(all, ids...)
	return all
}

// A member that lost its disk elects no leader until it has everything back, not even after it was
// killed while it was catching up.
func TestWipedMemberJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		all := e.fill(400, 1, 2, 3)
		lead := e.leader(1, 2, 3)
		wiped, other := others(lead)[0], others(lead)[1]
		e.kill(wiped)
		mem := raft.NewInmemStore()
		e.members[wiped].stores = disk.Stores{Log: &slowLog{mem, 30 * time.Millisecond}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}

		e.start(wiped)
		e.wait("half of the log", func() bool { return e.members[wiped].node.LastIndex() > 100 })
		if !e.members[wiped].node.Joining() || !e.members[wiped].node.HasData() {
			t.Error("half caught up: want it joining, with data")
		}
		e.kill(lead)
		time.Sleep(10 * time.Second)
		e.alive(wiped, other)
		if id := e.leaderNow(); id != 0 {
			t.Fatalf("member %d leads by the vote of one that lost its data", id)
		}
		e.kill(wiped)
		e.start(wiped)
		e.wait("raft", func() bool { return e.ready(wiped) })
		if !e.members[wiped].node.Joining() {
			t.Error("joining did not survive a restart")
		}
		time.Sleep(10 * time.Second)
		e.alive(wiped, other)
		if id := e.leaderNow(); id != 0 {
			t.Fatalf("member %d leads by the vote of one that lost its data and restarted", id)
		}

		e.start(lead)
		e.leader(lead, other)
		e.propose("more", lead, other)
		e.joined(wiped)
		if got := e.members[wiped].machine.commands(); !slices.Equal(got[:min(len(got), len(all))], all) {
			t.Errorf("no longer joining with %d of %d entries applied", len(got), len(all))
		}
		e.kill(e.leader(1, 2, 3))
		e.wait("the joined member's vote to elect", func() bool { return e.leaderNow() != 0 })
	})
}

// A member that lost its disk stands for election no more than it votes. Another one has less of the log than it has
// copied so far, and would elect it; some of what was acknowledged would be gone.
func TestWipedMemberStandsAside(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		wiped, behind := others(lead)[0], others(lead)[1]
		e.net.partition(lead, behind)
		all := append([]string{"a"}, e.fill(400, lead, wiped)[1:]...)
		e.kill(wiped)
		mem := raft.NewInmemStore()
		e.members[wiped].stores = disk.Stores{Log: &slowLog{mem, 30 * time.Millisecond}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
		e.start(wiped)
		e.wait("a part of the log", func() bool { return e.members[wiped].node.LastIndex() > e.members[behind].node.LastIndex()+50 })
		e.kill(lead)
		if n := e.members[wiped].node; !n.Joining() || n.LastIndex() > uint64(len(all)) {
			t.Fatal("the wiped member has caught up: this shows nothing")
		}
		time.Sleep(10 * time.Second)
		e.alive(wiped, behind)
		if id := e.leaderNow(); id != 0 {
			t.Fatalf("member %d leads without the end of the log", id)
		}
		e.net.heal()
		e.start(lead)
		e.propose("more", 1, 2, 3)
		e.applied(append(all, "more"), 1, 2, 3)
		e.joined(wiped)
	})
}

// Two of three members lost their disks: one copy is not a majority, and no member may begin a new
// ensemble.
func TestTwoWipedOfThree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		for id := range e.members {
			e.kill(id)
		}
		e.wipe(1)
		e.wipe(2)
		for _, id := range []uint32{1, 2} {
			e.members[id].adjust = func(c *Config) { c.NewEnsemble = true } // no licence to forget
		}
		e.start(3)
		e.start(1, 2)
		time.Sleep(time.Minute)
		e.alive(1, 2, 3)
		if e.ready(1) || e.ready(2) || e.leaderNow() != 0 {
			t.Errorf("began: 1 %t, 2 %t, leader %d", e.ready(1), e.ready(2), e.leaderNow())
		}
	})
}

// A member that has begun to join, and was killed before it had copied anything, begins no new ensemble, and neither does
// one that hears of it. The server lines of these two do not have the member with the data.
func TestJoiningMemberBeginsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		for id, m := range e.members {
			e.kill(id)
			if id == 3 {
				continue
			}
			e.wipe(id)
			m.adjust = func(c *Config) { c.Peers = e.peers[:2] }
		}
		if err := e.members[1].stores.Stable.SetUint64(keyJoining, 1); err != nil {
			t.Fatal(err)
		}
		e.start(1, 2)
		time.Sleep(time.Minute)
		e.alive(1, 2)
		if e.ready(1) || e.ready(2) {
			t.Errorf("began: 1 %t, 2 %t", e.ready(1), e.ready(2))
		}
	})
}

// A member without data has heard of an ensemble. It begins no new one when nobody who answers has data any more.
func TestMemberRemembersThatThereIsAnEnsemble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		for id := range e.members {
			e.kill(id)
		}
		forget := func(id uint32) {
			e.wipe(id)
			e.members[id].adjust = func(c *Config) { c.Peers = e.peers[:2] }
		}
		forget(1)
		e.start(1, 2)
		time.Sleep(10 * time.Second)
		e.kill(2)
		forget(2)
		e.start(2)
		time.Sleep(time.Minute)
		e.alive(1, 2)
		if e.ready(1) || e.leaderNow() != 0 {
			t.Errorf("member 1 has begun: %t, and member %d leads", e.ready(1), e.leaderNow())
		}
	})
}

// A bootstrap that was killed half-way counts as no data, and is completed.
func TestBootstrapKilledHalfWay(t *testing.T) {
	t.Parallel()
	entry := &raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration}
	tests := []struct {
		name  string
		spoil func(disk.Stores) error
	}{
		{"term without entry", func(s disk.Stores) error { return s.Stable.SetUint64([]byte("CurrentTerm"), 1) }},
		{"nobody elected yet", func(s disk.Stores) error {
			return errors.Join(s.Stable.SetUint64([]byte("CurrentTerm"), 7), s.Log.StoreLog(entry))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				entry.Data = raft.EncodeConfiguration(wire.Configuration(e.peers))
				if err := tt.spoil(e.members[2].stores); err != nil {
					t.Fatal(err)
				}
				e.start(2)
				time.Sleep(5 * time.Second)
				if e.members[2].node.HasData() || e.members[2].node.Joining() {
					t.Error("want no data and not joining")
				}
				e.start(1, 3)
				e.propose("a", 1, 2, 3)
				e.applied([]string{"a"}, 1, 2, 3)
			})
		})
	}
}

// All members stop after a leader stored its first entry, which no other member has yet. The two
// others have the bootstrap entry, so they do not count as wiped, and all start again.
func TestStopBeforeFirstCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for id, m := range e.members {
			log := []*raft.Log{
				{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(wire.Configuration(e.peers))},
				{Index: 2, Term: 2, Type: raft.LogNoop},
			}
			if id != 1 {
				log = log[:1]
			}
			if err := errors.Join(m.stores.Stable.SetUint64([]byte("CurrentTerm"), 2), m.stores.Log.StoreLogs(log)); err != nil {
				t.Fatal(err)
			}
		}
		e.start(1, 2, 3)
		e.propose("a", 1, 2, 3)
		e.applied([]string{"a"}, 1, 2, 3)
	})
}

// A majority begins only if configured to. The third member joins whenever it comes.
func TestNewEnsembleByMajority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1, 2)
		time.Sleep(time.Minute)
		if e.ready(1) || e.ready(2) {
			t.Fatal("two of three began by themselves")
		}
		for _, id := range []uint32{1, 2} {
			e.stop(id)
			e.members[id].adjust = func(c *Config) { c.NewEnsemble = true }
		}
		e.start(1, 2)
		e.propose("a", 1, 2)
		e.start(3)
		e.wait("the third to begin", func() bool { return e.ready(3) })
		e.propose("b", 1, 2, 3)
		e.applied([]string{"a", "b"}, 1, 2, 3)
		e.joined(3)
	})
}

// Of two members, the one that lost its disk votes for the other, because no other majority exists
// and the other one has everything.
func TestWipedOneOfTwo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.begin()
		e.kill(1)
		e.kill(2)
		e.wipe(1)
		e.start(1, 2)
		if lead := e.leader(1, 2); lead != 2 {
			t.Errorf("member %d leads, want the one with data", lead)
		}
		e.propose("b", 1, 2)
		e.applied([]string{"a", "b"}, 1, 2)
		e.joined(1)
		e.kill(2)
		e.start(2)
		e.propose("c", 1, 2)
	})
}

// A wiped member that starts before the others waits for them, then joins.
func TestWipedStartsFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		for id := range e.members {
			e.kill(id)
		}
		e.wipe(3)
		e.start(3)
		time.Sleep(10 * time.Second)
		e.start(1)
		time.Sleep(10 * time.Second)
		if e.ready(3) || e.leaderNow() != 0 {
			t.Fatal("one copy of the data was enough to begin")
		}
		e.start(2)
		e.propose("b", 1, 2)
		e.applied([]string{"a", "b"}, 1, 2, 3)
		e.joined(3)
	})
}

// orderedStable records the order of the writes.
type orderedStable struct {
	raft.StableStore
	mu     sync.Mutex
	writes []string
}

func (o *orderedStable) SetUint64(k []byte, v uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writes = append(o.writes, fmt.Sprintf("%s=%d", k, v))
	return o.StableStore.SetUint64(k, v)
}

// Before a wiped member takes any entry, it has stored the others' term and then that it is
// joining. So a leader that was deposed long ago cannot give it entries.
func TestJoiningTermComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		old := e.leader(1, 2, 3)
		e.handOver(old) // a term that is not the first
		term := e.members[e.leader(1, 2, 3)].node.Term()
		lead := e.leader(1, 2, 3)
		wiped := others(lead)[0]
		e.kill(wiped)
		e.wipe(wiped)
		stable := &orderedStable{StableStore: e.members[wiped].stores.Stable}
		e.members[wiped].stores.Stable = stable
		e.start(wiped)
		e.wait("raft", func() bool { return e.ready(wiped) })
		stable.mu.Lock()
		defer stable.mu.Unlock()
		want := []string{fmt.Sprintf("CurrentTerm=%d", term), "RollcallJoining=1"}
		if len(stable.writes) < 2 || !slices.Equal(stable.writes[:2], want) {
			t.Errorf("wrote %q, want first %q", stable.writes, want)
		}
	})
}

// The verdicts on the answers of one round.
func TestJudge(t *testing.T) {
	t.Parallel()
	none, data, joining := &proto.HelloReply{}, &proto.HelloReply{HasData: true}, &proto.HelloReply{HasData: true, Joining: true}
	alone := &proto.HelloReply{HasData: true, Recovery: 7, Recovering: true}
	empty, knowing := &proto.HelloReply{Joining: true}, &proto.HelloReply{Roster: &proto.Roster{}}
	tests := []struct {
		name    string
		members int
		newEns  bool
		answers map[uint32]*proto.HelloReply
		want    start
		waits   bool
	}{
		{"all without data", 3, false, map[uint32]*proto.HelloReply{2: none, 3: none}, startBootstrap, false},
		{"another one has begun to join", 3, false, map[uint32]*proto.HelloReply{2: none, 3: empty}, 0, true},
		{"another one has begun to join, new ensemble", 3, true, map[uint32]*proto.HelloReply{2: none, 3: empty}, 0, true},
		{"another one knows the list of an ensemble", 3, false, map[uint32]*proto.HelloReply{2: none, 3: knowing}, 0, true},
		{"one that has no vote has data", 3, false, map[uint32]*proto.HelloReply{2: none, 3: none, 4: data}, 0, true},
		{"one silent", 3, false, map[uint32]*proto.HelloReply{2: none}, 0, true},
		{"one silent, new ensemble", 3, true, map[uint32]*proto.HelloReply{2: none}, startBootstrap, false},
		{"half, new ensemble", 4, true, map[uint32]*proto.HelloReply{2: none}, 0, true},
		{"alone, new ensemble", 3, true, nil, 0, true},
		{"data, new ensemble", 3, true, map[uint32]*proto.HelloReply{2: none, 3: data}, 0, true},
		{"both others have data", 3, false, map[uint32]*proto.HelloReply{2: data, 3: data}, startJoining, false},
		{"one is joining too", 3, false, map[uint32]*proto.HelloReply{2: data, 3: joining}, 0, true},
		{"the other one of two", 2, false, map[uint32]*proto.HelloReply{2: data}, startJoining, false},
		{"three of four others of five", 5, false, map[uint32]*proto.HelloReply{2: data, 3: data, 4: data}, startJoining, false},
		{"the survivor of three", 3, false, map[uint32]*proto.HelloReply{2: alone}, startJoining, false},
		{"the survivor of three has not begun", 3, false, map[uint32]*proto.HelloReply{2: joining}, 0, true},
		{"the survivor of three, and one from before", 3, false, map[uint32]*proto.HelloReply{2: alone, 3: data}, 0, true},
		{"two that were recovered apart", 3, false, map[uint32]*proto.HelloReply{2: alone, 3: {HasData: true, Recovery: 8, Recovering: true}}, 0, true},
		{"one of two voters after a recovery", 3, false, map[uint32]*proto.HelloReply{2: {HasData: true, Recovery: 7}, 3: {HasData: true, Recovery: 7, Joining: true, CaughtUp: true}}, 0, true},
		{"two of four others of five", 5, false, map[uint32]*proto.HelloReply{2: data, 3: data, 4: none, 5: none}, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := &Node{cfg: Config{Self: 1, NewEnsemble: tt.newEns}}
			for id := range tt.members {
				n.cfg.Peers = append(n.cfg.Peers, wire.Peer{ID: uint32(id + 1), Addr: "h:1"})
			}
			n.cfg.Book = wire.NewBook(1, n.cfg.Peers)
			v := n.evaluate(tt.answers)
			if waits := v.waiting != ""; waits != tt.waits || !waits && v.start != tt.want {
				t.Errorf("judge = %v, waiting for %q; want %v, waiting %t", v.start, v.waiting, tt.want, tt.waits)
			}
		})
	}
}
