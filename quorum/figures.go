package quorum

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/tally"
)

// Stats are counted since Open or ResetStats.
type Stats struct {
	Writes     tally.Summary // writing entries to the log's store, until they are on disk
	SlowWrites uint64        // those of a second and more
	Snapshots  tally.Summary // from copying the state until it is on disk
	Elections  tally.Summary // from when this member knew of no leader until it knew one
	Stands     uint64        // how often this member stood for election
}

// Stats returns them. It waits for nothing.
func (n *Node) Stats() Stats {
	f := &n.figures
	writes, slow := n.disk.Writes()
	return Stats{
		Writes: writes, SlowWrites: slow, Snapshots: f.snapshot.Summary(),
		Elections: f.election.Summary(), Stands: f.stands.Load(),
	}
}

// ResetStats sets the counters to zero.
func (n *Node) ResetStats() {
	f := &n.figures
	n.disk.ResetWrites()
	f.snapshot.Reset()
	f.election.Reset()
	f.stands.Store(0)
}

// figures is what Stats is read from. Safe for concurrent use.
type figures struct {
	snapshot, election tally.Durations
	stands             atomic.Uint64
	leaderless         atomic.Pointer[time.Time] // since when; nil: there is a leader
}

// watch hears of raft's elections. It is told by the goroutines in which they happen, and
// only counts.
func (f *figures) watch(r *raft.Raft) {
	now := time.Now()
	f.leaderless.Store(&now)
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch seen := o.Data.(type) {
		case raft.LeaderObservation:
			f.led(seen.LeaderID != "", time.Now())
		case raft.RaftState:
			if seen == raft.Candidate {
				f.stands.Add(1)
			}
		}
		return false
	}))
	if _, id := r.LeaderWithID(); id != "" { // it was found before anybody watched
		f.led(true, time.Now())
	}
}

func (f *figures) led(led bool, now time.Time) {
	if !led {
		f.leaderless.CompareAndSwap(nil, &now)
		return
	}
	if since := f.leaderless.Swap(nil); since != nil {
		f.election.Add(now.Sub(*since))
	}
}

// DiskUsage returns how many bytes the files of the log take, and all others of this member;
// 0 if the stores are not files. It reads the folders, which hold a few files.
func (n *Node) DiskUsage() (data, log int64, err error) { return n.disk.Usage() }
