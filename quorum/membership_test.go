package quorum

import (
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
	return wire.SortedByID(peers)
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
		f := &membership{}
		if tt.waited {
			f.leavingVoterWaitsSince = time.Now().Add(-replacementWait)
		}
		leaving, _ := findPeer(tt.have, 3)
		if got := f.mayShrinkVoters(leaderView{configured: tt.have, wanted: tt.want}, leaving); got != tt.may {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.may)
		}
	}
}

// disks returns members with the disks that they have first, by id.
func disks(peers []wire.Peer) (servers []wire.Peer) {
	for _, p := range peers {
		p.DiskID = disk.ID(p.ID)
		servers = append(servers, p)
	}
	return servers
}

// with returns servers and one more of a member: with another disk, and without a vote.
func with(servers []wire.Peer, id uint32, other disk.ID) []wire.Peer {
	p := peersOf(0, id)[0]
	p.DiskID = other
	return wire.SortedByID(append(slices.Clone(servers), p))
}

// at returns servers with one of them at another address.
func at(addr string, id uint32, servers []wire.Peer) []wire.Peer {
	servers = slices.Clone(servers)
	servers[slices.IndexFunc(servers, func(p wire.Peer) bool { return p.ID == id })].Addr = addr
	return servers
}

// names returns the names of those servers whose ids are given, all of their disks.
func names(servers []wire.Peer, ids ...uint32) (names []raft.ServerID) {
	for _, s := range servers {
		if slices.Contains(ids, s.ID) {
			names = append(names, s.ServerID())
		}
	}
	return names
}

// These are the rules of next, one by one. Member 1 leads. Its voters have the disks 1, 2 and 3. If a disk that replies
// is new, its number differs from its member's. The case's name describes the change of a server.
func TestNextChange(t *testing.T) {
	three, four := peersOf(1, 2, 3), peersOf(1, 2, 3, 4)
	observed := disks(peersOf(1, 2, 3, 0, 4))
	all := map[uint32]disk.ID{2: 2, 3: 3}
	four4 := map[uint32]disk.ID{2: 2, 3: 3, 4: 4}
	lost3 := map[uint32]disk.ID{2: 2, 3: 33}
	const catching = "member 4, which is catching up"
	for _, c := range []struct {
		name       string
		have, want []wire.Peer
		replies    map[uint32]disk.ID
		caught     []uint32
		silent     []raft.ServerID // do not answer raft
		what       string
		waits      string
	}{
		{"nothing to do", disks(three), three, all, nil, nil, "", ""},
		{"comes in before another one leaves", disks(three), peersOf(1, 2, 4), four4, nil, nil, "member 4 joins with the disk 0000000000000004", ""},
		{"does not reply", disks(three), four, all, nil, nil, "", ""},
		{"votes once it has the log", observed, peersOf(1, 2, 4), four4, []uint32{2, 3, 4}, nil, "member 4 votes", ""},
		{"lags", observed, peersOf(1, 2, 4), four4, []uint32{2, 3}, nil, "", catching},
		{"lags while two leave for it", observed, peersOf(1, 4), four4, nil, nil, "", catching},
		{"observes", observed, peersOf(1, 2, 3, 0, 4), four4, []uint32{4}, nil, "", ""},
		{"is down and is to vote in place of another", observed, peersOf(1, 2, 4), all, nil, names(observed, 4), "", "a voter in place of member 3"},
		{"moves", disks(three), at("x:1", 3, three), all, nil, nil, "member 3 is at x:1", ""},
		{"moves, and another disk is there", disks(three), at("x:1", 3, three), lost3, nil, nil, "", "the disk 0000000000000003 of member 3, which replies, or did a moment ago: the disk 0000000000000021 wants its place"},
		{"moves, and nobody is there", disks(three), at("x:1", 3, three), map[uint32]disk.ID{2: 2}, nil, nil, "", "member 3 at x:1, which does not reply there with its disk"},
		{"moves while another one catches up", with(disks(four), 3, 33), at("x:1", 2, four), map[uint32]disk.ID{2: 2, 3: 33, 4: 4}, []uint32{4}, names(disks(three), 2, 3), "member 2 is at x:1", ""},
		{"swaps its address", disks(three), at("c:1", 3, at("d:1", 2, three)), all, nil, nil, "member 2 is at d:1", ""},
		{"leaves", disks(three), peersOf(1, 2), all, nil, nil, "member 3 leaves", ""},
		{"stops voting", disks(three), peersOf(1, 2, 0, 3), all, nil, nil, "member 3 votes no more", ""},
		{"observed and leaves", observed, three, four4, nil, nil, "member 4 leaves", ""},
		{"leaves, and nobody votes in its place", disks(three), peersOf(1, 2, 4), all, nil, nil, "", "a voter in place of member 3"},
		{"leaves, and its address is needed", disks(three), at(three[2].Addr, 4, peersOf(1, 2, 4)), all, nil, nil, "member 3 leaves", ""},
		{"leaves while another voter does not reply with its disk", disks(three), peersOf(1, 2), map[uint32]disk.ID{3: 3}, nil, nil, "", "a majority without member 3"},
		{"the silent one leaves", disks(three), peersOf(1, 2), all, nil, names(disks(three), 3), "member 3 leaves", ""},
		{"another one leaves beside a silent one", disks(three), peersOf(1, 3), all, nil, names(disks(three), 3), "", "a majority without member 2"},
		{"stops voting beside a silent one", disks(three), peersOf(1, 3, 0, 2), all, nil, names(disks(three), 3), "", "a majority without member 2"},

		{"an emptied disk comes in", disks(three), three, lost3, nil, names(disks(three), 3), "member 3 joins with the disk 0000000000000021", ""},
		{"an emptied disk, while the old one answers", disks(three), three, lost3, nil, nil, "", "the disk 0000000000000003 of member 3, which replies, or did a moment ago: the disk 0000000000000021 wants its place"},
		{"the lost disk leaves", with(disks(three), 3, 33), three, lost3, []uint32{2, 3}, names(disks(three), 3), "the lost disk 0000000000000003 of member 3 leaves", ""},
		{"not before the new one has the log", with(disks(three), 3, 33), three, lost3, []uint32{2}, names(disks(three), 3), "", "member 3, which is catching up"},
		{"then the new one votes", with(disks(peersOf(1, 2)), 3, 33), three, lost3, []uint32{2, 3}, nil, "member 3 votes", ""},
		{"not if no majority would be there", with(disks(four), 3, 33), four, map[uint32]disk.ID{2: 2, 3: 33, 4: 4}, []uint32{3}, names(disks(four), 2, 3, 4), "", "a majority without the lost disk of member 3"},
		{"a second emptied disk after the first", with(disks(three), 3, 33), three, map[uint32]disk.ID{2: 2, 3: 34}, nil, names(with(disks(three), 3, 33), 3), "the lost disk 0000000000000021 of member 3, which had no vote, leaves", ""},
		{"the old disk comes back", with(disks(three), 3, 33), three, all, nil, names(with(nil, 3, 33), 3), "the lost disk 0000000000000021 of member 3, which had no vote, leaves", ""},
		{"an observer's disk is lost", observed, peersOf(1, 2, 3, 0, 4), map[uint32]disk.ID{2: 2, 3: 3, 4: 44}, nil, names(observed, 4), "the lost disk 0000000000000004 of member 4, which had no vote, leaves", ""},
		{"an observer's disk answers, and another one runs", observed, peersOf(1, 2, 3, 0, 4), map[uint32]disk.ID{2: 2, 3: 3, 4: 44}, nil, nil, "", "the disk 0000000000000004 of member 4, which replies, or did a moment ago: the disk 000000000000002c wants its place"},
		{"one of two voters is lost, and the leader has not noticed yet", with(disks(peersOf(1, 2)), 2, 22), peersOf(1, 2), map[uint32]disk.ID{2: 22}, []uint32{2}, names(disks(peersOf(2)), 2), "the lost disk 0000000000000002 of member 2 leaves", ""},
	} {
		f := &membership{serverList: newServerList(new(Config))}
		s := leaderView{self: c.have[0], configured: c.have, wanted: c.want, replies: map[uint32]*proto.HelloReply{}, caughtUp: names(c.have, c.caught...)}
		for id, d := range c.replies {
			s.replies[id] = &proto.HelloReply{Member: id, Disk: uint64(d)}
		}
		for _, name := range names(c.have, 1, 2, 3, 4) {
			if !slices.Contains(c.silent, name) {
				s.reachedServers = append(s.reachedServers, name)
			}
		}
		got := f.nextChange(s)
		if got.description != c.what || (got.apply != nil) != (c.what != "") || got.waitingFor != c.waits {
			t.Errorf("%s: the next change is %q and waits for %q, want %q and %q", c.name, got.description, got.waitingFor, c.what, c.waits)
		}
	}
}

// When the configuration gives a follower another address, the leader leaves the former one, although a pipeline is
// open there: the follower hears nothing more until it is at the new address. Config.ConfigurationChanged is called on all
// members that apply the change.
func TestFormerAddressIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		var configured [4]atomic.Int32
		var want atomic.Pointer[[]wire.Peer]
		want.Store(&e.peers)
		for id, m := range e.members {
			m.adjust = func(cfg *Config) {
				cfg.ConfigurationChanged = func() { configured[id].Add(1) }
				cfg.WantedServers = func() ([]wire.Peer, bool) { return *want.Load(), true }
			}
		}
		e.begin()
		lead := e.leader(1, 2, 3)
		moved, other := others(lead)[0], others(lead)[1]
		time.Sleep(time.Second) // in a pipeline
		before := configured[lead].Load()
		list := at("elsewhere:3888", moved, e.peers)
		want.Store(&list)
		e.wait("the address to change", func() bool { return slices.Equal(lines(e.members[lead].node), list) })
		synctest.Wait()
		if got := configured[lead].Load() - before; got != 1 || configured[other].Load() != configured[lead].Load() {
			t.Errorf("Configured was called %d times on the leader, %d times in all on it and %d times on member %d",
				got, configured[lead].Load(), configured[other].Load(), other)
		}
		had := e.members[moved].machine.count()
		e.propose("b", lead, other)
		e.awaitApplied([]string{"a", "b"}, lead, other)
		time.Sleep(5 * time.Second)
		if got := e.members[moved].machine.count(); got != had {
			t.Errorf("the leader still sends entries to the former address: %d commands became %d", had, got)
		}
	})
}

// A server that has just joined is checked again soon, even before it has replied to raft. A server whose member has
// another disk, or is silent, is not.
func TestCatchingUpIsLookedAtSoon(t *testing.T) {
	voter, newcomer := wire.Peer{ID: 1, DiskID: 1, Addr: "a:1"}, wire.Peer{ID: 2, DiskID: 2, Addr: "b:1", Observer: true}
	want := []wire.Peer{voter.WithoutDisk(), {ID: 2, Addr: "b:1"}}
	for replies, soon := range map[disk.ID]bool{0: false, 2: true, 3: false} {
		s := leaderView{self: voter, configured: []wire.Peer{voter, newcomer}, wanted: want, replies: map[uint32]*proto.HelloReply{2: {Disk: uint64(replies)}}}
		if s.hasNewVoterCatchingUp() != soon {
			t.Errorf("member 2 replies with the disk %v: looked at soon %t, want %t", replies, !soon, soon)
		}
	}
	s := leaderView{self: voter, configured: []wire.Peer{voter, newcomer}, wanted: []wire.Peer{voter.WithoutDisk(), newcomer.WithoutDisk()}, replies: map[uint32]*proto.HelloReply{2: {Disk: 2}}}
	if s.hasNewVoterCatchingUp() {
		t.Error("an observer is waited for")
	}
}

// A leader has sampled its log long ago, when it was short: while it led before, or while another member came in. A disk that has
// copied as much as that has not caught up.
func TestOldSampleOfTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, wiped := e.members[lead].node, others(lead)[0]
		f := n.newMembership(n.status.raft.Load())
		f.sampleCaughtUpServers()
		short := n.status.LastIndex()
		time.Sleep(contactLifetime) // nothing is to change, or another member leads
		e.fillLarge(10, 1, 2, 3)
		e.kill(wiped)
		e.slowDisk(wiped, time.Second)
		e.start(wiped)
		now := e.members[wiped].node.status.selfPeer().ServerID()
		e.wait("the emptied member to copy a part of the log", func() bool { return slices.Contains(n.transport.LongestLogs(n.electionTimeout, short), now) })
		if end := e.members[wiped].node.status.LastIndex(); end == n.status.LastIndex() {
			t.Fatal("it has all of the log: this shows nothing")
		}
		if slices.Contains(f.sampleCaughtUpServers(), now) {
			t.Errorf("a disk with %d of %d entries has caught up", e.members[wiped].node.status.LastIndex(), n.status.LastIndex())
		}
	})
}
