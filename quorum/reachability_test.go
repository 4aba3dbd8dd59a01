package quorum

import (
	"context"
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

// A member counts as present only at its address in the list. It is present if it replies to raft there, if it reports
// that address as its own, or if it was found there. A member that reports another address, or reported this one too
// long ago, is not present.
func TestPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, away := e.members[lead].node, others(lead)[1]
		e.stop(away)
		time.Sleep(2 * n.electionTimeout)
		at := func(addr string, id uint32) wire.Peer { return wire.Peer{ID: id, Addr: addr} }
		met := func(p wire.Peer) { n.reachability.RecordContact(PeerContact{Peer: p}) }
		own, follower := e.peers[lead-1], e.peers[others(lead)[0]-1]
		met(at("here:1", 4))
		met(at("elsewhere:1", follower.ID))
		met(at("elsewhere:1", away))
		met(at(strings.Repeat("a", maxAddressLength+1), 5))
		for _, tt := range []struct {
			name string
			peer wire.Peer
			want bool
		}{
			{"this member", own, true},
			{"this member, elsewhere", at("elsewhere:1", lead), false},
			{"a follower", follower, true},
			{"a follower at an address that it says it has", at("elsewhere:1", follower.ID), true},
			{"a follower at another address", at("nowhere:1", follower.ID), false},
			{"one that is down", e.peers[away-1], false},
			{"one that does not answer raft, and says another address", at("elsewhere:1", away), true},
			{"a stranger at the address that it says it has", at("here:1", 4), true},
			{"a stranger at another address", at("there:1", 4), false},
			{"a stranger with an endless address", at(strings.Repeat("a", maxAddressLength+1), 5), false},
			{"one of which nobody has heard", at("here:1", 6), false},
			{"a stranger at this member's address", at(own.Addr, 7), false},
		} {
			if got := len(n.reachability.PresentMembers([]wire.Peer{tt.peer})) == 1; got != tt.want {
				t.Errorf("%s: present %t, want %t", tt.name, got, tt.want)
			}
		}
		time.Sleep(contactLifetime + time.Millisecond)
		if got := n.reachability.PresentMembers([]wire.Peer{own, at("here:1", 4)}); !slices.Equal(got, []uint32{lead}) {
			t.Errorf("present a while later: %v, want %d alone", got, lead)
		}
	})
}

// A member that says hello with more and more disks pushes out its own, those that it named first, and no other member's.
func TestMeetingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p recentPeers
		meet := func(id uint32, d disk.ID) {
			p.record(PeerContact{Peer: wire.Peer{ID: id, DiskID: d}}, time.Now())
			time.Sleep(time.Millisecond)
		}
		meet(3, 1)
		for d := range disk.ID(3 * maxContacts) {
			meet(2, 1+d)
			meet(2, 1) // this one is met again and again
		}
		all := p.contactsOf(2)
		if len(all) != maxContacts || len(p.contactsOf(3)) != 1 {
			t.Errorf("%d processes of member 2 are known, and %d of member 3; want %d and 1", len(all), len(p.contactsOf(3)), maxContacts)
		}
		for _, m := range all {
			if m.DiskID != 1 && m.DiskID <= 2*maxContacts+1 {
				t.Errorf("the disk %d is known still", m.DiskID)
			}
		}
	})
}

// The leader reports a second process with a member's number while both run. A restart with an empty directory is none, and so is a
// process that has ended.
func TestRival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, id := e.members[lead].node, others(lead)[0]
		meets := func(n *Node) {
			for range 20 {
				n.reachability.RecordContact(PeerContact{Peer: wire.Peer{ID: id, DiskID: 99, Addr: "x:1"}})
				time.Sleep(rivalGracePeriod / 10)
			}
		}
		meets(n)
		if got, first := n.reachability.DescribeRivals(id), e.members[id].node.status.selfPeer(); !strings.Contains(got, first.DiskID.String()) || !strings.Contains(got, disk.ID(99).String()) || !strings.Contains(got, "x:1") {
			t.Errorf("two processes run: %q", got)
		}
		follower := e.members[others(lead)[1]].node
		if meets(follower); follower.reachability.DescribeRivals(id) != "" {
			t.Errorf("a follower reports %q", follower.reachability.DescribeRivals(id))
		}
		if got := n.reachability.DescribeRivals(id); got != "" {
			t.Errorf("the second one has ended: %q", got)
		}
		e.stop(id)
		if meets(n); n.reachability.DescribeRivals(id) != "" {
			t.Errorf("the first one has ended: %q", n.reachability.DescribeRivals(id))
		}
		time.Sleep(2 * contactLifetime)
		e.start(id)
		e.wait("the first one to answer the leader again", func() bool { return n.reachability.isReached(e.members[id].node.status.selfPeer()) })
		e.kill(id)
		e.wipe(id)
		e.start(id)
		for range 100 {
			if got := n.reachability.DescribeRivals(id); got != "" {
				t.Fatalf("after a restart with an empty directory: %q", got)
			}
			time.Sleep(rivalGracePeriod / 20)
		}
	})
}

// Meet waits for a majority of the voters, for a bounded time. Replies from other members and from other ensembles do
// not count.
func TestMeet(t *testing.T) {
	other := wire.EnsembleID{9}
	for _, tt := range []struct {
		name  string
		after time.Duration // until it answers
		reply *proto.HelloReply
		list  []uint32 // besides the leader
		took  time.Duration
		found bool
	}{
		{"at once", 0, &proto.HelloReply{Member: 4}, []uint32{4}, 0, true},
		{"a second later", time.Second, &proto.HelloReply{Member: 4}, []uint32{4}, time.Second, true},
		{"never", time.Hour, &proto.HelloReply{Member: 4}, []uint32{4}, maxPresenceWait, false},
		{"somebody else", 0, &proto.HelloReply{Member: 5}, []uint32{4}, maxPresenceWait, false},
		{"of another ensemble", 0, &proto.HelloReply{Member: 4, HasData: true, Ensemble: other[:]}, []uint32{4}, maxPresenceWait, false},
		{"without it there is a majority", time.Hour, nil, []uint32{2, 4}, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := newEnsemble(t, 3)
			e.begin()
			lead := e.leader(1, 2, 3)
			n := e.members[lead].node
			list := []wire.Peer{e.peers[lead-1]}
			for _, id := range tt.list {
				if id == 4 {
					list = append(list, wire.Peer{ID: 4, Addr: "here:1"})
				} else {
					list = append(list, e.peers[others(lead)[0]-1])
				}
			}
			begun := time.Now()
			n.reachability.ProbeUntilMajority(t.Context(), list, func(_ context.Context, id uint32) (*proto.HelloReply, error) {
				if id != 4 || time.Since(begun) < tt.after {
					return nil, errors.New("connection refused")
				}
				return tt.reply, nil
			})
			if took := time.Since(begun); took != tt.took {
				t.Errorf("%s: took %v, want %v", tt.name, took, tt.took)
			}
			if got := slices.Contains(n.reachability.PresentMembers(list), 4); got != tt.found {
				t.Errorf("%s: present %t, want %t", tt.name, got, tt.found)
			}
		})
	}
}

// A leader of two does not give the other voter an address at which no member replies: it could not commit that alone,
// and the other voter would no longer hear from it. It does so once the other voter replies there.
func TestOneOfTwoMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		var want atomic.Pointer[[]wire.Peer]
		var there atomic.Bool
		for _, m := range e.members {
			m.adjust = func(cfg *Config) {
				ask := cfg.SendHello
				cfg.WantedServers = func() ([]wire.Peer, bool) {
					if w := want.Load(); w != nil {
						return *w, true
					}
					return e.peers, true
				}
				cfg.SendHello = func(ctx context.Context, p wire.Peer) (*proto.HelloReply, error) {
					if want.Load() != nil && !there.Load() {
						return nil, errors.New("connection refused")
					}
					return ask(ctx, p)
				}
			}
		}
		e.begin()
		lead := e.leader(1, 2)
		moved := 3 - lead
		list := slices.Clone(e.peers)
		list[moved-1].Addr = "elsewhere:1"
		want.Store(&list)
		time.Sleep(10 * time.Second)
		if got := e.leader(1, 2); got != lead || !slices.Equal(lines(e.members[lead].node), e.peers) {
			t.Errorf("member %d led, and now %d does; the configuration is %v", lead, got, e.members[lead].node.status.ConfiguredMembers())
		}
		there.Store(true)
		e.wait("the configuration to follow", func() bool { return slices.Equal(lines(e.members[lead].node), list) })
	})
}

// lines returns the configuration of a member as a list.
func lines(n *Node) (list []wire.Peer) {
	for _, p := range n.status.ConfiguredMembers() {
		list = append(list, p.WithoutDisk())
	}
	return list
}
