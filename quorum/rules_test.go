package quorum

import (
	"bytes"
	"context"
	"fmt"
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
		if id <= uint32(first) {
			m.seeds = e.peers[:first]
		}
		m.adjust = func(c *Config) {
			c.WantedServers = func() ([]wire.Peer, bool) {
				list, known := e.list(m.machine.commands())
				c.AddressBook.SetServerList(list)
				return list, known
			}
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
		e.awaitJoined(id)
	}
	e.wait("all to vote", func() bool { return shown(e.members[1].node.status.ConfiguredMembers()) == shown(e.peers[:first]) })
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
	ctx, cancel := context.WithTimeout(context.Background(), 2*n.electionTimeout)
	defer cancel()
	if err := n.transfer.ToMember(ctx, to); err != nil {
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

// shown returns the ids of servers. The ids of observers are in parentheses.
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
			all = append(all, shown(wire.PeersIn(raft.DecodeConfiguration(entry.Data))))
		}
	}
	return all
}

// follows waits until the configuration of a member is as given.
func (e *ensemble) follows(id uint32, want string) {
	e.t.Helper()
	e.wait(fmt.Sprintf("the configuration %q", want), func() bool { return shown(e.members[id].node.status.ConfiguredMembers()) == want })
}

// checkHistory compares every configuration that there was since the first one that is wanted with what is wanted.
func (e *ensemble) checkHistory(id uint32, want ...string) {
	e.t.Helper()
	got := e.history(id)
	if i := slices.Index(got, want[0]); i >= 0 {
		got = got[i:]
	}
	if !slices.Equal(got, want) {
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

// A voter whose replacement does not reply stays for replacementWait, and leaves then.
func TestVoterWaitsForItsReplacement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := listed(t, 3, 4)
		e.beginListed(3)
		e.propose(listPrefix+"1 2 4", 1, 2, 3)
		begun := time.Now()
		e.follows(1, "1 2")
		if stayed := time.Since(begun); stayed < replacementWait || stayed > replacementWait+4*helloTimeout {
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
				term, election := e.members[1].node.status.Term(), e.members[1].node.electionTimeout
				e.propose(listPrefix+list, 1, 2, 3)
				pause, last := time.Duration(0), time.Now()
				for end := last.Add(10 * membershipInterval); last.Before(end); time.Sleep(5 * time.Millisecond) {
					if leader := e.leaderNow(); leader != 0 && e.members[leader].node.Propose([]byte("w"), nil).Error() == nil {
						pause, last = max(pause, time.Since(last)), time.Now()
					}
				}
				if got := shown(e.members[2].node.status.ConfiguredMembers()); got != list {
					t.Fatalf("the configuration is %q", got)
				}
				if got := e.members[2].node.status.Term(); pause >= election/2 || got != term+1 {
					t.Errorf("writes paused for %v, and term %d became %d; want less than %v, and the next term", pause, term, got, election/2)
				}
				if list == "2" && !e.members[2].node.status.IsLeader() {
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

func (h *held) Apply(batch []CommittedEntry) error {
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
			slow.machine, c.StateMachine, c.StallLimit = e.members[2].machine, slow, time.Hour
		}
		e.beginListed(3)
		e.start(4)
		gate := make(chan struct{})
		slow.gate.Store(&gate)
		e.propose(listPrefix+"1 2 3 4", 1, 2, 3)
		e.follows(2, "1 2 3 4")
		e.handOverTo(1, 2)
		if e.leader(1, 2, 3, 4) != 2 || e.members[2].node.fsm.appliedTerm.Load() == e.members[2].node.status.Term() {
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
		for end := time.Now().Add(20 * time.Second); shown(e.members[1].node.status.ConfiguredMembers()) != "1 2 3 4"; time.Sleep(time.Millisecond) {
			if err := e.members[1].node.Propose([]byte("w"), nil).Error(); err != nil {
				t.Fatal(err)
			}
			if time.Now().After(end) {
				t.Fatalf("after 20 s of writes the configuration is %q", shown(e.members[1].node.status.ConfiguredMembers()))
			}
		}
	})
}

// A member moves once more while the leader waits for its reply, which comes from the last address then. It proves nothing about the
// address before, so no configuration has that.
func TestReplyFromALaterAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		var list atomic.Pointer[[]wire.Peer]
		moveTo := func(addr string) { list.Store(&[]wire.Peer{e.peers[0], e.peers[1], {ID: 3, Addr: addr}}) }
		moveTo(e.peers[2].Addr)
		for _, m := range e.members {
			m.adjust = func(c *Config) {
				ask := c.SendHello
				c.WantedServers = func() ([]wire.Peer, bool) { return *list.Load(), true }
				c.SendHello = func(ctx context.Context, p wire.Peer) (*proto.HelloReply, error) {
					if p.ID == 3 && (*list.Load())[2].Addr == "between:3888" {
						moveTo("last:3888")
					}
					return ask(ctx, p)
				}
			}
		}
		e.begin()
		moveTo("between:3888")
		lead := e.members[e.leader(1, 2, 3)]
		e.wait("the last address", func() bool {
			p, _ := findPeer(lead.node.status.Servers(), 3)
			return p.Addr == "last:3888"
		})
		last, err := lead.stores.Log.LastIndex()
		for i := uint64(1); i <= last && err == nil; i++ {
			var entry raft.Log
			if err = lead.stores.Log.GetLog(i, &entry); err == nil && entry.Type == raft.LogConfiguration &&
				bytes.Contains(entry.Data, []byte("between")) {
				t.Errorf("entry %d has the address from which there was no reply", i)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
