package quorum

import (
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

// A leader replicates an entry while its own disk writes it. Until it is on that disk, no member applies it
// and no commit index includes it, although raft takes it for committed.
func TestLeaderStoresBesides(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, logs, _ := stalls(t, func(*Config) {})
		lead := e.leader(1, 2, 3)
		n := e.members[lead].node
		time.Sleep(time.Second) // both followers have a pipeline
		const slow = time.Second
		logs[lead].stall(slow)
		begun := time.Now()
		p := n.Propose([]byte("b"), nil)
		time.Sleep(slow - time.Millisecond)
		index := n.status.LastIndex()
		if lastOf(t, logs[lead]) >= index || n.status.raft.Load().CommitIndex() != index {
			t.Fatalf("entry %d is on the leader's disk, or raft has not committed it (%d): this test shows nothing", index, n.status.raft.Load().CommitIndex())
		}
		for _, id := range others(lead) {
			if lastOf(t, logs[id]) != index {
				t.Errorf("member %d does not have the entry before the leader's disk has it", id)
			}
		}
		for id, m := range e.members {
			if got := m.node.status.CommitIndex(); got >= index || slices.Contains(m.machine.commands(), "b") {
				t.Errorf("member %d knows of commit %d and has applied %v, before entry %d is on the leader's disk", id, got, m.machine.commands(), index)
			}
		}
		if got := n.status.DurableIndex(); got != index-1 {
			t.Errorf("the leader says that %d is on its disk, before entry %d is", got, index)
		}
		if err := p.Error(); err != nil || time.Since(begun) != slow {
			t.Errorf("after %v: %v; want it when the leader's disk has the entry", time.Since(begun), err)
		}
		e.applied([]string{"a", "b"}, 1, 2, 3)
		for id, m := range e.members {
			if took := m.machine.appliedAt("b").Sub(begun); took != slow || m.node.status.CommitIndex() != index {
				t.Errorf("member %d applied the entry after %v, and knows of commit %d", id, took, m.node.status.CommitIndex())
			}
		}
	})
}
