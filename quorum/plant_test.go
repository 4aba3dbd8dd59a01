package quorum

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

const plantedIndex, plantedTerm = 100, 7

// plant fills a member's empty folder with a state of one command.
func (e *ensemble) plant(id uint32, command string, number uint64) {
	e.t.Helper()
	m := e.members[id]
	if m.dir == "" {
		m.dir = filepath.Join(e.t.TempDir(), "data")
	}
	p := e.planting(id, command)
	p.State = stateOf(&machine{Index: plantedIndex, Commands: []string{command}}, number)
	if err := Plant(p); err != nil {
		e.t.Fatal(err)
	}
}

func (e *ensemble) planting(id uint32, command string) Planting {
	return Planting{
		Dir: e.members[id].dir, LogKind: e.kind, Self: id, Peers: e.peers, Machine: &machine{}, SegmentBytes: testSegment,
		Index: plantedIndex, Term: plantedTerm, State: stateOf(&machine{Index: plantedIndex, Commands: []string{command}}, 1),
	}
}

func stateOf(m *machine, number uint64) func(io.Writer) (uint64, error) {
	return func(w io.Writer) (uint64, error) { return number, json.NewEncoder(w).Encode(m) }
}

// unled fails the test if one of the members leads, or follows a leader, within a minute.
func (e *ensemble) unled(ids ...uint32) {
	e.t.Helper()
	for range 60 {
		time.Sleep(time.Second)
		for _, id := range ids {
			if n := e.members[id].node; n.Leading() || n.LeaderID() != 0 {
				e.t.Fatalf("member %d has a leader", id)
			}
		}
	}
}

// Members that were planted start at once, elect a leader in a later term, and go on from the state. One
// that loses its folder joins.
func TestPlant(t *testing.T) { kinds(t, plantAll) }

func plantAll(t *testing.T, kind disk.LogKind) {
	for _, members := range []int{1, 2, 3} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, members)
			e.kind = kind
			for id := range e.members {
				e.plant(id, "old", 1)
			}
			var ids []uint32
			for _, p := range e.peers {
				ids = append(ids, p.ID)
			}
			e.start(ids...)
			e.propose("new", ids...)
			e.applied([]string{"old", "new"}, ids...)
			leader := e.members[e.leader(ids...)].node
			if term := leader.Term(); term <= plantedTerm || leader.LastIndex() <= plantedIndex {
				t.Errorf("term %d, index %d", term, leader.LastIndex())
			}
			e.stopAll()
			e.start(ids...)
			e.propose("again", ids...)
			e.applied([]string{"old", "new", "again"}, ids...)
			if members < 3 {
				return
			}
			for _, id := range ids {
				e.joined(id) // the last one to start may have found that the others had begun
			}
			e.stop(3)
			e.members[3].dir = filepath.Join(t.TempDir(), "empty")
			e.start(3)
			e.propose("more", 1, 2)
			e.applied([]string{"old", "new", "again", "more"}, 3)
			e.joined(3)
		})
	}
}

// One planted member among empty ones waits with them. When another one is planted, the third joins.
func TestPlantedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.plant(1, "old", 1)
		e.start(1, 2, 3)
		e.unled(1, 2, 3)
		e.stop(2)
		e.plant(2, "old", 1)
		e.start(2)
		e.propose("new", 1, 2)
		e.applied([]string{"old", "new"}, 1, 2, 3)
		e.joined(3)
	})
}

// Members with different states form no ensemble, in whatever order they start. A majority with one state
// goes on without the others, which join after their folders are emptied.
func TestPlantedApart(t *testing.T) {
	for _, order := range [][]uint32{{1, 2, 3}, {3, 2, 1}, {2, 3, 1}} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 3)
			for id := range e.members {
				e.plant(id, "of "+string(rune('0'+id)), uint64(id))
			}
			e.start(order...)
			e.unled(1, 2, 3)
			e.stop(2)
			e.members[2].dir = ""
			e.plant(2, "of 1", 1)
			e.start(2)
			e.propose("new", 1, 2)
			e.applied([]string{"of 1", "new"}, 1, 2)
			e.unled(3)
			if got := e.members[3].node.plantedNow(t); got != plantedIndex {
				t.Errorf("member 3 has gone on to index %d", got)
			}
			e.stop(3)
			e.members[3].dir = filepath.Join(t.TempDir(), "empty")
			e.start(3)
			e.propose("on", 1, 2)
			e.applied([]string{"of 1", "new", "on"}, 3)
			e.joined(3)
		})
	}
}

// plantedNow returns the index of the newest snapshot.
func (n *Node) plantedNow(t *testing.T) uint64 {
	index, err := n.disk.Newest()
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// A planted member never follows an ensemble that began without a planted state.
func TestPlantedAmongOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		e.stop(3)
		e.plant(3, "old", 1)
		e.start(3)
		e.unled(3)
		e.propose("on", 1, 2)
		e.applied([]string{"a", "on"}, 1, 2)
	})
}

// A planted member that starts after the others have gone on joins, whether it is late or was planted a second
// time: it must not vote before it knows what it may have forgotten.
func TestPlantedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for id := range e.members {
			e.plant(id, "old", 1)
		}
		e.start(1, 2)
		e.unled(1, 2) // all members must be there when the ensemble first starts
		e.stop(1)
		e.stop(2)
		e.withoutAll(1, 2)
		e.start(1, 2)
		e.propose("new", 1, 2)
		e.applied([]string{"old", "new"}, 1, 2)
		e.stop(2)
		e.start(3)
		e.unled(1, 3) // member 3 needs both others, as one that has lost its disk does
		e.start(2)
		e.propose("on", 1, 2)
		e.applied([]string{"old", "new", "on"}, 1, 2, 3)
		e.joined(3)
		e.stop(1)
		e.propose("last", 2, 3) // it votes
		e.applied([]string{"old", "new", "on", "last"}, 2, 3)
	})
}

// withoutAll lets members begin a new ensemble without all members.
func (e *ensemble) withoutAll(ids ...uint32) {
	for _, id := range ids {
		e.members[id].adjust = func(cfg *Config) { cfg.NewEnsemble = true }
	}
}

// A member that is planted a second time has forgotten what it had. With one that has never started, it could
// elect a leader that lacks acknowledged writes, so both wait for the third, and join.
func TestPlantedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for id := range e.members {
			e.plant(id, "old", 1)
		}
		e.withoutAll(1, 2)
		e.start(1, 2)
		e.propose("new", 1, 2)
		e.applied([]string{"old", "new"}, 1, 2)
		e.stop(1)
		e.stop(2)
		e.members[2].dir, e.members[2].adjust = "", nil
		e.plant(2, "old", 1)
		e.start(2, 3)
		e.unled(2, 3)
		e.start(1)
		e.unled(1, 2, 3) // two of three have nothing: member 1 alone cannot say what was acknowledged
		if got := e.members[1].machine.commands(); !slices.Equal(got, []string{"old"}) && !slices.Equal(got, []string{"old", "new"}) {
			t.Errorf("member 1 has %q", got)
		}
		for _, id := range []uint32{2, 3} {
			if got := e.members[id].node.plantedNow(t); got != plantedIndex || e.members[id].node.raft.Load() != nil {
				t.Errorf("member %d has gone on to index %d", id, got)
			}
		}
	})
}

// Only voters make the majority that a planted member waits for. Observers that are silent are not waited for.
func TestPlantedVoters(t *testing.T) {
	answer := func(index uint64) *proto.HelloReply { return &proto.HelloReply{HasData: true, LastIndex: index} }
	same, later, grown := answer(plantedIndex), answer(plantedIndex+1), answer(plantedIndex+9)
	for id := uint32(1); id <= 3; id++ {
		grown.Configuration = &proto.Configuration{Servers: append(grown.GetConfiguration().GetServers(), &proto.ConfiguredServer{Member: id, Voter: true})}
	}
	for _, tt := range []struct {
		name    string
		self    uint32
		peers   []wire.Peer
		answers map[uint32]*proto.HelloReply
		start   start
		waiting string // "": for nobody
	}{
		{"the observers are silent", 1, peersOf(1, 2, 3, 0, 4, 5), map[uint32]*proto.HelloReply{2: same, 3: same}, startRunning, ""},
		{"a voter is silent", 1, peersOf(1, 2, 3, 0, 4, 5), map[uint32]*proto.HelloReply{2: same, 4: same, 5: same}, startRunning, "all voters"},
		{"a voter has not read its log yet", 1, peersOf(1, 2, 3), map[uint32]*proto.HelloReply{2: same, 3: answer(0)}, startRunning, "all voters"},
		{"the observers alone have the state", 1, peersOf(1, 2, 3, 0, 4, 5), map[uint32]*proto.HelloReply{2: {}, 3: {}, 4: same, 5: same}, startRunning, "1 of 3 voters have it"},
		{"one of them is an observer", 4, peersOf(1, 2, 3, 0, 4, 5), map[uint32]*proto.HelloReply{1: same, 2: {}, 3: {}, 5: same}, startRunning, "1 of 3 voters have it"},
		{"an observer of voters with the state", 4, peersOf(1, 2, 3, 0, 4, 5), map[uint32]*proto.HelloReply{1: same, 2: same, 3: {}}, startRunning, ""},
		{"an observer has gone on", 1, peersOf(1, 2, 3, 0, 4), map[uint32]*proto.HelloReply{2: same, 3: same, 4: later}, startJoining, "voters of the ensemble, which has begun without this member: 2 members with data, of which 0 are there; silent: member 2"},
		{"the voters have gone on", 1, peersOf(1, 2, 3, 0, 4), map[uint32]*proto.HelloReply{2: later, 3: later}, startJoining, ""},
		{"the voters have gone on, without an observer", 4, peersOf(1, 2, 3, 0, 4), map[uint32]*proto.HelloReply{1: later, 2: later}, startJoining, ""},
		{"one voter has gone on, without an observer", 4, peersOf(1, 2, 3, 0, 4), map[uint32]*proto.HelloReply{1: later}, startJoining, "2 members with data, of which 1 are there"},
		{"the other one of two, to which a third has come", 1, peersOf(1, 2), map[uint32]*proto.HelloReply{2: grown}, startJoining, "silent: member 3"},
	} {
		n := &Node{cfg: Config{Self: tt.self, Peers: tt.peers, Book: wire.NewBook(tt.self, tt.peers)}, planted: planted{plantedIndex, plantedTerm}}
		v := n.evaluatePlanted(tt.answers)
		if v.start != tt.start || !strings.Contains(v.waiting, tt.waiting) || (tt.waiting == "") != (v.waiting == "") {
			t.Errorf("%s: start %d, waits for %q; want %d, %q", tt.name, v.start, v.waiting, tt.start, tt.waiting)
		}
	}
}

// A member that has voted since it was planted needs no majority that has not begun.
func TestPlantedTookPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for id := range e.members {
			e.plant(id, "old", 1)
		}
		d := openStopped(t, e.members[2].dir)
		if err := d.Stable().SetTerm(plantedTerm + 1); err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		e.withoutAll(1)
		e.start(2)
		e.wait("raft", func() bool { return e.members[2].node.raft.Load() != nil })
		e.start(1)
		e.propose("new", 1, 2)
		e.applied([]string{"old", "new"}, 1, 2)
	})
}

// A planted member may be recovered, and does not wait then.
func TestPlantedRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.plant(1, "old", 1)
		time.Sleep(time.Second) // snapshots are named after the time
		e.recover(1)
		e.start(1, 2, 3)
		e.propose("new", 1, 2, 3)
		e.applied([]string{"old", "new"}, 1, 2, 3)
	})
}

// Plant refuses what no ensemble could start from, and leaves the folder empty.
func TestPlantRefuses(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(*Planting)
		want  string
	}{
		{"index", func(p *Planting) { p.Index = 1 }, "index 1"},
		{"term", func(p *Planting) { p.Term = 0 }, "term 0"},
		{"late term", func(p *Planting) { p.Term = MaxPlantedTerm + 1 }, "is not between"},
		{"number", func(p *Planting) { p.State = stateOf(&machine{Index: plantedIndex}, 0) }, "number"},
		{"stranger", func(p *Planting) { p.Self = 9 }, "this member, 9"},
		{"log store", func(p *Planting) { p.LogKind = "paper" }, `"paper"`},
		{"other index", func(p *Planting) { p.State = stateOf(&machine{Index: plantedIndex - 1}, 1) }, "it goes to index 99"},
		{"earlier term", func(p *Planting) { p.State = stateOf(&machine{Index: plantedIndex}, 1); p.Term = 1 }, ""},
		{"no state", func(p *Planting) { p.State = func(io.Writer) (uint64, error) { return 1, nil } }, "the state that was written"},
		{"full disk", func(p *Planting) {
			p.State = func(w io.Writer) (uint64, error) {
				_, err := w.Write(make([]byte, 1<<20))
				return 1, errors.Join(err, errors.New("no space"))
			}
		}, "no space"},
	}
	for _, tt := range tests {
		e := newEnsemble(t, 3)
		e.members[1].dir = t.TempDir()
		p := e.planting(1, "old")
		tt.spoil(&p)
		err := Plant(p)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err := Plant(e.planting(1, "old")); err != nil {
			t.Errorf("%s: the next try: %v", tt.name, err)
		}
	}
}

// A folder in which a member has run is not filled, nor is one that was filled. The folder is as before.
func TestPlantKeepsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.plant(1, "old", 1)
		again := e.planting(1, "other")
		if err := Plant(again); !errors.Is(err, disk.ErrHasData) {
			t.Errorf("%v", err)
		}
		e.start(1)
		e.propose("new", 1)
		e.stop(1)
		if err := Plant(again); !errors.Is(err, disk.ErrHasData) {
			t.Errorf("%v", err)
		}
		e.start(1)
		e.applied([]string{"old", "new"}, 1)
	})
}

// Equal states are the same bytes in the folders of all members, whenever they are planted.
func TestPlantIsTheSame(t *testing.T) {
	e := newEnsemble(t, 2)
	var states [2][]byte
	for i := range states {
		id := uint32(i + 1)
		e.plant(id, "old", 1)
		names, err := filepath.Glob(filepath.Join(e.members[id].dir, "rollcall", "snapshots", "*", "state.bin"))
		if err != nil || len(names) != 1 {
			t.Fatal(names, err)
		}
		if states[i], err = os.ReadFile(names[0]); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(states[0], states[1]) {
		t.Error("the states differ")
	}
}
