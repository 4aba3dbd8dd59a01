package quorum

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// lastOf returns the index of the last entry on a disk.
func lastOf(t *testing.T, log raft.LogStore) uint64 {
	t.Helper()
	last, err := log.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// Any majority of disks commits an entry. While the disks of the others hang, all members apply it, also those whose own disk
// hangs: at once, or when a follower's acknowledgement is late. Without a majority, no member applies the entry and no commit index
// includes it, although raft may take it for committed.
func TestAnyMajorityOfDisksCommits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		members   int
		leader    bool // its disk hangs
		followers int  // so many others' disks hang
		enough    bool // those that are left are a majority
	}{
		{3, false, 0, true},
		{3, true, 0, true},
		{3, false, 1, true},
		{3, true, 1, false},
		{3, false, 2, false},
		{5, true, 1, true},
		{5, false, 2, true},
		{5, true, 2, false},
		{5, false, 3, false},
	} {
		t.Run(fmt.Sprintf("%d members, leader %t, others %d", tt.members, tt.leader, tt.followers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, logs, _ := stallsOf(t, tt.members, func(*Config) {})
				ids := e.ids()
				lead := e.leader(ids...)
				time.Sleep(time.Second) // all followers have a pipeline
				const slow = time.Second
				var hang []uint32
				if tt.leader {
					hang = append(hang, lead)
				}
				hang = append(hang, slices.DeleteFunc(slices.Clone(ids), func(id uint32) bool { return id == lead })[:tt.followers]...)
				for _, id := range hang {
					logs[id].stall(slow)
				}
				begun := time.Now()
				p := e.members[lead].node.Propose([]byte("b"), nil)
				time.Sleep(slow - time.Millisecond)
				index := e.members[lead].node.status.LastIndex()
				for _, id := range hang {
					if lastOf(t, logs[id]) >= index {
						t.Fatalf("entry %d is on the disk of member %d: this test shows nothing", index, id)
					}
				}
				if settled := e.members[lead].node.status.SettledIndex(); tt.leader && (settled == index) != tt.enough {
					t.Errorf("up to %d is settled on the leader; the entry is %d", settled, index)
				}
				for id, m := range e.members {
					got, has := m.node.status.CommitIndex(), slices.Contains(m.machine.commands(), "b")
					if knows := got >= index; knows != tt.enough || has != tt.enough {
						t.Errorf("member %d knows of commit %d and has applied %v; the entry is %d", id, got, m.machine.commands(), index)
					}
				}
				if err := p.Error(); err != nil {
					t.Error(err)
				}
				e.awaitApplied([]string{"a", "b"}, ids...)
				least, most := time.Duration(0), 2*time.Millisecond // slowAck of quorum/wire
				if !tt.enough {
					least, most = slow, slow
				}
				for id, m := range e.members {
					if took := m.machine.appliedAt("b").Sub(begun); took < least || took > most {
						t.Errorf("member %d applied the entry after %v", id, took)
					}
				}
				if e.leader(ids...) != lead {
					t.Error("another one leads")
				}
			})
		})
	}
}

// A member whose disk hangs for long keeps up with the others, as leader and as follower: it applies what a majority has
// stored and takes part in the next writes, and no other member stands for election.
func TestDiskAwayDisturbsNobody(t *testing.T) {
	t.Parallel()
	for _, leads := range []bool{true, false} {
		t.Run(fmt.Sprintf("leader %t", leads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, logs, _ := stalls(t, func(*Config) {})
				lead := e.leader(1, 2, 3)
				time.Sleep(time.Second)
				term, away := e.members[lead].node.status.Term(), lead
				if !leads {
					away = others(lead)[0]
				}
				const long = 20 * time.Second // several times the stall limit
				logs[away].stall(long)
				all := []string{"a"}
				for i := range 36 {
					all = append(all, fmt.Sprint(i))
					begun := time.Now()
					e.propose(all[len(all)-1], lead)
					e.awaitApplied(all, 1, 2, 3)
					for id, m := range e.members {
						most := 20 * time.Millisecond
						if id == away { // the leader's word may pass the entry there: then raft's next one, after at most twice CommitTimeout
							most = 120 * time.Millisecond
						}
						if took := m.machine.appliedAt(all[len(all)-1]).Sub(begun); took > most {
							t.Errorf("write %d took %v at member %d, want at most %v", i, took, id, most)
						}
					}
					time.Sleep(500 * time.Millisecond)
				}
				n := e.members[away].node
				if err := n.StallError(); err != nil {
					t.Errorf("it counts as stalled: %v", err)
				}
				if d := n.Disk().Delay(); d.Write < 18*time.Second-20*time.Millisecond || lastOf(t, logs[away]) >= n.status.LastIndex() {
					t.Errorf("its disk is late by %v: this test shows nothing", d.Write)
				}
				time.Sleep(long)
				if d := n.Disk().Delay(); d.Write != 0 || lastOf(t, logs[away]) != n.status.LastIndex() {
					t.Errorf("its disk is back, and late by %v", d.Write)
				}
				if e.leader(1, 2, 3) != lead || e.members[lead].node.status.Term() != term {
					t.Error("another term: the leader was not to be disturbed")
				}
			})
		})
	}
}

// A snapshot is written when the log is on the disk up to the snapshot's last entry, although the state machine may have applied it
// before: a start would take the log for one that has lost its end.
func TestSnapshotWaitsForTheLog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logs, _ := stalls(t, func(c *Config) { c.SnapshotEvery, c.TrailingBytes = 20, 1 })
		lead := e.leader(1, 2, 3)
		late := others(lead)[0]
		time.Sleep(time.Second)
		newest := func() uint64 {
			if s := e.members[late].node.fsm.lastSnapshot.Load(); s != nil {
				return s.Index
			}
			return 0
		}
		const long = 60 * time.Second
		logs[late].stall(long)
		for i := range 60 {
			e.propose(fmt.Sprint(i), lead)
		}
		time.Sleep(long - time.Second) // raft checks every 10 to 20 s whether a snapshot is due
		if applied, durable := e.members[late].node.status.AppliedIndex(), lastOf(t, logs[late]); applied < durable+60 {
			t.Fatalf("applied up to %d, and %d is on the disk: this test shows nothing", applied, durable)
		}
		if index, durable := newest(), lastOf(t, logs[late]); index > durable {
			t.Errorf("a snapshot of index %d is written, and the log on the disk ends at %d", index, durable)
		}
		e.wait("a snapshot when the log is on the disk", func() bool { return newest() > 60 })
	})
}
