package quorum

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
)

// Three members elect a leader, replicate, and survive the loss of their leader and a restart of
// all.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()

		first := e.leader(1, 2, 3)
		term := e.members[first].node.status.Term()
		e.kill(first)
		rest := others(first)
		e.propose("b", rest...)
		e.awaitApplied([]string{"a", "b"}, rest...)
		if now := e.members[rest[0]].node.status.Term(); now <= term {
			t.Errorf("term %d after %d", now, term)
		}

		e.start(first)
		e.awaitApplied([]string{"a", "b"}, first)
		for id := range e.members {
			e.stop(id)
		}
		e.start(1, 2, 3)
		e.propose("c", 1, 2, 3)
		e.awaitApplied([]string{"a", "b", "c"}, 1, 2, 3)
		for id, m := range e.members {
			if len(m.machine.gaps) > 0 {
				t.Errorf("member %d applied twice: %v", id, m.machine.gaps)
			}
		}
	})
}

func others(id uint32) []uint32 {
	return slices.DeleteFunc([]uint32{1, 2, 3}, func(i uint32) bool { return i == id })
}

// A single member bootstraps without asking others.
func TestSingle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.members[1].adjust = func(c *Config) { c.SendHello = nil }
		e.start(1)
		e.propose("a", 1)
		e.awaitApplied([]string{"a"}, 1)
		e.stop(1)
		e.start(1)
		e.awaitApplied([]string{"a"}, 1)
	})
}

// A leader that stops hands leadership over: a follower leads before an election timeout has
// passed.
func TestHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		old := e.leader(1, 2, 3)
		e.stop(old)
		rest := others(old)
		begin := time.Now()
		e.leader(rest...)
		if took := time.Since(begin); took >= dialPause {
			t.Errorf("a leader %v after the stop: not handed over", took)
		}
	})
}

// Leadership is handed over to the named member, which raft reaches. A member that it does not
// reach is not among those that can be named, and neither is any other.
func TestHandOverTo(t *testing.T) {
	t.Parallel()
	const tick = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		for range 4 {
			old := e.leader(1, 2, 3)
			target := others(old)[0]
			node := e.members[old].node
			e.wait("both others to be reached", func() bool { return slices.Equal(node.reachability.VotersRepliedWithin(tick), others(old)) })
			ctx, cancel := context.WithTimeout(t.Context(), tick)
			if err := node.transfer.ToMember(ctx, target); err != nil {
				t.Errorf("hand over from %d to %d: %v", old, target, err)
			}
			cancel()
			if got := e.leader(1, 2, 3); got != target {
				t.Errorf("member %d leads, want %d", got, target)
			}
		}
		leader := e.leader(1, 2, 3)
		node, gone := e.members[leader].node, others(leader)[0]
		e.kill(gone)
		time.Sleep(2 * tick)
		if got := node.reachability.VotersRepliedWithin(tick); !slices.Equal(got, others(leader)[1:]) {
			t.Errorf("reached %v, without member %d that is down", got, gone)
		}
		if err := node.transfer.ToMember(t.Context(), 9); err == nil {
			t.Error("handed over to 9, which is no member")
		}
	})
}

// A leader hands over to a member that can take over, although the other one rejects the hand-over because it is about
// to stop, or because its state is damaged.
func TestHandOverByTurns(t *testing.T) {
	for name, unable := range map[string]func(*Node){
		"declines": func(n *Node) { n.transfer.DeclineIncoming() },
		"is damaged": func(n *Node) {
			if err := n.record.StoreDamage("test"); err != nil {
				panic(err)
			}
		},
	} {
		for i := range 2 { // one of them is tried first
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEnsemble(t, 3)
					e.begin()
					lead := e.leader(1, 2, 3)
					n, able := e.members[lead].node, others(lead)[1-i]
					e.wait("both others to be reached", func() bool { return slices.Equal(n.reachability.VotersRepliedWithin(n.electionTimeout), others(lead)) })
					unable(e.members[others(lead)[i]].node)
					begin := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					if err := n.transfer.ToAny(ctx); err != nil || time.Since(begin) > n.electionTimeout {
						t.Errorf("handed over in %v: %v", time.Since(begin), err)
					}
					if got := e.leader(lead, able); got != able {
						t.Errorf("member %d leads, want %d", got, able)
					}
				})
			})
		}
	}
}

// A member that the leader does not reach is no transfer target, although its log is as long as any and the other one
// was tried in vain: raft takes no entries while it waits for a target.
func TestNoTransferOutOfReach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, gone, there := e.members[lead].node, others(lead)[0], others(lead)[1]
		tried := map[uint32]int{there: 1}
		e.wait("both logs to be as long", func() bool { return len(n.transport.LongestLogs(n.electionTimeout, n.status.LastIndex())) == 2 })
		if target, err := n.transfer.nextTarget(tried, n.status.LastIndex()); err != nil || target.ID != gone {
			t.Errorf("while both are reached: %d, %v; want %d", target.ID, err, gone)
		}
		e.net.partition(lead, gone)
		time.Sleep(2 * n.electionTimeout)
		if target, err := n.transfer.nextTarget(tried, n.status.LastIndex()); err != nil || target.ID != there {
			t.Errorf("when member %d is out of reach: %d, %v; want %d", gone, target.ID, err, there)
		}
	})
}

// A member that was tried comes after those that were not.
func TestHeirByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n := e.members[lead].node
		e.wait("both others to be reached", func() bool { return slices.Equal(n.reachability.VotersRepliedWithin(n.electionTimeout), others(lead)) })
		for i, tried := range others(lead) {
			if target, err := n.transfer.nextTarget(map[uint32]int{tried: 1}, 0); err != nil || target.ID != others(lead)[1-i] {
				t.Errorf("after member %d comes %d: %v", tried, target.ID, err)
			}
		}
		for _, id := range others(lead) {
			e.net.partition(lead, id)
		}
		time.Sleep(n.electionTimeout + time.Millisecond)
		if target, err := n.transfer.nextTarget(nil, 0); !errors.Is(err, errNoTransferTarget) {
			t.Errorf("target %d, whom nobody reaches: %v", target.ID, err)
		}
	})
}

// If no member replies, or if all of them reject the hand-over, a leader tries until its time ends and returns the
// reason. It accepts entries meanwhile.
func TestHandOverToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n := e.members[lead].node
		for _, id := range others(lead) {
			e.members[id].node.transfer.DeclineIncoming()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*n.electionTimeout)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- n.transfer.ToAny(ctx) }()
		taken := 0
		for range 20 {
			if n.Propose([]byte("b"), nil).Error() == nil {
				taken++
			}
			time.Sleep(n.electionTimeout)
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), "takes no leadership from others") || ctx.Err() == nil {
			t.Errorf("handed over to members that decline: %v", err)
		}
		if taken < 18 || !n.status.IsLeader() {
			t.Errorf("%d of 20 entries taken, leads: %t", taken, n.status.IsLeader())
		}
	})
}

// A leader takes entries between two tries for at least as long as the first one took.
func TestPauseAfterTransfer(t *testing.T) {
	const election = time.Second
	longest := 2 * leaseTimeout(election) // raft gives up by then
	transfer := &Transfer{electionTimeout: election}
	for _, row := range []struct {
		took     time.Duration
		before   int
		rejected bool
		want     time.Duration
	}{
		{0, 0, true, election / 10},
		{0, 1, true, election / 5},
		{election / 2, 0, true, election / 2}, // it was a connection that timed out
		{election / 2, 3, true, election * 8 / 10},
		{0, 100, true, longest},
		{4 * election, 0, true, longest},
		{0, 0, false, longest},
	} {
		if got := transfer.pauseAfter(row.took, row.before, row.rejected); got != row.want {
			t.Errorf("after %v, with %d tries before, rejected %t: %v, want %v", row.took, row.before, row.rejected, got, row.want)
		}
	}
}

// A hand-over continues if a member other than its target rejects it: the rejection may belong to an earlier hand-over,
// and be late.
func TestRefusalOfAnotherMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		lead := e.leader(1, 2, 3)
		n, to, other := e.members[lead].node, others(lead)[0], others(lead)[1]
		e.net.partition(lead, to) // the hand-over waits
		done := make(chan error, 1)
		go func() { done <- n.transfer.ToMember(t.Context(), to) }()
		synctest.Wait()
		n.transfer.lastRejection.Store(&leadershipRejection{other, errDeclining})
		time.Sleep(2 * transferPoll)
		synctest.Wait()
		if len(done) != 0 {
			t.Fatalf("the refusal of member %d ends the hand-over to %d: %v", other, to, <-done)
		}
		n.transfer.lastRejection.Store(&leadershipRejection{to, errDeclining})
		time.Sleep(2 * transferPoll)
		synctest.Wait()
		if len(done) != 1 {
			t.Error("the refusal of the member itself does not end the hand-over")
		}
		if err := <-done; err == nil || !strings.Contains(err.Error(), errDeclining.Error()) {
			t.Errorf("handed over: %v", err)
		}
	})
}

// slowReader takes its time to read a snapshot.
type slowReader struct {
	StateMachine
	takes time.Duration
}

func (s slowReader) Verify(r io.Reader) (disk.SnapshotContents, error) {
	time.Sleep(s.takes) // in the bubble of its test
	return s.StateMachine.Verify(r)
}

// A member to which a snapshot is being sent replies to raft. It is not a target of a hand-over before it has caught up:
// raft would wait for its replication, and accept no entries until the snapshot is installed.
func TestHandOverWaitsForACaughtUpMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.compact()
		e.begin()
		late := others(e.leader(1, 2, 3))[0]
		e.outdate(late, 100)
		lead := e.leader(others(late)...)
		other := others(late)[0] + others(late)[1] - lead
		n := e.members[lead].node
		const busy = 2 * time.Second // raft's leader sends it again after three
		e.members[late].adjust = func(c *Config) { c.StateMachine = slowReader{c.StateMachine, busy} }
		e.start(late)
		e.members[other].node.transfer.DeclineIncoming()
		e.wait("both others to be reached", func() bool { return slices.Equal(n.reachability.VotersRepliedWithin(n.electionTimeout), others(lead)) })
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*busy)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- n.transfer.ToAny(ctx) }()
		taken, rounds := 0, 0
		for ; time.Since(begin) < busy*3/4; rounds++ {
			if n.Propose([]byte("b"), nil).Error() == nil {
				taken++
			}
			time.Sleep(n.electionTimeout / 4)
		}
		if taken < rounds*9/10 || !n.status.IsLeader() {
			t.Errorf("%d of %d entries taken during the snapshot, leads: %t", taken, rounds, n.status.IsLeader())
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := e.leader(lead, late); got != late {
			t.Errorf("member %d leads, want %d, which has caught up", got, late)
		}
	})
}

// Every change of leadership is reported, however late it is read.
func TestLeadershipLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		const rounds = 12
		gains := map[uint32]int{}
		for i := range rounds {
			e.propose(fmt.Sprint(i), 1, 2, 3)
			id := e.leader(1, 2, 3)
			gains[id]++
			e.wait("hand-over", func() bool {
				e.handOver(id)
				return !e.members[id].node.status.IsLeader()
			})
		}
		last := e.leader(1, 2, 3)
		gains[last]++
		told := 0
		for _, id := range []uint32{1, 2, 3} {
			node := e.members[id].node
			e.stop(id)
			want := true
			for got := range node.LeadershipChanges() {
				if got != want {
					t.Errorf("member %d: told %t twice", id, got)
				}
				if want = !got; got {
					told++
				}
			}
			if !want {
				t.Errorf("member %d: the last loss was not told", id)
			}
		}
		if told < rounds+1 {
			t.Errorf("told %d gains, want at least %d", told, rounds+1)
		}
	})
}

// A state machine that fails ends the member, and applies nothing more.
func TestMachineErrorStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.start(1)
		e.propose("a", 1)
		m := e.members[1]
		m.machine.mu.Lock()
		m.machine.refuse = "b"
		m.machine.mu.Unlock()
		n := m.node
		if err := n.Propose([]byte("b"), nil).Error(); err == nil {
			t.Error("the refused entry was reported as applied")
		}
		last := n.status.LastIndex()
		err := e.awaitEnd(1)
		if err == nil || err.Error() != `machine refuses "b"` {
			t.Errorf("Run: %v, want the machine's error", err)
		}
		// raft has ended, and would have forgotten another entry that it was about to pass on, or would have passed it on.
		if got := n.fsm.ApplyBatch([]*raft.Log{{Index: last + 1, Term: 1, Data: []byte("c")}}); len(got) != 1 ||
			got[0] != any(errStateMachineFailed) {
			t.Errorf("the entry after it was answered with %v", got)
		}
		if err := n.Propose([]byte("d"), nil).Error(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("an entry after the end: %v", err)
		}
		if got := m.machine.commands(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("applied %q after the error", got)
		}
	})
}

var (
	errDisk = errors.New("input/output error")
	errFull = errors.New("no space left on device")
)

// brokenLog fails every write from a certain moment on. A write takes a moment to fail: until then raft has done all
// that it does without the disk.
type brokenLog struct {
	*raft.InmemStore
	broken atomic.Bool
}

func (b *brokenLog) StoreLogs(logs []*raft.Log) error {
	if b.broken.Load() {
		time.Sleep(time.Millisecond) // in the bubble of its test: raft forgets an entry that it is about to pass to the machine
		return errDisk
	}
	return b.InmemStore.StoreLogs(logs)
}

// A disk that fails once ends the member, whether it leads or follows. The others continue.
func TestStoreErrorStops(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"leader", "follower"} {
		t.Run(role, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				logs := map[uint32]*brokenLog{}
				for id, m := range e.members {
					logs[id] = &brokenLog{InmemStore: m.stores.Log.(*raft.InmemStore)}
					m.stores.Log = logs[id]
				}
				e.begin()
				lead := e.leader(1, 2, 3)
				victim := lead
				if role == "follower" {
					victim = others(lead)[0]
				}
				logs[victim].broken.Store(true)
				e.members[lead].node.Propose([]byte("b"), nil)
				if err := e.awaitEnd(victim); !errors.Is(err, errDisk) {
					t.Errorf("Run: %v, want the disk's error", err)
				}
				e.propose("c", others(victim)...)
			})
		})
	}
}

// failingStable fails when the term, or a vote, is written.
type failingStable struct {
	raft.StableStore
	termFails, voteFails atomic.Bool
}

func (f *failingStable) SetUint64(k []byte, v uint64) error {
	if f.termFails.Load() {
		return errFull
	}
	return f.StableStore.SetUint64(k, v)
}

func (f *failingStable) Set(k, v []byte) error {
	if f.voteFails.Load() && string(k) == "RollcallVote" {
		return errFull
	}
	return f.StableStore.Set(k, v)
}

// raft panics when it cannot store its term, and continues when it cannot store its vote. The member returns an error
// instead in both cases.
func TestTermOrVoteErrorStops(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(f *failingStable){
		"term": func(f *failingStable) { f.termFails.Store(true) },
		"vote": func(f *failingStable) { f.voteFails.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 3)
				stable := &failingStable{StableStore: e.members[1].stores.Stable}
				e.members[1].stores.Stable = stable
				e.begin()
				fail(stable)
				e.wait("an election that reaches member 1", func() bool {
					if lead := e.leaderNow(); lead != 0 {
						e.handOver(lead)
					}
					select {
					case <-e.members[1].done:
						return true
					default:
						return false
					}
				})
				if err := e.awaitEnd(1); !errors.Is(err, errFull) {
					t.Errorf("Run: %v, want the disk's error", err)
				}
			})
		})
	}
}

func (e *ensemble) leaderNow() uint32 {
	for id, m := range e.members {
		if m.node != nil && m.node.status.IsLeader() {
			return id
		}
	}
	return 0
}

// If raft rejects all entries of a leader for two election timeouts, the leader ends.
func TestRefusingLeaderStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.start(1)
		e.propose("a", 1)
		n := e.members[1].node
		election := leaseTimeout(n.electionTimeout) // raft's
		n.proposer.endIfTransferStuck(raft.ErrLeadershipTransferInProgress)
		time.Sleep(3 * election)
		n.proposer.endIfTransferStuck(nil) // it took one meanwhile
		n.proposer.endIfTransferStuck(raft.ErrLeadershipTransferInProgress)
		time.Sleep(election)
		n.proposer.endIfTransferStuck(raft.ErrLeadershipTransferInProgress)
		if err := n.failure.endError(); err != nil {
			t.Fatalf("ended after one election timeout: %v", err)
		}
		time.Sleep(election + time.Millisecond)
		n.proposer.endIfTransferStuck(raft.ErrLeadershipTransferInProgress)
		if err := e.awaitEnd(1); !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestProposeOutsideRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.start(1) // waits for the others
		n := e.members[1].node
		if err := n.Propose(nil, nil).Error(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("before raft runs: %v", err)
		}
		if n.status.Term() != 0 || n.status.LastIndex() != 0 || n.status.CommitIndex() != 0 || n.status.LeaderID() != 0 ||
			n.status.IsLeader() || n.HasData() {
			t.Error("a member that has not begun knows something")
		}
		e.stop(1)
		if err := n.Propose(nil, nil).Error(); !errors.Is(err, ErrNotRunning) {
			t.Errorf("after Run: %v", err)
		}
		if err := n.Run(context.Background()); err == nil {
			t.Error("a second Run succeeded")
		}
	})
}

// An entry that no log would take does not reach another member.
func TestProposeTooLong(t *testing.T) {
	t.Parallel()
	if p := newProposer(new(Status), time.Second, nil).propose(make([]byte, disk.MaxEntryBytes+1), nil); !errors.Is(p.Error(), disk.ErrEntryTooLong) {
		t.Errorf("Propose: %v", p.Error())
	}
}

// If raft hangs in apply and has no outcome for an entry when Run ends, the entry gets its outcome
// then. A later outcome changes nothing.
func TestRunEndsProposals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		var m *stallMachine
		e.members[1].adjust = func(c *Config) {
			m = &stallMachine{StateMachine: c.StateMachine}
			c.StateMachine = m
		}
		e.start(1)
		e.propose("a", 1)
		n := e.members[1].node
		m.until.Store(time.Now().Add(time.Minute).UnixNano())
		p := n.Propose([]byte("hangs"), nil)
		synctest.Wait() // the machine hangs; an entry that raft has not passed to it would never get an outcome
		n.failure.endMember(errKilled)
		if err := e.awaitEnd(1); !errors.Is(err, errKilled) || !errors.Is(err, ErrNotEnded) {
			t.Errorf("Run: %v, want it killed while raft hangs", err)
		}
		time.Sleep(2 * time.Minute) // the machine has woken
		for i, p := range []*Proposal{p, n.Propose([]byte("late"), nil)} {
			select {
			case <-p.Done():
			default:
				t.Fatalf("entry %d is still under way", i)
			}
			if err := p.Error(); !errors.Is(err, ErrNotRunning) || p.Index() != 0 {
				t.Errorf("entry %d: %v, index %d", i, err, p.Index())
			}
		}
		n.proposer.pendingCount.Wait()
	})
}
