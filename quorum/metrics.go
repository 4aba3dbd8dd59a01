package quorum

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/metrics"
	"rollcall/quorum/disk"
)

// Stats are the metrics counted since Open or Metrics.Reset, except where they say otherwise.
type Stats struct {
	Writes     metrics.Summary // time to write entries to the log store, until they are on disk
	SlowWrites uint64          // writes that took a second or more
	Snapshots  metrics.Summary // time from copying the state until the snapshot is on disk
	Elections  metrics.Summary // time from when this member knew of no leader until it knew one
	Stands     uint64          // how often this member was a candidate

	// What follows is counted since Open, and Metrics.Reset does not set it to zero.

	WriteTimes, ElectionTimes metrics.Buckets // as Writes and Elections
	EntrySizes                metrics.Buckets // bytes of the entries written to the log, except raft's own
}

// Metrics counts what Stats has. It is safe for concurrent use.
type Metrics struct {
	disk               *disk.Data // counts the writes
	snapshot, election metrics.Durations
	stands             atomic.Uint64
	leaderless         atomic.Pointer[time.Time] // since when there has been no leader; nil: there is one
}

// Stats returns the present values without waiting.
func (m *Metrics) Stats() Stats {
	writes, slow := m.disk.Writes()
	times, sizes := m.disk.WriteBuckets()
	return Stats{
		WriteTimes: times, EntrySizes: sizes, ElectionTimes: m.election.Buckets(),
		Writes: writes, SlowWrites: slow, Snapshots: m.snapshot.Summary(),
		Elections: m.election.Summary(), Stands: m.stands.Load(),
	}
}

// Reset sets the counters to zero, except those that Stats says are counted since Open.
func (m *Metrics) Reset() {
	m.disk.ResetWrites()
	m.snapshot.Reset()
	m.election.Reset()
	m.stands.Store(0)
}

// observe counts raft's elections. raft calls its observer in the goroutines that hold them, so the
// observer only counts.
func (m *Metrics) observe(r *raft.Raft) {
	now := time.Now()
	m.leaderless.Store(&now)
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch seen := o.Data.(type) {
		case raft.LeaderObservation:
			m.leaderSeen(seen.LeaderID != "", time.Now())
		case raft.RaftState:
			if seen == raft.Candidate {
				m.stands.Add(1)
			}
		}
		return false
	}))
	if _, id := r.LeaderWithID(); id != "" { // a leader was found before the observer was registered
		m.leaderSeen(true, time.Now())
	}
}

func (m *Metrics) leaderSeen(led bool, now time.Time) {
	if !led {
		m.leaderless.CompareAndSwap(nil, &now)
		return
	}
	if since := m.leaderless.Swap(nil); since != nil {
		m.election.Add(now.Sub(*since))
	}
}

// Native returns the metrics of the log and of raft that only Prometheus gets.
func (m *Metrics) Native() []metrics.Native {
	return []metrics.Native{
		metrics.Histogram("rollcall_fsync_seconds",
			"a write of the log, until it is on disk",
			func() metrics.Buckets { took, _ := m.disk.WriteBuckets(); return took }),
		metrics.Histogram("rollcall_entry_bytes",
			"an entry that was written to the log, which holds one or many transactions",
			func() metrics.Buckets { _, sizes := m.disk.WriteBuckets(); return sizes }),
		metrics.Histogram("rollcall_election_seconds",
			"from when this member knew of no leader until it knew the next one", m.election.Buckets),
	}
}
