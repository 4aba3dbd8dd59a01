package quorum

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/wire"
)

// A leader of two members stays leader while the other one installs a snapshot, which takes far
// longer than an election.
func TestLongInstallKeepsTheLeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		lead := e.leader(1, 2, 3)
		late, other := others(lead)[0], others(lead)[1]
		all := e.outdate(late, 10)
		if now := e.leader(lead, other); now != lead {
			t.Fatalf("member %d leads, not %d", now, lead)
		}
		e.members[late].restores = 8 * testHeartbeat
		e.start(late)
		time.Sleep(testHeartbeat) // the snapshot is being installed
		e.kill(other)             // from now on there are two
		term := e.members[lead].node.status.Term()
		e.awaitApplied(all, late)
		if e.members[late].machine.restored != 1 {
			t.Errorf("%d snapshots were installed", e.members[late].machine.restored)
		}
		if n := e.members[lead].node; n.status.Term() != term || !n.status.IsLeader() {
			t.Errorf("member %d leads in term %d: %t; it led in %d", lead, n.status.Term(), n.status.IsLeader(), term)
		}
		e.propose("z", lead, late)
		e.awaitApplied(append(all, "z"), lead, late)
	})
}

// compact makes the ensemble take snapshots soon and keep little log.
func (e *ensemble) compact() {
	for _, m := range e.members {
		m.adjust = func(c *Config) { c.SnapshotEvery, c.TrailingBytes = 20, 1 }
	}
}

// outdate kills a member after the command a, and lets the rest continue until only a snapshot
// can bring it up to date. It returns all commands.
func (e *ensemble) outdate(id uint32, size int) []string {
	e.t.Helper()
	rest := e.membersExcept(id)
	e.kill(id)
	all := []string{"a"}
	for i := range 3 * minTrailing {
		all = append(all, fmt.Sprint(i, strings.Repeat(".", size)))
		e.propose(all[len(all)-1], rest...)
	}
	e.awaitCompacted(3, rest...)
	return all
}

// awaitCompacted waits until the logs of members begin above index.
func (e *ensemble) awaitCompacted(index uint64, ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		e.wait("a shorter log", func() bool {
			first, _ := e.members[id].stores.Log.FirstIndex()
			return first > index
		})
	}
}

// A member that is too far behind gets a snapshot.
func TestSnapshotIsInstalled(t *testing.T) {
	t.Parallel()
	for _, wiped := range []bool{false, true} {
		t.Run(fmt.Sprintf("wiped=%t", wiped), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				e.compact()
				e.begin()
				late := others(e.leader(1, 2, 3))[0]
				all := e.outdate(late, 10)
				if wiped {
					e.wipe(late)
				}
				e.start(late)
				e.awaitApplied(all, late)
				if e.members[late].machine.restored == 0 {
					t.Error("no snapshot was installed")
				}
				e.awaitJoined(late)
				e.propose("z", 1, 2, 3)
				e.awaitApplied(append(all, "z"), 1, 2, 3)
			})
		})
	}
}

// If a leader dies while it sends a snapshot, without closing the connection, the receiver can
// still elect another leader.
func TestLeaderDiesSendingSnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		lead := e.leader(1, 2, 3)
		late, other := others(lead)[0], others(lead)[1]
		all := e.outdate(late, 10_000)
		lead = e.leader(lead, other)
		other = others(lead)[0] + others(lead)[1] - late

		pair := [2]uint32{lead, late}
		e.net.mu.Lock()
		e.net.muteAt[pair] = e.net.wrote[pair] + 1<<20
		e.net.mu.Unlock()
		e.start(late)
		e.wait("a snapshot under way", func() bool {
			e.net.mu.Lock()
			defer e.net.mu.Unlock()
			return e.net.mute[pair]
		})
		e.members[lead].node.failure.endMember(errKilled)
		begin := time.Now()
		if got := e.leader(other, late); got != other {
			t.Errorf("member %d leads, want %d", got, other)
		}
		if took := time.Since(begin); took > 10*testHeartbeat {
			t.Errorf("elected after %v: the receiver was held up", took)
		}
		e.awaitApplied(all, late)
		if took := time.Since(begin); took > 2500*time.Millisecond {
			t.Errorf("caught up after %v: the next leader's snapshot was to take the first one's place at once", took)
		}
		if err := e.awaitEnd(lead); !errors.Is(err, errKilled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A member's log may be longer than a snapshot, with entries that were never committed. Then the member requests a
// restart after it has installed the snapshot, because raft would rely on the old end of the log. After the restart it
// has the same state as the others.
func TestConflictingLogRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		lead := e.leader(1, 2, 3)
		rest := others(lead)
		e.net.partition(lead, rest[0])
		e.net.partition(lead, rest[1])
		for i := range 6 * minTrailing {
			e.members[lead].node.Propose([]byte(fmt.Sprint("never", i)), nil)
		}
		e.wait("a new leader", func() bool { return !e.members[lead].node.status.IsLeader() })
		all := []string{"a"}
		for i := range 3 * minTrailing {
			all = append(all, fmt.Sprint(i))
			e.propose(all[len(all)-1], rest...)
		}
		e.awaitCompacted(10, rest...)
		e.net.heal()
		if err := e.awaitEnd(lead); !errors.Is(err, wire.ErrRestart) || !strings.Contains(err.Error(), "the log had reached") {
			t.Fatalf("Run: %v, want ErrRestart at the first install", err)
		}
		e.start(lead)
		e.propose("z", 1, 2, 3)
		e.awaitApplied(append(all, "z"), 1, 2, 3)
	})
}

// The entry directly after an installed snapshot is of a leader that dies before others have it. The next leader replaces it,
// although the log has no entry before it.
func TestConflictRightAfterASnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 5)
		e.compact()
		e.begin()
		lead := e.leader(e.ids()...)
		late := e.membersExcept(lead)[0]
		rest := e.membersExcept(lead, late)
		all := e.outdate(late, 10)
		if now := e.leader(append(rest, lead)...); now != lead {
			t.Fatalf("member %d leads, not %d", now, lead)
		}
		if _, err := e.members[lead].node.Snapshots().TakeSnapshot(t.Context(), 1<<20); err != nil {
			t.Fatal(err)
		}
		e.start(late)
		e.awaitApplied(all, late)
		if last, err := e.members[late].stores.Log.LastIndex(); err != nil || last != 0 {
			t.Fatalf("the log goes to %d after the snapshot, %v: this shows nothing", last, err)
		}
		for _, id := range rest {
			e.net.partition(id, lead)
			e.net.partition(id, late)
		}
		e.members[lead].node.Propose([]byte("lost"), nil)
		e.wait("its entry to be stored", func() bool { last, _ := e.members[late].stores.Log.LastIndex(); return last > 0 })
		e.kill(lead)
		e.leader(rest...)
		e.propose("z", rest...)
		e.net.heal()
		e.awaitApplied(append(all, "z"), append(rest, late)...)
		e.mustRun(late)
	})
}

// A snapshot that holds nothing new is answered without raft, which would drop the entries after
// it. If it comes a second time, the member restarts.
func TestSecondInstallRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.begin()
		e.propose("b", 1, 2)
		e.awaitApplied([]string{"a", "b"}, 1, 2)
		lead := e.leader(1, 2)
		late := 3 - lead
		n := e.members[late].node
		r, last := n.status.raft.Load(), n.status.LastIndex()
		install := func(term, index uint64, body string) (raft.InstallSnapshotResponse, error) {
			req := &raft.InstallSnapshotRequest{
				RPCHeader: raft.RPCHeader{ProtocolVersion: 3, ID: []byte(e.members[lead].server.ServerID()), Addr: []byte(e.peers[lead-1].Addr)}, SnapshotVersion: 1,
				Term: term, LastLogIndex: index, LastLogTerm: term, Size: int64(len(body)),
				Configuration: raft.EncodeConfiguration(wire.RaftConfiguration(e.servers())), ConfigurationIndex: 1,
			}
			return e.send(lead, late, req, body)
		}
		if resp, err := install(r.CurrentTerm()-1, last-1, "x"); err != nil || resp.Success || resp.Term != r.CurrentTerm() {
			t.Errorf("of an older term: %+v, %v", resp, err)
		}
		if resp, err := install(r.CurrentTerm()+1, last-1, "x"); err == nil {
			t.Errorf("of a newer term, not heard of: %+v", resp)
		}
		if resp, err := install(r.CurrentTerm(), last-1, "x"); err != nil || !resp.Success {
			t.Errorf("nothing new: %+v, %v", resp, err)
		}
		if n.status.LastIndex() != last || e.members[late].machine.restored != 0 {
			t.Error("raft went back")
		}
		// The member ends at the same time, so the connection may end before its reply arrives.
		if resp, err := install(r.CurrentTerm(), last-1, "x"); err == nil {
			t.Errorf("again: %+v, want an error", resp)
		}
		if err := e.awaitEnd(late); !errors.Is(err, wire.ErrRestart) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A member applies entries beyond a snapshot while it receives that. The snapshot is answered without raft, which would drop the
// entries after it.
func TestSnapshotIsOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 2)
		e.begin()
		e.awaitApplied([]string{"a"}, 1, 2)
		lead := e.leader(1, 2)
		late := 3 - lead
		n := e.members[late].node
		req, body := snapshotRequest(e, n.status.LastIndex()+1)
		req.ID, req.Addr = []byte(e.members[lead].server.ServerID()), []byte(e.peers[lead-1].Addr)
		req.Term, req.LastLogTerm = n.status.Term(), n.status.Term()
		rest, more := io.Pipe()
		var resp raft.InstallSnapshotResponse
		sent := make(chan error, 1)
		go func() {
			to := e.members[late].server
			sent <- e.members[lead].node.transport.InstallSnapshot(to.ServerID(), to.ServerAddress(), req, &resp, io.MultiReader(strings.NewReader(body[:9]), rest))
		}()
		synctest.Wait() // the member has received a part
		e.propose("b", 1, 2)
		e.propose("c", 1, 2)
		e.awaitApplied([]string{"a", "b", "c"}, 1, 2)
		last := n.status.LastIndex()
		if _, err := io.WriteString(more, body[9:]); err != nil {
			t.Fatal(err)
		}
		_ = more.Close()
		if err := <-sent; err != nil || !resp.Success {
			t.Errorf("the snapshot: %+v, %v", resp, err)
		}
		if n.status.LastIndex() != last || e.members[late].machine.restored != 0 {
			t.Errorf("raft went back from %d to %d, and installed %d snapshots", last, n.status.LastIndex(), e.members[late].machine.restored)
		}
		e.propose("d", 1, 2)
		e.awaitApplied([]string{"a", "b", "c", "d"}, 1, 2)
		e.mustRun(late)
	})
}

// A member with the same bind address as another is still another candidate, because the others' raft gets a
// name in place of its address. (All listeners of memNetwork have one bind address.)
func TestNamesOfCandidates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1, 2, 3)
		lead := e.leader(1, 2, 3)
		for _, id := range []uint32{1, 2, 3} {
			addr, _ := e.members[id].node.status.raft.Load().LeaderWithID()
			if want := e.members[lead].server.ServerID(); id != lead && string(addr) != string(want) {
				t.Errorf("member %d: leader %d is at %q", id, lead, addr)
			}
		}
		vote, err := e.members[lead].stores.Stable.Get([]byte("RollcallVote"))
		if err != nil || string(vote[8:]) != string(e.members[lead].server.ServerAddress()) { // the vote's term comes first
			t.Errorf("the leader voted for %q, %v", vote, err)
		}
	})
}
