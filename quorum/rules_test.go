package quorum

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/proto"
	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// listPrefix begins a command that makes a server list. The members of the list follow it in the form of shown.
const listPrefix = "list "

// listed makes an ensemble whose configuration follows the list in its state. The first members begin it, with that
// list; the others have no data and join once they are started.
func listed(t *testing.T, first, all int) *ensemble {
	e := newEnsemble(t, all)
	for id, m := range e.members {
		m.adjust = func(c *Config) {
			if id <= uint32(first) {
				c.Peers = e.peers[:first]
			}
			c.Wanted = func() ([]wire.Peer, bool) { return e.list(m.machine.commands()) }
		}
	}
	return e
}

// beginListed starts the first members of an ensemble, and waits until member 1 leads and all take part.
func (e *ensemble) beginListed(first int) {
	e.t.Helper()
	var ids []uint32
	for _, p := range e.peers[:first] {
		ids = append(ids, p.ID)
	}
	e.start(ids...)
	e.propose(listPrefix+shown(e.peers[:first]), ids...)
	for _, id := range ids {
		e.joined(id)
	}
	e.wait("member 1 to lead", func() bool {
		leader := e.leader(ids...)
		if leader != 1 {
			e.handOverTo(leader, 1)
		}
		return leader == 1
	})
	e.propose("begun", ids...)
}

func (e *ensemble) handOverTo(from, to uint32) {
	e.t.Helper()
	n := e.members[from].node
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.election)
	defer cancel()
	if err := n.HandOverTo(ctx, to); err != nil {
		e.t.Logf("hand-over by member %d: %v", from, err)
	}
}

// list returns the newest list in a state.
func (e *ensemble) list(commands []string) (servers []wire.Peer, ok bool) {
	for _, c := range slices.Backward(commands) {
		text, ok := strings.CutPrefix(c, listPrefix)
		if !ok {
			continue
		}
		for word := range strings.FieldsSeq(text) {
			var p wire.Peer
			_, p.Observer = strings.CutPrefix(word, "(")
			id, addr, moved := strings.Cut(strings.Trim(word, "()"), "@")
			_, _ = fmt.Sscan(id, &p.ID) // the lists of these tests are right
			if p.Addr = e.peers[p.ID-1].Addr; moved {
				p.Addr = addr
			}
			servers = append(servers, p)
		}
		return servers, true
	}
	return nil, false
}

// shown returns the ids of servers. Those of observers are in parentheses.
func shown(servers []wire.Peer) string {
	var words []string
	for _, p := range servers {
		word := fmt.Sprint(p.ID)
		if p.Observer {
			word = "(" + word + ")"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// history returns every configuration in the log of a member, in order.
func (e *ensemble) history(id uint32) (all []string) {
	e.t.Helper()
	log := e.members[id].stores.Log
	last, err := log.LastIndex()
	if err != nil {
		e.t.Fatal(err)
	}
	for index := uint64(disk.BootstrapIndex); index <= last; index++ {
		var entry raft.Log
		if err := log.GetLog(index, &entry); err != nil {
			e.t.Fatal(err)
		}
		if entry.Type == raft.LogConfiguration {
			all = append(all, shown(wire.Peers(raft.DecodeConfiguration(entry.Data))))
		}
	}
	return all
}

// follows waits until the configuration of a member is as given.
func (e *ensemble) follows(id uint32, want string) {
	e.t.Helper()
	e.wait(fmt.Sprintf("the configuration %q", want), func() bool { return shown(e.members[id].node.Configuration()) == want })
}

// checkHistory compares every configuration that there was with what is wanted.
func (e *ensemble) checkHistory(id uint32, want ...string) {
	e.t.Helper()
	if got := e.history(id); !slices.Equal(got, want) {
		e.t.Errorf("the configurations were %q, want %q", got, want)
	}
}

// One change is made after the other. A member comes in without a vote and gets it once it has the log. The one in
// whose place it votes leaves last.
func TestOneChangeAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		e.beginListed(3)
		e.start(4)
		e.propose(listPrefix+"1 2 4", 1, 2, 3)
		e.follows(1, "1 2 4")
		e.checkHistory(1, "1 2 3", "1 2 3 (4)", "1 2 3 4", "1 2 4")
		e.propose(listPrefix+"1 2 (4)", 1, 2, 4)
		e.follows(1, "1 2 (4)")
		e.propose(listPrefix+"1 2 3", 1, 2)
		e.follows(1, "1 2 3")
		e.checkHistory(1, "1 2 3", "1 2 3 (4)", "1 2 3 4", "1 2 4", "1 2 (4)", "1 2 (3) (4)", "1 2 3 (4)", "1 2 3")
	})
}

// A voter whose replacement does not answer stays for replacementWait, and leaves then.
func TestVoterWaitsForItsReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		e.beginListed(3)
		e.propose(listPrefix+"1 2 4", 1, 2, 3)
		begun := time.Now()
		e.follows(1, "1 2")
		if stayed := time.Since(begun); stayed < replacementWait || stayed > replacementWait+4*askTimeout {
			t.Errorf("the voter left after %v, want %v and some rounds", stayed, replacementWait)
		}
		e.start(4)
		e.follows(1, "1 2 4")
	})
}

// A leader that is to leave, or is to stop voting, hands over before that, to a member that stays. Writes pause for less
// than the election that would come if it did not.
func TestLeaderThatGoesHandsOver(t *testing.T) {
	for _, list := range []string{"2 3", "(1) 2 3", "2"} {
		t.Run(list, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := listed(t, 3, 3)
				e.beginListed(3)
				term, election := e.members[1].node.Term(), e.members[1].node.election
				e.propose(listPrefix+list, 1, 2, 3)
				pause, last := time.Duration(0), time.Now()
				for end := last.Add(10 * followInterval); last.Before(end); time.Sleep(5 * time.Millisecond) {
					if leader := e.leaderNow(); leader != 0 && e.members[leader].node.Propose([]byte("w"), nil).Error() == nil {
						pause, last = max(pause, time.Since(last)), time.Now()
					}
				}
				if got := shown(e.members[2].node.Configuration()); got != list {
					t.Fatalf("the configuration is %q", got)
				}
				if got := e.members[2].node.Term(); pause >= election/2 || got != term+1 {
					t.Errorf("writes paused for %v, and term %d became %d; want less than %v, and the next term", pause, term, got, election/2)
				}
				if list == "2" && !e.members[2].node.Leading() {
					t.Error("leadership went to a member that was to leave, too")
				}
			})
		})
	}
}

// held is a machine that applies nothing while it is held.
type held struct {
	*machine
	gate atomic.Pointer[chan struct{}]
}

func (h *held) Apply(batch []Committed) error {
	if gate := h.gate.Load(); gate != nil {
		<-*gate
	}
	return h.machine.Apply(batch)
}

// A leader whose state still has an old list changes nothing: it first applies an entry of its own term, and with it all
// that came before.
func TestNewLeaderDoesNotFollowAnOldList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		slow, adjust := &held{}, e.members[2].adjust
		e.members[2].adjust = func(c *Config) {
			adjust(c)
			slow.machine, c.Machine, c.StallLimit = e.members[2].machine, slow, time.Hour
		}
		e.beginListed(3)
		e.start(4)
		gate := make(chan struct{})
		slow.gate.Store(&gate)
		e.propose(listPrefix+"1 2 3 4", 1, 2, 3)
		e.follows(2, "1 2 3 4")
		e.handOverTo(1, 2)
		if e.leader(1, 2, 3, 4) != 2 || e.members[2].node.fsm.term.Load() == e.members[2].node.Term() {
			t.Fatal("member 2 does not lead with an old state: this shows nothing")
		}
		want := e.history(2)
		time.Sleep(2 * replacementWait)
		e.checkHistory(2, want...)
		close(gate)
		slow.gate.Store(nil)
		time.Sleep(2 * replacementWait)
		e.checkHistory(2, want...)
		e.propose(listPrefix+"1 2 3", 1, 2, 3, 4)
		e.follows(2, "1 2 3")
	})
}

// A member becomes a voter while clients write and its log is always a little behind.
func TestPromotionUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		mem := raft.NewInmemStore()
		e.members[4].stores = disk.Stores{Log: &slowLog{mem, 5 * time.Millisecond}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
		e.beginListed(3)
		e.start(4)
		e.propose(listPrefix+"1 2 3 4", 1, 2, 3)
		for end := time.Now().Add(20 * time.Second); shown(e.members[1].node.Configuration()) != "1 2 3 4"; time.Sleep(time.Millisecond) {
			if err := e.members[1].node.Propose([]byte("w"), nil).Error(); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("after 20 s of writes the configuration is %q", shown(e.members[1].node.Configuration()))
			}
		}
	})
}

// A server that is down moves without getting a vote, although it is to have one: it has not caught up.
func TestMoveGivesNoVote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		e.beginListed(3)
		e.start(4)
		e.propose(listPrefix+"1 2 3 (4)", 1, 2, 3)
		e.follows(1, "1 2 3 (4)")
		e.kill(4)
		e.propose(listPrefix+"1 2 3 4@new:3888", 1, 2, 3)
		e.wait("member 4 to be at its new address", func() bool {
			p, _ := find(e.members[1].node.Configuration(), 4)
			return p.Addr == "new:3888"
		})
		time.Sleep(10 * followInterval)
		e.checkHistory(1, "1 2 3", "1 2 3 (4)", "1 2 3 (4)")
	})
}

// Once another voter has followed a recovered member, members with other data are left out and stop nobody: not when
// that member has become the only voter again, and not after a restart.
func TestRivalsOfAMemberThatWasFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 3)
		for _, m := range e.members {
			if err := m.stores.Stable.Set(keyRecovery, binary.BigEndian.AppendUint64(wire.ConfigHash(e.peers), 7)); err != nil {
				t.Fatal(err)
			}
		}
		e.beginListed(3)
		e.propose(listPrefix+"1", 1, 2, 3)
		e.follows(1, "1")
		e.kill(2)
		e.kill(3)
		e.wipe(2)
		adjust := e.members[2].adjust
		e.standalone(2)
		e.start(2)
		e.propose("other", 2)
		e.stop(2)
		e.members[2].adjust = adjust
		e.start(2)
		for range 2 {
			e.propose(listPrefix+"1 3", 1)
			time.Sleep(10 * followInterval)
			e.alive(1, 2)
			if shown(e.members[1].node.Configuration()) != "1" || e.members[1].node.Recovering() {
				t.Errorf("the configuration is %q", shown(e.members[1].node.Configuration()))
			}
			e.stop(1)
			e.start(1)
			e.wait("member 1 to lead", func() bool { return e.members[1].node.Leading() })
		}
	})
}

// stepCase is a configuration, a list and the answers of members, and the change that the leader makes next. The leader
// is member 1.
type stepCase struct {
	name       string
	have, want []wire.Peer
	answers    map[uint32]*proto.HelloReply
	caught     []uint32
	what       string // the change; "": none
	waits      string // what it, or a later one, waits for; "": nothing
}

// check asks a node that has the raft of a leader, so that the leader's own loop does not ask the same one.
func (c stepCase) check(t *testing.T, leader *Node) {
	t.Helper()
	n := &Node{cfg: leader.cfg, election: leader.election, trans: leader.trans}
	n.raft.Store(leader.raft.Load())
	got := n.nextChange(c.have, c.want, c.answers, c.caught)
	if got.what != c.what || (got.change != nil) != (c.what != "") || got.waits != c.waits {
		t.Errorf("%s: the next change is %q and waits for %q, want %q and %q", c.name, got.what, got.waits, c.what, c.waits)
	}
}

// at returns servers with one of them at another address.
func at(addr string, id uint32, servers []wire.Peer) []wire.Peer {
	servers = slices.Clone(servers)
	servers[slices.IndexFunc(servers, func(p wire.Peer) bool { return p.ID == id })].Addr = addr
	return servers
}

// answer returns answers with one more member's.
func answer(to map[uint32]*proto.HelloReply, id uint32, a *proto.HelloReply) map[uint32]*proto.HelloReply {
	to = maps.Clone(to)
	a.Member = id
	to[id] = a
	return to
}

// These are the rules of nextChange, one by one, while all three voters are there and while one is cut off.
func TestNextChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		e.wait("member 1 to lead", func() bool {
			leader := e.leader(1, 2, 3)
			if leader != 1 {
				e.handOverTo(leader, 1)
			}
			return leader == 1
		})
		n := e.members[1].node
		e.wait("all to be reached", func() bool { return len(n.Reached(n.election)) == 2 })
		all := map[uint32]*proto.HelloReply{2: {Member: 2, HasData: true}, 3: {Member: 3, HasData: true}}
		ready := &proto.HelloReply{HasData: true, CaughtUp: true}
		joining := &proto.HelloReply{Joining: true}
		two := peersOf(2)[0].Addr
		catching, three := "member 4, which is catching up", peersOf(1, 2, 3)
		for _, c := range []stepCase{
			{"comes in before another one leaves", three, peersOf(1, 2, 4), answer(all, 4, joining), nil, "member 4 comes in", ""},
			{"does not answer", three, peersOf(1, 2, 3, 4), all, nil, "", ""},
			{"went through another recovery", three, peersOf(1, 2, 3, 4), answer(all, 4, &proto.HelloReply{Joining: true, Recovery: 7}), nil, "", ""},
			{"votes once it has the log", peersOf(1, 2, 3, 0, 4), peersOf(1, 2, 4), answer(all, 4, ready), []uint32{2, 3, 4}, "member 4 votes", ""},
			{"has not joined", peersOf(1, 2, 3, 0, 4), peersOf(1, 2, 4), answer(all, 4, joining), []uint32{2, 3, 4}, "", catching},
			{"lags", peersOf(1, 2, 3, 0, 4), peersOf(1, 2, 4), answer(all, 4, ready), []uint32{2, 3}, "", catching},
			{"lags while two leave for it", peersOf(1, 2, 3, 0, 4), peersOf(1, 4), answer(all, 4, joining), nil, "", catching},
			{"another one is ready", peersOf(1, 2, 3, 0, 4, 5), peersOf(1, 2, 3, 4, 5), answer(answer(all, 4, joining), 5, ready), []uint32{5}, "member 5 votes", ""},
			{"observes", peersOf(1, 2, 3, 0, 4), peersOf(1, 2, 3, 0, 4), answer(all, 4, ready), []uint32{4}, "", ""},
			{"is down and is to vote in place of another", peersOf(1, 2, 3, 0, 4), peersOf(1, 2, 4), all, nil, "", "a voter in place of member 3"},
			{"moves", three, at("x:1", 3, three), all, nil, "member 3 is at x:1", ""},
			{"moves before another one leaves", three, at("x:1", 2, peersOf(1, 2)), all, nil, "member 2 is at x:1", ""},
			{"takes an address that is in use", three, at(two, 3, three), all, nil, "", "member 3, until the address of member 2 is free"},
			{"takes the address of an observer that leaves", peersOf(1, 2, 3, 0, 4), at(peersOf(4)[0].Addr, 3, three), all, nil, "member 4 leaves", "member 3, until the address of member 4 is free"},
			{"leaves", three, peersOf(1, 2), all, nil, "member 3 leaves", ""},
			{"stops voting", three, peersOf(1, 2, 0, 3), all, nil, "member 3 votes no more", ""},
			{"observed and leaves", peersOf(1, 2, 3, 0, 4), three, all, nil, "member 4 leaves", ""},
			{"leaves while another voter joins, because that has lost its disk", three, peersOf(1, 2), answer(all, 2, joining), nil, "", "a majority without member 3"},
			{"leaves while another voter does not say whether it joins", three, peersOf(1, 2), map[uint32]*proto.HelloReply{3: all[3]}, nil, "", "a majority without member 3"},
			{"stops voting while another voter joins", three, peersOf(1, 2, 0, 3), answer(all, 2, joining), nil, "", "a majority without member 3"},
			{"is the one that joins, and leaves", three, peersOf(1, 2), answer(all, 3, joining), nil, "member 3 leaves", ""},
			{"leaves, and nobody votes in its place", three, peersOf(1, 2, 4), all, nil, "", "a voter in place of member 3"},
			{"leaves, and its address is needed", three, at(peersOf(3)[0].Addr, 4, peersOf(1, 2, 4)), answer(all, 4, joining), nil, "member 3 leaves", "member 4, until the address of member 3 is free"},
		} {
			c.check(t, n)
		}
		e.net.partition(1, 3)
		e.net.partition(2, 3)
		e.wait("member 3 to be silent", func() bool { return slices.Equal(n.Reached(n.election), []uint32{2}) })
		for _, c := range []stepCase{
			{"the one that is cut off leaves", three, peersOf(1, 2), all, nil, "member 3 leaves", ""},
			{"an observer leaves", peersOf(1, 2, 3, 0, 4), three, all, nil, "member 4 leaves", ""},
			{"another one leaves", three, peersOf(1, 3), all, nil, "", "a majority without member 2"},
			{"another one stops voting", three, peersOf(1, 3, 0, 2), all, nil, "", "a majority without member 2"},
			{"the leader leaves", three, peersOf(2, 3), all, nil, "", "a majority without member 1"},
			{"the other one moves and answers", three, at("x:1", 2, three), all, nil, "member 2 is at x:1", ""},
			{"the other one moves and does not answer", three, at("x:1", 2, three), nil, nil, "", "member 2 at x:1, without which there is no majority"},
			{"the one that is cut off moves", three, at("x:1", 3, three), nil, nil, "member 3 is at x:1", ""},
		} {
			c.check(t, n)
		}
		e.net.heal()
	})
}
