package quorum

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/quorum/disk"
	"rollcall/quorum/wire"
)

// Two of three members are lost. The survivor continues alone; or, under the same server list, it
// admits the two others, which start with empty directories.
func TestRecover(t *testing.T) {
	t.Parallel()
	for _, compacted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e, all := lost(t, 3, map[bool]int{false: 3, true: 3 * minTrailing}[compacted])

			alone := filepath.Join(t.TempDir(), "alone")
			copyDir(t, e.members[1].dir, alone)
			if err := Recover(RecoverConfig{DataDir: alone, MemberID: 1, Peers: e.peers[:1], StateMachine: &machine{}, SegmentBytes: testSegment}); err != nil {
				t.Fatal(err)
			}
			one := newEnsemble(t, 1)
			one.members[1].dir = alone
			one.start(1)
			one.awaitApplied(all, 1)
			one.propose("on", 1)
			one.awaitApplied(append(all, "on"), 1)
			one.stop(1)

			for range 2 { // it may be repeated
				before := storedTerm(t, e.members[1].dir)
				e.recover(1)
				if after := storedTerm(t, e.members[1].dir); after != before+recoveryTerms {
					t.Errorf("term %d after a recovery in term %d", after, before)
				}
				time.Sleep(time.Second) // snapshots are named after the time
			}
			e.start(1, 2, 3)
			e.propose("on", 1)
			all = append(all, "on")
			e.awaitApplied(all, 1, 2, 3)
			e.complete(1, 2, 3)
			e.propose("and on", 1, 2, 3)
			all = append(all, "and on")
			e.awaitApplied(all, 1, 2, 3)

			for id := range e.members {
				e.stop(id)
			}
			e.start(1, 2, 3) // what they found their way to holds
			e.kill(e.leader(1, 2, 3))
			e.propose("still", e.running()...)
			e.awaitApplied(append(all, "still"), e.running()...)
		})
	}
}

// lost makes an ensemble with data of which only member 1's are left. No member runs.
func lost(t *testing.T, members, writes int) (e *ensemble, all []string) {
	t.Helper()
	e = newEnsemble(t, members)
	if writes > minTrailing {
		e.compact()
	}
	e.members[1].dir = filepath.Join(t.TempDir(), "1")
	e.begin()
	all = e.proposeMany(writes, e.running()...)
	if writes > minTrailing {
		e.wait("a snapshot", func() bool { return e.snapshot(1) })
	}
	for _, id := range e.running() {
		e.stop(id)
		e.wipe(id)
	}
	return e, all
}

func storedTerm(t *testing.T, dir string) uint64 {
	t.Helper()
	d := openStopped(t, dir)
	defer d.Close()
	term, err := d.Stable().Term()
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// recover recovers a member that is stopped, for the list it had.
func (e *ensemble) recover(id uint32) {
	e.t.Helper()
	if err := Recover(RecoverConfig{DataDir: e.members[id].dir, MemberID: id, Peers: e.peers, StateMachine: &machine{}, SegmentBytes: testSegment}); err != nil {
		e.t.Fatal(err)
	}
}

// running returns the members that run.
func (e *ensemble) running() (ids []uint32) {
	for _, id := range slices.Sorted(maps.Keys(e.members)) {
		if e.members[id].node != nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// complete waits until all members vote, and know it.
func (e *ensemble) complete(ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		n := e.members[id].node
		e.wait(fmt.Sprintf("member %d to know of %d voters", id, len(e.peers)), func() bool {
			r := n.status.raft.Load()
			return r != nil && len(voterServers(r)) == len(e.peers) && n.status.isVoter()
		})
	}
}

// votes waits until members are voters and know it.
func (e *ensemble) votes(ids ...uint32) {
	e.t.Helper()
	for _, id := range ids {
		n := e.members[id].node
		e.wait(fmt.Sprintf("member %d to be a voter", id), func() bool {
			return n.status.isVoter() && !n.IsJoining()
		})
	}
}

// Recovery continues where it stopped, whichever members are killed on the way and however often, all of them at once
// included, even with a slow log. No entry that was committed since is lost. With -short, one of four seeds runs for
// each number of members, and both kinds of log occur.
func TestRecoverWithKills(t *testing.T) {
	t.Parallel()
	for _, members := range []int{2, 3, 4, 5} {
		for seed := range uint64(4) {
			if testing.Short() && seed != uint64(members%4) {
				continue
			}
			t.Run(fmt.Sprintf("%d members, seed %d", members, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { recoverWithKills(t, members, seed) })
			})
		}
	}
}

func recoverWithKills(t *testing.T, members int, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	e, all := lost(t, members, 20)
	e.recover(1)
	for id := uint32(2); id <= uint32(members); id++ {
		mem := raft.NewInmemStore()
		e.members[id].stores = disk.Stores{Log: &slowLog{mem, 5 * time.Millisecond}, Stable: mem, Snapshots: raft.NewInmemSnapshotStore()}
	}
	e.start(e.ids()...)
	for i := range 20 {
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
		if lead := e.leaderNow(); lead != 0 && i%2 == 0 {
			w := fmt.Sprint("n", i)
			if p := e.members[lead].node.Propose([]byte(w), nil); e.outcome(p) == nil {
				all = append(all, w)
			}
		}
		victim := e.ids()[rng.IntN(members)]
		if i%5 == 4 { // a power failure of all members, one of which comes back later
			for _, id := range e.membersExcept(victim) {
				e.kill(id)
			}
			e.kill(victim)
			e.start(e.membersExcept(victim)...)
		} else {
			e.kill(victim)
		}
		if rng.IntN(2) == 0 {
			time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		e.start(victim)
	}
	e.complete(e.ids()...)
	e.propose("end", e.ids()...)
	e.wait("all to have applied the same", func() bool {
		first := e.members[1].machine.commands()
		return first[len(first)-1] == "end" && !slices.ContainsFunc(e.ids(), func(id uint32) bool {
			return !slices.Equal(e.members[id].machine.commands(), first)
		})
	})
	there := e.members[1].machine.commands()
	for _, w := range all {
		if !slices.Contains(there, w) {
			t.Errorf("%q was committed and is lost", w)
		}
	}
}

// outcome waits for p for a while: a leader that cannot commit has none.
func (e *ensemble) outcome(p *Proposal) error {
	select {
	case <-p.Done():
		return p.Error()
	case <-time.After(time.Second):
		return errors.New("unknown")
	}
}

func (e *ensemble) ids() []uint32 { return slices.Sorted(maps.Keys(e.members)) }

// No member is made a voter until the members without data could join through the voters: of five,
// the survivor and two more. A member that was caught up, and then lost its disk, starts again.
func TestRecoverFiveByAndBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, all := lost(t, 5, 5)
		for _, m := range e.members {
			m.adjust = func(c *Config) { c.WantedServers = func() ([]wire.Peer, bool) { return nil, false } } // no list of the new ensemble
		}
		e.recover(1)
		e.start(1, 2)
		e.propose("x", 1)
		e.awaitApplied(append(slices.Clone(all), "x"), 2)
		time.Sleep(10 * time.Second)
		if n := e.members[1].node; len(n.status.VoterIDs()) != 1 {
			t.Error("a vote for the first that came")
		}
		e.kill(2)
		e.wipe(2)
		e.start(2)
		e.awaitApplied(append(slices.Clone(all), "x"), 2)
		e.start(3)
		e.votes(2, 3)
		e.start(4)
		e.votes(4)
		e.kill(1)
		e.propose("y", 2, 3, 4)
		e.awaitApplied(append(all, "x", "y"), 2, 3, 4)
		e.start(1, 5)
		e.complete(1, 2, 3, 4, 5)
	})
}

// A recovery begins another ensemble. Members with data of the former one, or of another recovery, do not come in, and get no
// vote from it. They come in once they are emptied.
func TestRecoverWithOldMember(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		root := t.TempDir()
		for _, id := range []uint32{1, 3} {
			e.members[id].dir = filepath.Join(root, string(rune('0'+id)))
		}
		e.begin()
		all := e.proposeMany(3, 1, 2, 3)
		for _, id := range e.ids() {
			e.stop(id)
		}
		e.recover(1)
		e.recover(3) // one too many
		e.start(1, 2, 3)
		time.Sleep(10 * time.Second)
		for id, m := range e.members {
			if n := m.node; len(n.status.VoterIDs()) != 1 && id != 2 || id == 2 && n.status.IsLeader() {
				t.Errorf("member %d has the voters %v, and leads: %t", id, n.status.VoterIDs(), n.status.IsLeader())
			}
		}
		for _, id := range []uint32{2, 3} {
			e.kill(id)
			e.wipe(id)
			e.members[id].dir = ""
			e.start(id)
		}
		e.complete(1, 2, 3)
		e.propose("x", 1, 2, 3)
		e.awaitApplied(append(all, "x"), 1, 2, 3)
	})
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// A recovery that was killed before the identity was written is noticed, and repeated.
func TestRecoverInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		dir := t.TempDir()
		e.members[1].dir = dir
		e.begin()
		e.stop(1)
		before, err := os.ReadFile(filepath.Join(own(dir), identityName))
		if err != nil {
			t.Fatal(err)
		}
		rec := RecoverConfig{DataDir: dir, MemberID: 1, Peers: e.peers[:1], StateMachine: &machine{}}
		if err := Recover(rec); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(own(dir), identityName), string(before))
		rec.StateMachine = &machine{}
		time.Sleep(time.Second)
		if err := Recover(rec); err != nil {
			t.Fatal(err)
		}
	})
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	peers := []wire.Peer{{ID: 1, Addr: "m1:3888"}}
	empty := t.TempDir()
	if err := Recover(RecoverConfig{DataDir: empty, MemberID: 1, Peers: peers, StateMachine: &machine{}}); !errors.Is(err, disk.ErrNoData) {
		t.Errorf("no directory of ours: %v, want ErrNoData", err)
	}
	if left, _ := os.ReadDir(empty); len(left) > 0 {
		t.Errorf("it left %v in an empty directory", left)
	}
	cfg := directoryConfig(t.TempDir(), 1)
	openAndClose(t, cfg)
	if err := Recover(RecoverConfig{DataDir: cfg.DataDir, MemberID: 1, Peers: peers, StateMachine: &machine{}}); !errors.Is(err, disk.ErrNoData) {
		t.Errorf("no data: %v, want ErrNoData", err)
	}

	dir, cfg := filledDirectory(t)
	refusing := &machine{refuse: "b"}
	if err := Recover(RecoverConfig{DataDir: dir, MemberID: 1, Peers: peers, StateMachine: refusing}); err == nil {
		t.Error("recovered past an entry that the machine refuses")
	}
	dir, cfg = filledDirectory(t)
	alone := []wire.Peer{{ID: 1, Addr: "m1:3888", Observer: true}, {ID: 2, Addr: "m2:3888"}}
	if err := Recover(RecoverConfig{DataDir: dir, MemberID: 1, Peers: alone, StateMachine: &machine{}}); err == nil {
		t.Error("recovered a member that would be an observer alone")
	}
	if err := Recover(RecoverConfig{DataDir: dir, MemberID: 2, Peers: peers, StateMachine: &machine{}}); err == nil {
		t.Error("recovered for a member that is not listed")
	}
}

// The settings that the meter computes.
func TestMeter(t *testing.T) {
	t.Parallel()
	m := newSnapshotTuner(1000, 1<<20, 64<<10)
	m.maxBytes = 1 << 20 // without chance
	var entries, bytes int64
	write := func(seconds int, each, size int64) (threshold, trailing uint64) {
		for range seconds {
			entries, bytes = entries+each, bytes+each*size
			threshold, trailing = m.update(entries, bytes, 0, 1e9)
		}
		return threshold, trailing
	}
	near := func(got, want uint64) bool { return got > want*9/10 && got < want*11/10 }
	if th, tr := write(60, 1, 256); th != 1000 || !near(tr, 64<<10/256) {
		t.Errorf("small and slow: %d, %d", th, tr)
	}
	if _, tr := write(60, 10, 256); !near(tr, 600) {
		t.Errorf("a minute's writing: %d", tr)
	}
	if _, tr := write(60, 10_000, 256); !near(tr, 4*64<<10/256) {
		t.Errorf("fast: %d, want four times the bytes", tr)
	}
	if _, tr := write(60, 1, 1<<20); tr != minTrailing {
		t.Errorf("large entries: %d", tr)
	}
	if th, _ := m.update(entries, bytes, 1<<20, 1e9); th != 1 {
		t.Errorf("bytes enough for a snapshot: threshold %d", th)
	}
}

// Bytes alone trigger a snapshot, and how much log is kept depends on their number.
func TestSnapshotByBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		e.members[1].adjust = func(c *Config) {
			c.SnapshotEvery, c.SnapshotBytes, c.TrailingBytes = 1<<40, 1<<20, 64<<10
		}
		e.start(1)
		e.propose("a", 1)
		n := e.members[1].node
		for range 2000 {
			if err := n.Propose(make([]byte, 1<<10), nil).Error(); err != nil {
				t.Fatal(err)
			}
		}
		e.wait("a snapshot", func() bool { return e.snapshot(1) })
		e.wait("a shorter log", func() bool {
			first, _ := n.disk.Log().FirstIndex()
			last, _ := n.disk.Log().LastIndex()
			return last-first < 4*64+1 // at most four times TrailingBytes
		})
	})
}

// A disk that was marked as one that copies can be recovered and exported if it votes by its newest configuration, in
// its log or in its snapshot: its process ended before it removed the mark. One that does not vote may lack what its
// leader had.
func TestRecoverMarkedDisk(t *testing.T) {
	for name, snapshot := range map[string]bool{"log": false, "snapshot": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEnsemble(t, 2)
				e.peers[1].Observer = true
				for id, m := range e.members {
					m.dir = filepath.Join(t.TempDir(), fmt.Sprint(id))
				}
				e.start(1, 2)
				e.wait("the first one to lead", e.members[1].node.status.IsLeader)
				e.propose("a", 1)
				e.awaitApplied([]string{"a"}, 1, 2)
				e.awaitJoined(2)
				for id, want := range map[uint32]error{1: nil, 2: errNotCaughtUp} {
					n := e.members[id].node
					if snapshot {
						if err := n.status.raft.Load().Snapshot().Error(); err != nil {
							t.Fatal(err)
						}
					}
					if err := n.record.storeCopying(true); err != nil {
						t.Fatal(err)
					}
					e.stop(id)
					time.Sleep(time.Second) // snapshots are named after the time
					if _, err := Replay(ReplayConfig{DataDir: e.members[id].dir, StateMachine: &machine{}, SegmentBytes: testSegment}); !errors.Is(err, want) {
						t.Errorf("replay of member %d: %v, want %v", id, err, want)
					}
					peers := []wire.Peer{{ID: id, Addr: e.peers[id-1].Addr}}
					if err := Recover(RecoverConfig{DataDir: e.members[id].dir, MemberID: id, Peers: peers, StateMachine: &machine{}, SegmentBytes: testSegment}); !errors.Is(err, want) {
						t.Errorf("member %d: %v, want %v", id, err, want)
					}
				}
			})
		})
	}
}
