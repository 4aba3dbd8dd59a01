package quorum

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// An election is counted for each leader lost, on every member.
func TestElectionFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 3)
		e.begin()
		first := e.leader(1, 2, 3)
		rest := others(first)
		for _, id := range rest {
			e.members[id].node.metrics.Reset()
		}
		e.kill(first)
		e.propose("b", rest...)
		stands := uint64(0)
		for _, id := range rest {
			s := e.members[id].node.metrics.Stats()
			if s.Elections.Count == 0 || s.Elections.Max > 10*e.members[id].node.electionTimeout {
				t.Errorf("member %d: elections %+v", id, s.Elections)
			}
			if s.ElectionBuckets.Count != s.Elections.Count+1 || s.ElectionBuckets.Sum < s.Elections.Sum.Seconds() {
				t.Errorf("member %d: elections since its start %+v, since the reset %+v", id, s.ElectionBuckets, s.Elections)
			}
			stands += s.Candidacies
		}
		if stands == 0 {
			t.Error("a leader was elected without a candidate")
		}
	})
}

// A write of the log is timed, and one that takes a second counts as slow.
func TestWriteFigures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newEnsemble(t, 1)
		log := &stallLog{InmemStore: e.members[1].stores.Log.(*raft.InmemStore)}
		e.members[1].stores.Log = log
		e.members[1].adjust = func(c *Config) { c.SnapshotEvery = 10 }
		e.start(1)
		e.propose("a", 1)
		node := e.members[1].node
		node.metrics.Reset()
		before := node.metrics.Stats()
		log.stall(1500 * time.Millisecond)
		if err := node.Propose([]byte("b"), nil).Error(); err != nil {
			t.Fatal(err)
		}
		if s := node.metrics.Stats(); s.LogWrites.Count != 1 || s.LogWrites.Max != 1500*time.Millisecond || s.SlowLogWrites != 1 {
			t.Errorf("one write of 1.5 s: %+v", s)
		}
		if s := node.metrics.Stats(); s.LogWriteBuckets.Count != before.LogWriteBuckets.Count+1 || s.LogWriteBuckets.Sum != before.LogWriteBuckets.Sum+1.5 ||
			s.EntrySizeBuckets.Count != before.EntrySizeBuckets.Count+1 || s.EntrySizeBuckets.Sum != before.EntrySizeBuckets.Sum+1 {
			t.Errorf("one write of 1.5 s: %+v before, %+v behind it", before, s)
		}
		for range 20 {
			e.propose("c", 1)
		}
		if s := node.metrics.Stats(); s.LogWrites.Count < 21 || s.LogWrites.Max != 1500*time.Millisecond ||
			s.SlowLogWrites != 1 || s.Snapshots.Count != 0 {
			t.Errorf("20 more writes: %+v", s)
		}
		time.Sleep(3 * snapshotInterval)
		if s := node.metrics.Stats(); s.Snapshots.Count == 0 {
			t.Errorf("no snapshot is counted: %+v", s)
		}
		if data, log, err := node.Disk().Usage(); data != 0 || log != 0 || err != nil {
			t.Errorf("files of a member without: %d, %d, %v", data, log, err)
		}
	})
}
