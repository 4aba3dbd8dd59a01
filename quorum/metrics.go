package quorum

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/metrics"
)

// Stats are the metrics counted since Open or ResetStats, except where they say otherwise.
type Stats struct {
	Writes     metrics.Summary // time to write entries to the log store, until they are on disk
	SlowWrites uint64          // writes that took a second or more
	Snapshots  metrics.Summary // time from copying the state until the snapshot is on disk
	Elections  metrics.Summary // time from when this member knew of no leader until it knew one
	Stands     uint64          // how often this member was a candidate

	// What follows is counted since Open, and ResetStats does not set it to zero.

	WriteTimes, ElectionTimes metrics.Buckets // as Writes and Elections
	EntrySizes                metrics.Buckets // bytes of the entries written to the log, except raft's own
}

// Stats returns the present values without waiting.
func (n *Node) Stats() Stats {
	f := &n.metrics
	writes, slow := n.disk.Writes()
	times, sizes := n.disk.WriteBuckets()
	return Stats{
		WriteTimes: times, EntrySizes: sizes, ElectionTimes: f.election.Buckets(),
		Writes: writes, SlowWrites: slow, Snapshots: f.snapshot.Summary(),
		Elections: f.election.Summary(), Stands: f.stands.Load(),
	}
}

// ResetStats sets the counters to zero, except those that Stats says are counted since Open.
func (n *Node) ResetStats() {
	f := &n.metrics
	n.disk.ResetWrites()
	f.snapshot.Reset()
	f.election.Reset()
	f.stands.Store(0)
}

// raftMetrics is the data behind Stats. It is safe for concurrent use.
type raftMetrics struct {
	snapshot, election metrics.Durations
	stands             atomic.Uint64
	leaderless         atomic.Pointer[time.Time] // since when there has been no leader; nil: there is one
}

// observe counts raft's elections. raft calls its observer in the goroutines that hold them, so the
// observer only counts.
func (f *raftMetrics) observe(r *raft.Raft) {
	now := time.Now()
	f.leaderless.Store(&now)
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch seen := o.Data.(type) {
		case raft.LeaderObservation:
			f.leaderSeen(seen.LeaderID != "", time.Now())
		case raft.RaftState:
			if seen == raft.Candidate {
				f.stands.Add(1)
			}
		}
		return false
	}))
	if _, id := r.LeaderWithID(); id != "" { // a leader was found before the observer was registered
		f.leaderSeen(true, time.Now())
	}
}

func (f *raftMetrics) leaderSeen(led bool, now time.Time) {
	if !led {
		f.leaderless.CompareAndSwap(nil, &now)
		return
	}
	if since := f.leaderless.Swap(nil); since != nil {
		f.election.Add(now.Sub(*since))
	}
}

// DiskUsage returns how many bytes the files of the log take, and how many all other files of this
// member take. Both are 0 if the stores are not files. It reads the directories, which hold only a few
// files.
func (n *Node) DiskUsage() (data, log int64, err error) { return n.disk.Usage() }

// DiskFree returns how many bytes can still be written where the data are, and where the log is. Both are
// 0 if the stores are not files. It hangs as long as the disk does.
func (n *Node) DiskFree() (data, log int64, err error) { return n.disk.Free() }

// NewestSnapshot returns the index of the newest readable snapshot, and when it was written. The index is
// 0 if there is none. It reads a few files.
func (n *Node) NewestSnapshot() (index uint64, at time.Time, err error) {
	return n.disk.NewestSnapshot()
}
