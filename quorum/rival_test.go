package quorum

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A second process has the number of a member, and another disk. It says hello to all others. It learns of its rival
// whichever member it imitates, the leader included.
func TestEveryRivalIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		leader := e.leader(1, 2, 3)
		for id := range e.members {
			told := false
			for range 20 {
				time.Sleep(helloInterval)
				for _, other := range others(id) {
					n := e.members[other].node
					n.reachability.RecordContact(PeerContact{Peer: wire.Peer{ID: id, DiskID: 99, Addr: "elsewhere:1"}})
					told = told || n.reachability.DescribeRivals(id) != ""
				}
			}
			if !told {
				t.Errorf("nobody tells a second member %d that there is another one; member %d leads", id, leader)
			}
		}
	})
}

// Two processes with the number of the founder have empty disks. If all others replied to both that they have no data,
// two ensembles would begin. So a member without data reports the other process to the later one, for as long as both
// send Hellos.
func TestTwoBeginners(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(2)
		n := e.members[2].node
		asks := func(disk disk.ID) (rival string) {
			n.reachability.RecordContact(PeerContact{Peer: wire.Peer{ID: 1, DiskID: disk, Addr: "m1:3888"}})
			return n.reachability.DescribeRivals(1)
		}
		if rival := asks(7); rival != "" {
			t.Errorf("the first one is told of %q", rival)
		}
		if rival := asks(8); rival == "" {
			t.Error("the second one is not told of the first one")
		}
		time.Sleep(contactLifetime + time.Second)
		if rival := asks(7); rival != "" {
			t.Errorf("the first one is told of %q, which has not asked for a while", rival)
		}
		reply := &proto.HelloReply{ConfigHash: serverListHash(n.cfg.AddressBook), Rival: "another"}
		book := wire.NewAddressBook(1, e.peers)
		first := &bootstrap{configuredPeers: e.peers, addressBook: book, status: &Status{addressBook: book, configuredPeers: e.peers}, reachability: new(Reachability)}
		if got := first.nextStep(helloRound{replies: map[uint32]*proto.HelloReply{2: reply, 3: {ConfigHash: serverListHash(n.cfg.AddressBook)}}}); !strings.Contains(got.waitingFor, "another") {
			t.Errorf("a member that is told of another one begins: %+v", got)
		}
	})
}

// Two processes with the number of the founder both hear that no member has data: the first one is paused after its last
// round of Hellos for so long that it is forgotten. Afterwards each of the other members hears only one of the two. Both
// found an ensemble and give a vote to one of the other members, and neither may serve.
func TestTwoFoundersDoNotBothServe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		first, second := e.members[1], &testMember{id: 1, stores: memStores()}
		unheard := errors.New("unheard")
		others := map[uint32]*testMember{2: e.members[2], 3: e.members[3]}
		noList := func(c *Config) { c.WantedServers = func() ([]wire.Peer, bool) { return nil, false } }
		founder := func(m *testMember, hears uint32, pause time.Duration) {
			m.adjust = func(c *Config) {
				noList(c)
				c.SendHello = func(_ context.Context, p wire.Peer) (*proto.HelloReply, error) {
					m := m.node
					other := others[p.ID]
					if other == nil || m.HasData() && p.ID != hears {
						return nil, unheard
					}
					reply, err := hello(m, other.node)
					if err == nil && !m.HasData() {
						time.Sleep(pause) // of the process, between the reply and all that follows it
					}
					return reply, err
				}
			}
		}
		founder(first, 2, contactLifetime+time.Second)
		founder(second, 3, 0)
		for _, id := range []uint32{2, 3} {
			e.members[id].adjust = noList
			e.net.partition(id, 1)
			e.net.set(e.net.cut, 1, id, false) // a founder contacts the others
		}
		e.net.partition(2, 3)
		e.start(2, 3)
		e.start(1)
		time.Sleep(contactLifetime + time.Second/2) // of the pause
		e.members[1] = second
		e.start(1)
		t.Cleanup(func() { first.cancel(); <-first.done })
		for _, m := range []struct {
			founder *testMember
			voters  []uint32
		}{{first, []uint32{1, 2}}, {second, []uint32{1, 3}}} {
			e.wait("a second voter", func() bool { return slices.Equal(m.founder.node.status.VoterIDs(), m.voters) })
		}
		time.Sleep(time.Minute)
		for _, m := range []*testMember{first, second} {
			if m.node.status.HasFoundingMajority(e.peers, true) {
				t.Errorf("the founder of one of two ensembles may serve, with the voters %v", m.node.status.VoterIDs())
			}
		}
	})
}

// The limit of all that a copied disk may do (docs/storage.md): with a copy of one of three disks, each side of a partition has a
// majority, no member hears both processes of the disk, and both sides commit.
func TestCopiedDiskInAPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		for _, m := range e.members {
			m.dir = t.TempDir()
		}
		e.begin()
		e.stop(3)
		original, copied := e.members[3], &testMember{id: 3, dir: t.TempDir()}
		if err := os.CopyFS(copied.dir, os.DirFS(original.dir)); err != nil {
			t.Fatal(err)
		}
		e.start(3)
		e.propose("before", 1, 2, 3)
		if lead := e.leader(1, 2, 3); lead != 1 {
			e.handOverTo(lead, 1)
		}
		if e.leader(1, 2, 3) != 1 {
			t.Fatal("member 1 does not lead")
		}
		e.propose("replicated", 1, 2, 3)
		e.awaitApplied([]string{"a", "before", "replicated"}, 1, 2, 3)
		e.net.partition(1, 2)
		e.net.reset(2, 3)
		e.net.reset(3, 2)
		e.net.set(e.net.cut, 1, 3, true) // for new connections
		e.net.set(e.net.cut, 3, 1, true)
		e.members[3] = copied
		e.start(3)
		t.Cleanup(func() { original.cancel(); <-original.done })
		if err := e.members[1].node.Propose([]byte("one side"), nil).Error(); err != nil {
			t.Errorf("the side of the original: %v", err)
		}
		e.propose("other side", 2, 3)
		if err := e.members[1].node.Propose([]byte("one side again"), nil).Error(); err != nil {
			t.Errorf("the side of the original, while the other one has a leader: %v", err)
		}
	})
}
