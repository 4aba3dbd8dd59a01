package quorum

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/wire"
)

// A member knows after a restart, and without a leader, that its latest configuration is committed. Without what it has
// stored it does not know that.
func TestCommittedConfigurationIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 3)
		e.beginListed(3)
		first := e.members[2].node.committed()
		if len(first.servers) != 3 || first.index != 1 {
			t.Errorf("the first configuration: %+v", first)
		}
		e.propose(listPrefix+shown(e.peers[:2]), 1, 2)
		e.wait("the list to be followed", func() bool { return len(e.members[2].node.committed().servers) == 2 })
		synctest.Wait() // it is stored
		want := e.members[2].node.committed()
		e.kill(1)
		e.kill(2)
		for _, stored := range []bool{true, false} {
			if !stored {
				e.kill(2)
				if err := e.members[2].stores.Stable.Set(keyCommitted, nil); err != nil {
					t.Fatal(err)
				}
			}
			e.start(2)
			e.wait("raft", func() bool { return e.ready(2) })
			n := e.members[2].node
			if got := n.latest(); !got.equal(want) {
				t.Errorf("the latest configuration is %+v, want %+v", got, want)
			}
			if got := n.committed(); stored && !got.equal(want) || !stored && len(got.servers) > 0 {
				t.Errorf("stored: %t, committed is %+v", stored, got)
			}
		}
	})
}

// The log's last configuration is one that was stored, or that raft reads when it starts. One at the end that is deleted
// does not count any more.
func TestLastChange(t *testing.T) {
	store := raft.NewInmemStore()
	c := &logCache{LogStore: store}
	is := func(when string, want uint64) {
		t.Helper()
		if got := c.lastChange(); got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	add := func(kind raft.LogType, index uint64) {
		t.Helper()
		if err := c.StoreLog(&raft.Log{Index: index, Term: 1, Type: kind}); err != nil {
			t.Fatal(err)
		}
	}
	is("empty", 0)
	add(raft.LogConfiguration, 1)
	add(raft.LogCommand, 2)
	add(raft.LogConfiguration, 3)
	add(raft.LogCommand, 4)
	is("stored", 3)
	if err := c.DeleteRange(1, 3); err != nil {
		t.Fatal(err)
	}
	is("in a snapshot", 3)
	add(raft.LogConfiguration, 5)
	add(raft.LogCommand, 6)
	c = &logCache{LogStore: store}
	is("opened again", 0)
	for i := uint64(4); i <= 6; i++ {
		if err := c.GetLog(i, new(raft.Log)); err != nil {
			t.Fatal(err)
		}
	}
	is("read", 5)
	if err := c.DeleteRange(6, 6); err != nil {
		t.Fatal(err)
	}
	is("after it the end was deleted", 5)
	if err := c.DeleteRange(5, 5); err != nil {
		t.Fatal(err)
	}
	is("deleted", 0)
}

// A voter that has lost its disk joins although it has left the list. One that does not vote waits for a place in the list.
func TestVoterJoinsWithoutAPlace(t *testing.T) {
	t.Parallel()
	for _, votes := range []bool{true, false} {
		servers := peersOf(1, 2, 3)
		if !votes {
			servers = peersOf(2, 3)
		}
		c := indexed{5, servers}.message()
		answers := map[uint32]*proto.HelloReply{}
		for _, id := range []uint32{2, 3} {
			answers[id] = &proto.HelloReply{
				Member: id, HasData: true, Ensemble: make([]byte, 32), Configuration: c, Committed: c,
				Roster: &proto.Roster{Version: 7, Servers: []string{"server.2=b:1:2:participant;3", "server.3=c:1:2:participant;3"}},
			}
		}
		n := &Node{cfg: Config{Self: 1, Peers: slices.Clone(peersOf(1, 2, 3)), Book: wire.NewBook(1, peersOf(1, 2, 3))}}
		if v := n.evaluate(answers); (v.start == startJoining) != votes || (v.waiting == "") != votes {
			t.Errorf("votes: %t, %v, waiting for %q", votes, v.start, v.waiting)
		}
	}
}
