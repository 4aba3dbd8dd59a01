package quorum

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// growing begins an ensemble of members 1 and 2 with some entries, and then takes member 3 in, as an observer or as
// a voter.
func growing(t *testing.T, observer bool) *ensemble {
	t.Helper()
	e := newEnsemble(t, 3)
	e.peers[2].Observer = observer
	var grown atomic.Bool
	for id, m := range e.members {
		m.adjust = func(c *Config) {
			if id < 3 {
				c.Peers = e.peers[:2]
			}
			c.Wanted = func() ([]wire.Peer, bool) {
				if grown.Load() {
					return e.peers, true
				}
				return e.peers[:2], true
			}
		}
	}
	e.start(1, 2)
	for i := range 200 {
		e.propose(fmt.Sprint("w", i), 1, 2)
	}
	for _, id := range []uint32{1, 2} {
		if err := e.members[id].node.SetEnsemble([32]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	grown.Store(true)
	e.start(3)
	e.wait("member 3 to come in", func() bool {
		p, in := find(e.members[1].node.Latest(), 3)
		return in && p.Observer == observer
	})
	for id := range e.members {
		e.joined(id)
	}
	return e
}

// slow makes the log of a member slow from its next start on.
func (e *ensemble) slow(id uint32) {
	s := e.members[id].stores
	s.Log = &slowLog{s.Log.(*raft.InmemStore), 30 * time.Millisecond}
	e.members[id].stores = s
}

// An ensemble has grown from two members to three. A member that lost its disk copies the log from its beginning,
// where there are two. It votes for nobody by that: member 2 lacks what members 1 and 3 have acknowledged.
func TestCopiedConfigurationIsNotHeard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := growing(t, false)
		e.wait("member 3 to lead", func() bool {
			if lead := e.leader(1, 2, 3); lead != 3 {
				e.handOver(lead)
				return false
			}
			return true
		})
		e.kill(2)
		for i := range 2000 {
			e.propose(fmt.Sprint("v", i), 1, 3)
		}
		all := e.members[3].machine.commands()
		e.kill(1)
		e.wipe(1)
		e.slow(1)
		e.slow(2)
		e.start(1, 2)
		e.wait("member 1 to have a part of the log", func() bool { return e.members[1].node.LastIndex() > 10 })
		if servers := e.members[1].node.Latest(); len(servers) != 2 || e.members[2].node.LastIndex() > 1500 {
			t.Fatalf("member 1 has the configuration %v, and member 2 has the log up to %d: this shows nothing", servers, e.members[2].node.LastIndex())
		}
		e.kill(3)
		time.Sleep(10 * time.Second)
		e.alive(1, 2)
		if id := e.leaderNow(); id != 0 {
			t.Fatalf("member %d leads with a log up to %d, by the vote of one that lost its data", id, e.members[id].node.LastIndex())
		}
		e.start(3)
		e.propose("more", 1, 2, 3)
		e.applied(append(all, "more"), 1, 2, 3)
	})
}

// A member that joins votes for the other one of two if what it has heard and what it has copied say that there are
// two. Each of them may be the older one.
func TestOtherOfTwoByBothConfigurations(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                   string
		latest, committed, own indexed
		answered               []uint32
		want                   bool
		ends                   map[uint32]disk.Extent
	}{
		{"nothing was copied", confAt(5, 1, 2), confAt(5, 1, 2), indexed{}, []uint32{2}, true, nil},
		{"both say two", confAt(5, 1, 2), confAt(5, 1, 2), confAt(5, 1, 2), []uint32{2}, true, nil},
		{"the log is from the time when the candidate was alone", confAt(5, 1, 2), confAt(1, 2), confAt(1, 2), []uint32{2}, true, nil},
		{"the candidate was alone, and there are three", confAt(5, 1, 2, 3), confAt(5, 1, 2, 3), confAt(1, 2), []uint32{2, 3}, false, nil},
		{"another one was alone", confAt(5, 1, 2), confAt(5, 1, 2), confAt(6, 3), []uint32{2}, false, nil},
		{"this one was alone", confAt(5, 1, 2), confAt(5, 1, 2), confAt(6, 1), []uint32{2}, false, nil},
		{"there are three since", confAt(5, 1, 2, 3), confAt(5, 1, 2, 3), confAt(1, 1, 2), []uint32{2, 3}, false, nil},
		{"a third one votes since", confAt(5, 1, 2), confAt(5, 1, 2), confAt(6, 1, 2, 3), []uint32{2}, false, nil},
		{"a nonvoter came in since, and may vote by now", confAt(5, 1, 2), confAt(5, 1, 2), confAt(6, 1, 2, 0, 3), []uint32{2}, false, nil},
		{"the candidate has not answered", confAt(5, 1, 2), confAt(5, 1, 2), confAt(5, 1, 2), nil, false, nil},
		{"a third one has voted before", confAt(5, 1, 2), confAt(5, 1, 2), confAt(1, 1, 2, 3), []uint32{2}, true, nil},
		{"a third one may vote still", confAt(5, 1, 2), confAt(1, 1, 2, 3), confAt(1, 1, 2, 3), []uint32{2}, false, nil},
		{"a third one may vote still, and nothing was copied", confAt(5, 1, 2), confAt(1, 1, 2, 3), indexed{}, []uint32{2}, false, nil},
		{"it is not known who has voted before", confAt(5, 1, 2), indexed{}, indexed{}, []uint32{2}, false, nil},
		{"the log of a third one is no longer", confAt(5, 1, 2), confAt(1, 1, 2, 3), indexed{}, []uint32{2, 3}, true, ends(2, 9, 3, 9)},
		{"the log of a third one is longer", confAt(5, 1, 2), confAt(1, 1, 2, 3), indexed{}, []uint32{2, 3}, false, ends(2, 9, 3, 10)},
		{"the log of a third one is not known", confAt(5, 1, 2), confAt(1, 1, 2, 3), indexed{}, []uint32{2, 3}, false, ends(2, 9, 4, 8)},
	} {
		h := heard{latest: tt.latest, committed: tt.committed, answered: tt.answered, ends: tt.ends}
		if got := h.otherOfTwo(1, 2, tt.own); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// ends returns where the logs of two members end.
func ends(a uint32, endA uint64, b uint32, endB uint64) map[uint32]disk.Extent {
	return map[uint32]disk.Extent{a: {Index: endA, Term: 2}, b: {Index: endB, Term: 2}}
}

// confAt returns a configuration at an index of the log; see peersOf.
func confAt(index uint64, ids ...uint32) indexed { return indexed{index, peersOf(ids...)} }

// Of two members, one lost its disk, and both are killed while it copies the log. Its next process asks the other one
// again, and votes for it.
func TestWipedOneOfTwoIsKilledWhileItJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.begin()
		all := e.fill(400, 1, 2)
		e.kill(1)
		e.kill(2)
		mem := raft.NewInmemStore()
		e.members[1].stores = disk.Stores{Log: &slowLog{mem, 30 * time.Millisecond}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
		e.start(1, 2)
		e.wait("half of the log", func() bool { return e.members[1].node.LastIndex() > 100 })
		e.kill(1)
		e.kill(2)
		e.start(1, 2)
		e.wait("raft", func() bool { return e.ready(1) })
		if n := e.members[1].node; !n.Joining() || !n.HasData() {
			t.Error("killed half caught up: want it joining, with data")
		}
		if lead := e.leader(1, 2); lead != 2 {
			t.Errorf("member %d leads, want the one with data", lead)
		}
		e.propose("more", 1, 2)
		e.applied(append(all, "more"), 1, 2)
		e.joined(1)
	})
}

// An ensemble has grown from one member to two. The new one loses its disk, and the other one is killed while that is
// copying the part of the log in which it was alone. The new one votes for it.
func TestWipedOneOfTwoCopiesTheTimeOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 1, 2)
		e.beginListed(1)
		if err := e.members[1].node.SetEnsemble([32]byte{1}); err != nil {
			t.Fatal(err)
		}
		all := e.fill(400, 1)
		e.start(2)
		e.propose(listPrefix+shown(e.peers[:2]), 1)
		e.follows(1, "1 2")
		e.joined(2)
		e.kill(2)
		e.wipe(2)
		e.slow(2)
		e.start(2)
		e.wait("a part of the log", func() bool { return e.members[2].node.LastIndex() > 10 })
		e.kill(1)
		if n := e.members[2].node; shown(n.Latest()) != "1" || !n.Joining() {
			t.Fatalf("member 2 has copied the configuration %q: this shows nothing", shown(n.Latest()))
		}
		e.start(1)
		if lead := e.leader(1, 2); lead != 1 {
			t.Errorf("member %d leads, want the one with data", lead)
		}
		e.propose("more", 1)
		e.joined(2)
		if got := e.members[2].machine.commands(); !slices.Equal(got[:min(len(got), len(all))], all) {
			t.Errorf("member 2 has %d commands, want those of before", len(got))
		}
	})
}

// Of two voters, one lost its disk. It votes for the other one as soon as the observer answers: that might have
// become a voter meanwhile.
func TestWipedVoterHearsObserverLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := growing(t, true)
		for id := range e.members {
			e.kill(id)
		}
		e.wipe(1)
		e.start(1, 2)
		time.Sleep(10 * time.Second)
		e.alive(1, 2)
		if id := e.leaderNow(); id != 0 {
			t.Fatalf("member %d leads, and the observer has said nothing", id)
		}
		e.start(3)
		if lead := e.leader(1, 2, 3); lead != 2 {
			t.Errorf("member %d leads, want the voter with data", lead)
		}
		e.propose("more", 1, 2, 3)
		e.joined(1)
	})
}

// The voters that must answer meet each majority of their own configuration, and of each that has a voter more or one
// fewer, in which the joining member may have voted. Of two voters, the other one is enough.
func TestJoinQuorumMeetsEveryMajority(t *testing.T) {
	t.Parallel()
	const self = 1
	need := func(latest, committed indexed) int {
		h := heard{latest: latest, committed: committed}
		return h.joinQuorum(self)
	}
	for count := uint32(3); count <= 7; count++ {
		voters := peersOf(1, 2, 3, 4, 5, 6, 7)[:count]
		need := need(indexed{5, voters}, indexed{5, voters})
		for _, next := range neighbours(voters, self) {
			most := 0 // of the others in a majority with this member, how many can be none of those that answer
			for _, p := range next {
				if _, in := find(voters, p.ID); !in {
					most++
				}
			}
			most += int(count) - 1 - need
			if others := len(next) / 2; others <= most {
				t.Errorf("of %d voters %d must answer, and none of them need be in a majority of %v", count, need, next)
			}
		}
	}
	for _, tt := range []struct {
		latest, committed indexed
		need              int
	}{
		{confAt(5, 1, 2), confAt(5, 1, 2), 1},
		{confAt(5, 1, 2), confAt(1, 2), 1},
		{confAt(5, 1, 2), confAt(1, 1, 2, 3), 2}, // 2 and 3
		{confAt(5, 1, 2), indexed{}, 2},
		{confAt(5, 2), confAt(5, 2), 1},
		{confAt(5, 2, 3), confAt(5, 2, 3), 2},
		{confAt(5, 2, 3, 4), confAt(5, 2, 3, 4), 2}, // this member may have been the fourth
		{confAt(5, 2, 3, 4, 5), confAt(5, 2, 3, 4, 5), 3},
	} {
		if need := need(tt.latest, tt.committed); need != tt.need {
			t.Errorf("of %v %d must answer, want %d", tt.latest.servers, need, tt.need)
		}
	}
}

// neighbours returns the configurations that are at most one step away and in which self votes.
func neighbours(voters []wire.Peer, self uint32) (all [][]wire.Peer) {
	all = [][]wire.Peer{voters, append(slices.Clone(voters), peersOf(8)...)}
	for i, p := range voters {
		if p.ID != self {
			all = append(all, slices.Delete(slices.Clone(voters), i, i+1))
		}
	}
	return all
}

// Only raft's own configuration is the latest one. The configured servers stand for it where nobody's vote counts.
func TestLatestIsRafts(t *testing.T) {
	t.Parallel()
	n := &Node{cfg: Config{Self: 1, Peers: peersOf(1, 2)}}
	if got := n.Latest(); len(got) != 0 {
		t.Errorf("before raft runs, its latest configuration is %v", got)
	}
	if got := n.Configuration(); !slices.Equal(got, peersOf(1, 2)) {
		t.Errorf("before raft runs, the configuration is %v", got)
	}
}

// A member with data whose raft does not run yet does not know the configuration that its data have. It counts as one
// that is silent. One of an earlier version knows no other configuration than the configured one.
func TestStartingMemberIsSilent(t *testing.T) {
	t.Parallel()
	id := make([]byte, 32)
	configuration := &proto.Configuration{Servers: []*proto.ConfiguredServer{{Member: 1, Address: "b:1", Voter: true}, {Member: 2, Address: "c:1", Voter: true}}}
	for _, tt := range []struct {
		name   string
		answer *proto.HelloReply
		waits  bool
	}{
		{"starting", &proto.HelloReply{HasData: true, Ensemble: id}, true},
		{"running", &proto.HelloReply{HasData: true, Ensemble: id, Configuration: configuration, Committed: configuration}, false},
		{"running, and the configuration may not be committed", &proto.HelloReply{HasData: true, Ensemble: id, Configuration: configuration}, true},
		{"of an earlier version", &proto.HelloReply{HasData: true}, false},
	} {
		n := &Node{cfg: Config{Self: 1, Peers: peersOf(1, 2), NewEnsemble: true}}
		n.cfg.Book = wire.NewBook(1, n.cfg.Peers)
		v := n.evaluate(map[uint32]*proto.HelloReply{2: tt.answer})
		if v.waiting == "" && v.start != startJoining || (v.waiting != "") != tt.waits {
			t.Errorf("%s: %v, waiting for %q", tt.name, v.start, v.waiting)
		}
	}
}
