package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Three new members begin one ensemble, in whatever order they are started, and not before all of
// them run. The one with the lowest id begins it.
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
						if i < 2 && e.isReady(before) {
							t.Fatalf("member %d began with %v started", before, order[:i+1])
						}
					}
				}
				e.complete(1, 2, 3)
				e.propose("a", 1, 2, 3)
				e.awaitApplied([]string{"a"}, 1, 2, 3)
				if first := e.history(1)[0]; first != "1" {
					t.Errorf("the first configuration is %q", first)
				}
			})
		})
	}
}

func (e *ensemble) isReady(id uint32) bool {
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

// slowDisk empties a member's disk, and makes its writes slow.
func (e *ensemble) slowDisk(id uint32, each time.Duration) {
	mem := raft.NewInmemStore()
	e.members[id].stores = disk.Stores{Log: &slowLog{mem, each}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
}

// proposeMany writes count commands and returns all there are.
func (e *ensemble) proposeMany(count int, ids ...uint32) []string {
	e.t.Helper()
	return e.fillWith(count, "", ids...)
}

// fillLarge is fill with commands of which a request carries only two, so that a member copies them step by step.
func (e *ensemble) fillLarge(count int, ids ...uint32) []string {
	e.t.Helper()
	return e.fillWith(count, strings.Repeat("x", 300<<10), ids...)
}

func (e *ensemble) fillWith(count int, end string, ids ...uint32) []string {
	e.t.Helper()
	all := e.members[ids[0]].machine.commands()
	for i := range count {
		all = append(all, fmt.Sprint("w", i, end))
		e.propose(all[len(all)-1], ids...)
	}
	e.awaitApplied(all, ids...)
	return all
}

// These are the rules of evaluate and foundingBlocker, one by one, for a member without data.
func TestWhoBegins(t *testing.T) {
	first, second := wire.EnsembleID{1}, wire.EnsembleID{2}
	peers := peersOf(2, 3, 4, 0, 1)
	hash := wire.ConfigHash(peers)
	empty := &proto.HelloReply{ConfigHash: hash}
	data := func(id wire.EnsembleID) *proto.HelloReply {
		return &proto.HelloReply{HasData: true, Ensemble: id[:]}
	}
	for _, tt := range []struct {
		name       string
		self       uint32
		replies    map[uint32]*proto.HelloReply
		met        *PeerContact
		byMajority bool
		ensemble   wire.EnsembleID
		waits      string
	}{
		{"all are empty", 2, map[uint32]*proto.HelloReply{1: empty, 3: empty, 4: empty}, nil, false, wire.EnsembleID{}, ""},
		{"not the lowest", 3, map[uint32]*proto.HelloReply{1: empty, 2: empty, 4: empty}, nil, false, wire.EnsembleID{}, "member 2"},
		{"an observer", 1, map[uint32]*proto.HelloReply{2: empty, 3: empty, 4: empty}, nil, false, wire.EnsembleID{}, "member 2"},
		{"a voter is silent", 2, map[uint32]*proto.HelloReply{1: empty, 3: empty}, nil, false, wire.EnsembleID{}, "missing: member 4"},
		{"an observer is silent", 2, map[uint32]*proto.HelloReply{3: empty, 4: empty}, nil, false, wire.EnsembleID{}, "missing: member 1"},
		{"by a majority", 2, map[uint32]*proto.HelloReply{3: empty}, nil, true, wire.EnsembleID{}, ""},
		{"by no majority", 2, map[uint32]*proto.HelloReply{1: empty}, nil, true, wire.EnsembleID{}, "missing: member 3"},
		{"other server lines", 2, map[uint32]*proto.HelloReply{1: empty, 3: empty, 4: {ConfigHash: []byte("x")}}, nil, false, wire.EnsembleID{}, "member 4 (e:1), which has other server lines"},
		{"other server lines, by a majority", 2, map[uint32]*proto.HelloReply{3: {ConfigHash: []byte("x")}}, nil, true, wire.EnsembleID{}, "member 3 (d:1), which has other server lines"},
		{"one has data", 2, map[uint32]*proto.HelloReply{3: data(first)}, nil, false, first, ""},
		{"one with data has said hello", 2, map[uint32]*proto.HelloReply{1: empty, 3: empty, 4: empty}, &PeerContact{Peer: wire.Peer{ID: 9}, EnsembleID: first, HasData: true}, false, first, ""},
		{"one without data has said hello", 2, map[uint32]*proto.HelloReply{1: empty, 3: empty, 4: empty}, &PeerContact{Peer: wire.Peer{ID: 9}, EnsembleID: first}, false, wire.EnsembleID{}, ""},
		{"one comes in itself, and has no data", 2, map[uint32]*proto.HelloReply{1: empty, 3: {ConfigHash: hash, Ensemble: first[:]}, 4: empty}, nil, false, wire.EnsembleID{}, ""},
		{"two ensembles", 2, map[uint32]*proto.HelloReply{3: data(first), 4: data(second)}, nil, false, wire.EnsembleID{}, "the end of one of two ensembles"},
	} {
		book := wire.NewAddressBook(tt.self, peers)
		status := &Status{addressBook: book, configuredPeers: peers}
		b := &bootstrap{configuredPeers: peers, foundByMajority: tt.byMajority, addressBook: book, status: status, reachability: &Reachability{status: status}}
		if tt.met != nil {
			b.reachability.RecordContact(*tt.met)
		}
		got := b.nextStep(helloRound{replies: tt.replies, failures: map[uint32]error{}})
		if got.joinEnsemble != tt.ensemble || !strings.Contains(got.waitingFor, tt.waits) || tt.waits == "" && got.waitingFor != "" {
			t.Errorf("%s: %+v, want %x and %q", tt.name, got, tt.ensemble[:1], tt.waits)
		}
	}
}

// A start that was killed before the first entry was written counts as no data, and another one begins.
func TestBootstrapKilledHalfWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1) // draws its disk
		e.stop(1)
		id := wire.EnsembleID{7}
		if err := errors.Join(e.members[1].stores.Stable.Set(keyEnsemble, id[:]), e.members[1].stores.Stable.SetUint64([]byte("CurrentTerm"), 1)); err != nil {
			t.Fatal(err)
		}
		e.start(1)
		time.Sleep(5 * time.Second)
		if _, known := e.members[1].node.record.EnsembleID(); known || e.members[1].node.HasData() {
			t.Error("want no data and no ensemble")
		}
		e.start(2, 3)
		e.complete(1, 2, 3)
		e.propose("a", 1, 2, 3)
		e.awaitApplied([]string{"a"}, 1, 2, 3)
	})
}

// The member that has begun an ensemble loses its disk before another one has any data. It begins another ensemble, and those
// that were about to come into the first one start again.
func TestBeginnerIsWipedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for _, id := range []uint32{2, 3} {
			e.net.set(e.net.refused, 1, id, true) // they hear of the ensemble, and get no entry
		}
		e.start(2, 3)
		e.start(1)
		e.wait("the others to come in", func() bool { return e.isReady(2) && e.isReady(3) })
		if e.members[2].node.HasData() || e.members[3].node.HasData() {
			t.Fatal("they have data: this shows nothing")
		}
		e.kill(1)
		e.wipe(1)
		for _, id := range []uint32{2, 3} {
			e.net.set(e.net.refused, 1, id, false)
		}
		e.start(1)
		for _, id := range []uint32{2, 3} {
			if err := e.awaitEnd(id); !errors.Is(err, wire.ErrRestart) {
				t.Errorf("member %d: %v, want ErrRestart", id, err)
			}
			e.start(id)
		}
		e.complete(1, 2, 3)
	})
}

// A majority begins only if configured to. The third member comes in whenever it starts.
func TestNewEnsembleByMajority(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1, 2)
		time.Sleep(time.Minute)
		if e.isReady(1) || e.isReady(2) {
			t.Fatal("two of three began by themselves")
		}
		for _, id := range []uint32{1, 2} {
			e.stop(id)
			e.members[id].adjust = func(c *Config) { c.FoundByMajority = true }
		}
		e.start(1, 2)
		e.propose("a", 1, 2)
		e.start(3)
		e.complete(1, 2, 3)
		e.awaitApplied([]string{"a"}, 1, 2, 3)
	})
}

// An emptied member comes in as a new server, whichever it is, and even twice in a row. Its former disk is gone from the
// configuration. Nothing is lost.
func TestWipedMemberComesIn(t *testing.T) {
	t.Parallel()
	for _, twice := range []bool{false, true} {
		for _, wiped := range []uint32{1, 2, 3} {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.begin()
				all := e.proposeMany(40, 1, 2, 3)
				before := e.members[wiped].node.status.selfPeer()
				e.kill(wiped)
				e.slowDisk(wiped, 20*time.Millisecond)
				e.start(wiped)
				if twice {
					e.wait("a part of the log", func() bool { return e.members[wiped].node.status.LastIndex() > 10 })
					e.kill(wiped)
					e.wipe(wiped)
					e.start(wiped)
				}
				now := e.members[wiped].node.status.selfPeer()
				e.wait("its new disk to vote", func() bool {
					lead := e.leaderNow()
					if lead == 0 {
						return false
					}
					servers := e.members[lead].node.status.Servers()
					return len(servers) == 3 && slices.Contains(servers, now) && !slices.Contains(servers, before)
				})
				e.propose("more", 1, 2, 3)
				e.awaitJoined(wiped)
				e.awaitApplied(append(all, "more"), 1, 2, 3)
				e.kill(e.leader(1, 2, 3))
				e.propose("its vote elects", e.running()...)
			})
		}
	}
}

// An emptied member that copies the log from its beginning passes the configuration in which its former disk was the only voter.
// It does not stand for election then, although it hears from no leader.
func TestCopiedConfigurationGivesNoVote(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		all := e.fillLarge(10, 1, 2, 3) // the emptied member has a part when the leader is killed
		if e.history(1)[0] != "1" {
			t.Fatal("member 1 was not the first voter: this shows nothing")
		}
		e.kill(1)
		e.slowDisk(1, time.Second)
		e.start(1)
		n := e.members[1].node
		e.wait("the first entries", func() bool { return n.status.LastIndex() > 0 })
		e.kill(e.leader(2, 3))
		for range 100 {
			if time.Sleep(100 * time.Millisecond); n.status.IsLeader() || n.status.Term() > 0 && n.mayStand() == nil {
				t.Fatalf("member 1 leads or may stand, with the configuration %v", n.status.Servers())
			}
		}
		for id := range e.members {
			if e.members[id].node == nil {
				e.start(id)
			}
		}
		e.complete(1, 2, 3)
		e.awaitApplied(all, 1, 2, 3)
	})
}

// A member came into an ensemble that is no more, and had nothing of it. When it begins another one, it has all the data that
// there are: it can be recovered.
func TestBeginnerHasAllData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1)
		e.stop(1)
		if err := e.members[1].stores.Stable.SetUint64(keyCopying, 1); err != nil {
			t.Fatal(err)
		}
		e.start(1, 2, 3)
		e.complete(1, 2, 3)
		if copying, err := readCopyingMark(e.members[1].node.disk.Stable()); copying || err != nil {
			t.Errorf("marked as one that copies: %v, %v", copying, err)
		}
	})
}

// A new disk is marked from before its first entry until it has all that its leader had, also if its process ends in between.
func TestNewDiskIsMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		e.fillLarge(20, 1, 2, 3)
		e.kill(3)
		e.slowDisk(3, 20*time.Millisecond)
		for range 2 {
			e.start(3)
			index := e.members[3].node.status.LastIndex()
			e.wait("a part of the log", func() bool { return e.members[3].node.status.LastIndex() > index })
			n := e.members[3].node
			e.kill(3)
			if copying, err := readCopyingMark(n.disk.Stable()); !copying || err != nil {
				t.Errorf("with %d entries, it is marked: %t, %v", n.status.LastIndex(), copying, err)
			}
		}
		e.start(3)
		e.votes(3)
		e.wait("the end of its mark", func() bool {
			copying, err := readCopyingMark(e.members[3].node.disk.Stable())
			return !copying && err == nil
		})
	})
}

// When two of three voters are lost, or one of two, no member leads any more. Every member logs that once, within a
// tick.
func TestLostMajority(t *testing.T) {
	t.Parallel()
	const tick = 2 * time.Second // ZooKeeper's default
	for _, members := range []int{2, 3} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, members)
			logs := make(map[uint32]*logBuffer)
			for id, m := range e.members {
				logs[id] = &logBuffer{}
				m.adjust = func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(logs[id], nil)) }
			}
			logged := func(when string) {
				t.Helper()
				for id, l := range logs {
					if n := strings.Count(l.String(), "too many voters have lost their disks"); n != 1 {
						t.Errorf("%s, the log of member %d has %d lines, want 1", when, id, n)
					}
				}
			}
			e.begin()
			for id := uint32(2); id <= uint32(members); id++ {
				e.kill(id)
				e.wipe(id)
				e.start(id)
			}
			time.Sleep(tick)
			logged("after a tick")
			time.Sleep(time.Minute)
			logged("later")
			for id, m := range e.members {
				n := m.node
				if lost := (&bootstrap{status: n.status}).lostVotersBlockingElection(n.hellos.sendAll(t.Context())); n.status.LeaderID() != 0 || len(wire.VoterIDs(lost)) != members-1 {
					t.Errorf("member %d knows that %v are lost, and follows %d", id, lost, n.status.LeaderID())
				}
			}
		})
	}
}

// A member was away while three of the other four were replaced by new disks, one after the other. By its own old configuration
// the majority is lost, but the others have a newer one.
func TestReplacedVotersAreNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 5)
		e.begin()
		e.stop(5)
		for id := uint32(2); id <= 4; id++ {
			e.kill(id)
			e.wipe(id)
			e.start(id)
			e.complete(1, 2, 3, 4)
		}
		for id := uint32(1); id <= 4; id++ {
			e.net.set(e.net.refused, id, 5, true)
		}
		e.start(5)
		e.wait("member 5 to run", func() bool { return e.isReady(5) })
		n := e.members[5].node
		if lost := (&bootstrap{status: n.status}).lostVotersBlockingElection(n.hellos.sendAll(t.Context())); n.status.LeaderID() != 0 || lost != nil {
			t.Errorf("it takes %v for lost, and follows %d", lost, n.status.LeaderID())
		}
		for reading := uint32(1); reading <= 4; reading++ {
			if lost := (&bootstrap{status: n.status}).lostVotersBlockingElection(e.roundOf(5, reading)); lost != nil {
				t.Errorf("while member %d reads its data, member 5 takes %v for lost", reading, lost)
			}
		}
	})
}

// roundOf returns a round of Hellos of member from. Member reading has data that it still reads, and all others are empty.
func (e *ensemble) roundOf(from, reading uint32) helloRound {
	r := helloRound{replies: map[uint32]*proto.HelloReply{}}
	for id, m := range e.members {
		if id != from {
			r.replies[id] = &proto.HelloReply{Member: id, Disk: uint64(m.node.disk.ID()) + 1, HasData: id == reading}
		}
	}
	return r
}

// twoAndAnObserver returns an ensemble of two voters, of which member 1 leads, and member 3 without a vote.
func twoAndAnObserver(t *testing.T) *ensemble {
	t.Helper()
	e := listed(t, 2, 3)
	e.beginListed(2)
	e.start(3)
	e.propose(listPrefix+"1 2 (3)", 1, 2)
	e.follows(1, "1 2 (3)")
	e.awaitJoined(3)
	if e.leader(1, 2) != 1 {
		t.Fatal("member 1 does not lead")
	}
	return e
}

// The leader of two dies after it has given a third one a vote. The second one does not know of that, and votes for it.
func TestVoterUnknownToAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := twoAndAnObserver(t)
		e.net.partition(1, 2)
		third := e.members[3].node.status.selfPeer()
		future := e.members[1].node.status.raft.Load().AddVoter(third.ServerID(), third.ServerAddress(), 0, time.Second)
		if err := future.Error(); err != nil {
			t.Fatal(err)
		}
		e.kill(1)
		if got := shown(e.members[2].node.status.ConfiguredMembers()); got != "1 2 (3)" {
			t.Fatalf("member 2 has the configuration %q: this shows nothing", got)
		}
		e.wait("the third one to lead", func() bool { return e.members[3].node.status.IsLeader() })
		e.net.heal()
	})
}

// A server without a vote gets an entry when it is committed, and not before.
func TestNonvoterGetsCommittedEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := twoAndAnObserver(t)
		before := e.members[3].node.status.LastIndex()
		e.net.partition(1, 2)
		lost := e.members[1].node.Propose([]byte("uncommitted"), nil)
		time.Sleep(e.members[1].node.electionTimeout / 2) // it still leads
		if n := e.members[1].node; !n.status.IsLeader() || n.status.LastIndex() == before {
			t.Fatal("member 1 leads no more, or has no entry: this shows nothing")
		}
		if last := e.members[3].node.status.LastIndex(); last != before {
			t.Errorf("the nonvoter has got entry %d, and only %d is committed", last, before)
		}
		e.net.heal()
		_ = e.outcome(lost)
		e.propose("committed", 1, 2)
		e.wait("the nonvoter to apply it", func() bool { return slices.Contains(e.members[3].machine.commands(), "committed") })
	})
}
