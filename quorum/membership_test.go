package quorum

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// peersOf returns members by id: voters, and observers after a 0. Each has an address of its own.
func peersOf(ids ...uint32) (peers []wire.Peer) {
	observers := false
	for _, id := range ids {
		if id == 0 {
			observers = true
			continue
		}
		peers = append(peers, wire.Peer{ID: id, Addr: string(rune('a'+id)) + ":1", Observer: observers})
	}
	return wire.Sorted(peers)
}

// A member that lost its disk votes for the other one of two voters only if no nonvoter can have become a voter
// without that one.
func TestOtherOfTwo(t *testing.T) {
	for _, tt := range []struct {
		name      string
		heard     []wire.Peer
		answered  []uint32
		candidate uint32
		want      bool
	}{
		{"the other one", peersOf(1, 2), []uint32{2}, 2, true},
		{"one that was removed", peersOf(1, 2), []uint32{2}, 3, false},
		{"with a nonvoter that has not answered", peersOf(1, 2, 0, 3), []uint32{2}, 2, false},
		{"with a nonvoter that has answered", peersOf(1, 2, 0, 3), []uint32{2, 3}, 2, true},
		{"one of three", peersOf(1, 2, 3), []uint32{2, 3}, 2, false},
		{"two others", peersOf(2, 3), []uint32{2, 3}, 2, false},
	} {
		n := &Node{cfg: Config{Self: 1}}
		n.heard.Store(&heard{latest: indexed{1, tt.heard}, committed: indexed{1, tt.heard}, answered: tt.answered})
		if got := n.otherOfTwo(tt.candidate); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

// Voters leave without a replacement only after a while, and never so that half of the list's voters or fewer remain.
func TestVotersLeaveWithoutReplacement(t *testing.T) {
	taking := peersOf(1, 2, 4)
	taking[2].Addr = peersOf(3)[0].Addr
	for _, tt := range []struct {
		name       string
		have, want []wire.Peer
		waited     bool
		may        bool
	}{
		{"at once", peersOf(1, 2, 3), peersOf(1, 2, 4), false, false},
		{"later", peersOf(1, 2, 3), peersOf(1, 2, 4), true, true},
		{"the second of three", peersOf(1, 3), peersOf(1, 4, 5), true, false},
		{"one of two", peersOf(1, 3), peersOf(1, 4), true, true},
		{"whose address is needed", peersOf(1, 2, 3), taking, false, true},
	} {
		n := &Node{}
		if tt.waited {
			n.few = time.Now().Add(-replacementWait)
		}
		leaving, _ := find(tt.have, 3)
		if got := n.mayShrink(tt.have, tt.want, leaving); got != tt.may {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.may)
		}
	}
}

// A server comes in if it has joined or has data of this ensemble, and not while another one has its address: raft
// would refuse that.
func TestWhoComesIn(t *testing.T) {
	own, other := wire.EnsembleID{1}, wire.EnsembleID{2}
	ours := &proto.HelloReply{Member: 4, HasData: true, Ensemble: own[:]}
	for _, tt := range []struct {
		name   string
		answer *proto.HelloReply
		addr   string
		own    wire.EnsembleID
		what   string
		waits  bool
	}{
		{"no answer", nil, "x:1", own, "", false},
		{"empty", &proto.HelloReply{Member: 4}, "x:1", own, "", false},
		{"joining", &proto.HelloReply{Member: 4, Joining: true}, "x:1", own, "member 4 comes in", false},
		{"data of this ensemble", ours, "x:1", own, "member 4 comes in", false},
		{"data of another ensemble", &proto.HelloReply{Member: 4, HasData: true, Ensemble: other[:]}, "x:1", own, "", false},
		{"data of nobody knows which", &proto.HelloReply{Member: 4, HasData: true, Ensemble: make([]byte, 32)}, "x:1", own, "", false},
		{"before this member knows its ensemble", ours, "x:1", wire.EnsembleID{}, "", false},
		{"at the address of one that leaves", ours, peersOf(3)[0].Addr, own, "", true},
	} {
		have := peersOf(1, 2, 3)
		n := &Node{cfg: Config{Self: 1, Book: wire.NewBook(1, have)}}
		n.cfg.Book.SetEnsemble(tt.own)
		want := append(peersOf(1, 2), wire.Peer{ID: 4, Addr: tt.addr})
		answers := map[uint32]*proto.HelloReply{}
		if tt.answer != nil {
			answers[4] = tt.answer
		}
		got, goesOn := n.addition(have, want, answers)
		if got.what != tt.what || (got.waits != "") != tt.waits || !goesOn {
			t.Errorf("%s: %q, waits for %q, %t", tt.name, got.what, got.waits, goesOn)
		}
	}
}

// Without a list in the state, what a member is configured with counts after a recovery only.
func TestWantedWithoutAList(t *testing.T) {
	servers := peersOf(1, 2, 3)
	n := &Node{cfg: Config{Self: 1, Peers: peersOf(1, 2, 4), Wanted: func() ([]wire.Peer, bool) { return nil, false }}}
	n.heard.Store(&heard{latest: indexed{1, servers}})
	if got := n.wantedPeers(); !slices.Equal(got, servers) {
		t.Errorf("wants %v, want what there is, %v", got, servers)
	}
	n.recovery.Store(7)
	if got := n.wantedPeers(); !slices.Equal(got, n.cfg.Peers) {
		t.Errorf("after a recovery: wants %v, want %v", got, n.cfg.Peers)
	}
}

// Data of which nobody knows the ensemble yet are used with the list only for which the folder was made. Once it is
// known, the list may be another one.
func TestDataOfAnUnknownEnsemble(t *testing.T) {
	_, cfg := filledFolder(t, disk.DefaultLogKind)
	open := func(peers []wire.Peer, ensemble *wire.EnsembleID) error {
		cfg := cfg
		cfg.Peers = peers
		cfg.Book = wire.NewBook(cfg.Self, peers)
		n, err := Open(cfg)
		if err != nil {
			return err
		}
		if ensemble != nil {
			err = writeEnsemble(n.disk.Stable(), *ensemble)
		}
		return errors.Join(err, n.Close())
	}
	others := append(slices.Clone(cfg.Peers), wire.Peer{ID: 9, Addr: "m9:3888"})
	if err := open(cfg.Peers, &wire.EnsembleID{}); err != nil {
		t.Fatal(err)
	}
	if err := open(others, nil); !errors.Is(err, disk.ErrServersChanged) || !strings.Contains(err.Error(), "m9:3888") {
		t.Errorf("another list: %v, want ErrServersChanged", err)
	}
	if err := open(cfg.Peers, &wire.EnsembleID{1}); err != nil {
		t.Fatal(err)
	}
	if err := open(others, nil); err != nil {
		t.Errorf("another list of a known ensemble: %v", err)
	}
}

// When the configuration gives a follower another address, the leader leaves the former one, although a pipeline is
// open there: the follower hears nothing more until it is at the new address. Config.Configured is called on all
// members that apply the change.
func TestFormerAddressIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		var configured [4]atomic.Int32
		for id, m := range e.members {
			m.adjust = func(cfg *Config) { cfg.Configured = func() { configured[id].Add(1) } }
		}
		e.begin()
		lead := e.leader(1, 2, 3)
		moved, other := others(lead)[0], others(lead)[1]
		time.Sleep(time.Second) // in a pipeline
		before := configured[lead].Load()
		r := e.members[lead].node.raft.Load()
		if err := r.AddVoter(wire.Peer{ID: moved}.ServerID(), "elsewhere:3888", 0, time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := configured[lead].Load() - before; got != 1 || configured[other].Load() != configured[lead].Load() {
			t.Errorf("Configured was called %d times on the leader, %d times in all on it and %d times on member %d", got, configured[lead].Load(), configured[other].Load(), other)
		}
		had := e.members[moved].machine.count()
		e.propose("b", lead, other)
		e.applied([]string{"a", "b"}, lead, other)
		time.Sleep(5 * time.Second)
		if got := e.members[moved].machine.count(); got != had {
			t.Errorf("the leader still sends entries to the former address: %d commands became %d", had, got)
		}
	})
}
