package quorum

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// A second process has the number of a member, and another disk. It says hello to all others. Whichever member it is, also the one
// that leads, somebody tells it.
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

// Two processes with the number of the member that begins have empty disks. If all others were to tell both that they have no
// data, two ensembles would begin. So a member without data tells the later one of the other, for as long as both ask.
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
