package quorum

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"rollcall/internal/metrics"
	"rollcall/internal/stages"
	"rollcall/quorum/disk"
)

// Stats are the metrics counted since Open or Metrics.Reset.
type Stats struct {
	LogWrites     metrics.Summary // time to write entries to the log store, until they are on disk
	SlowLogWrites uint64          // writes that took a second or more
	Snapshots     metrics.Summary // time from copying the state until the snapshot is on disk
	Elections     metrics.Summary // time from when this member knew of no leader until it knew one
	Candidacies   uint64          // elections in which this member was a candidate

	// Counted since Open; Metrics.Reset does not set these to zero.

	LogWriteBuckets, ElectionBuckets metrics.Buckets // as LogWrites and Elections
	EntrySizeBuckets                 metrics.Buckets // bytes of the entries written to the log, except raft's own
}

// Metrics counts the values of Stats. It is safe for concurrent use.
type Metrics struct {
	diskData                             *disk.Data // counts the writes
	stages                               *stages.Recorder
	snapshotDurations, electionDurations metrics.Durations
	candidacies                          atomic.Uint64
	leaderlessSince                      atomic.Pointer[time.Time] // nil: there is a leader
}

// Stats returns the present values without waiting.
func (m *Metrics) Stats() Stats {
	writes, slow := m.diskData.WriteDurations()
	times, sizes := m.diskData.WriteBuckets()
	return Stats{
		LogWriteBuckets: times, EntrySizeBuckets: sizes, ElectionBuckets: m.electionDurations.Buckets(),
		LogWrites: writes, SlowLogWrites: slow, Snapshots: m.snapshotDurations.Summary(),
		Elections: m.electionDurations.Summary(), Candidacies: m.candidacies.Load(),
	}
}

// Reset sets the counters to zero, except those that Stats counts since Open.
func (m *Metrics) Reset() {
	m.diskData.ResetWriteDurations()
	m.snapshotDurations.ResetSummary()
	m.electionDurations.ResetSummary()
	m.candidacies.Store(0)
}

// maxSilence is the number of heartbeat timeouts after which a follower has noticed that its leader is silent: raft's own timer
// fires within twice longestSilence, and silenceWatch before.
const maxSilence = 12

// observeElections counts raft's elections. raft calls its observer in the goroutines that hold them, so the
// observer only counts.
func (m *Metrics) observeElections(r *raft.Raft, electionTimeout time.Duration) {
	now := time.Now()
	m.leaderlessSince.Store(&now)
	r.RegisterObserver(raft.NewObserver(nil, false, func(o *raft.Observation) bool {
		switch seen := o.Data.(type) {
		case raft.LeaderObservation:
			m.recordLeaderKnown(seen.LeaderID != "", time.Now())
			if seen.LeaderID == "" {
				m.stages.LeaderLost(r.LastContact(), maxSilence*electionTimeout)
			}
		case raft.RaftState:
			if seen == raft.Candidate {
				m.candidacies.Add(1)
			}
		}
		return false
	}))
	if _, id := r.LeaderWithID(); id != "" { // a leader was found before the observer was registered
		m.recordLeaderKnown(true, time.Now())
	}
}

func (m *Metrics) recordLeaderKnown(led bool, now time.Time) {
	if !led {
		m.leaderlessSince.CompareAndSwap(nil, &now)
		return
	}
	m.stages.EndCause(stages.NoLeader)
	if since := m.leaderlessSince.Swap(nil); since != nil {
		m.electionDurations.Add(now.Sub(*since))
	}
}

// Native returns the metrics of the log and of raft that only Prometheus gets.
func (m *Metrics) Native() []metrics.Native {
	return []metrics.Native{
		metrics.Histogram("rollcall_fsync_seconds",
			"a write of the log, until it is on disk",
			func() metrics.Buckets { took, _ := m.diskData.WriteBuckets(); return took }),
		metrics.Histogram("rollcall_entry_bytes",
			"an entry that was written to the log",
			func() metrics.Buckets { _, sizes := m.diskData.WriteBuckets(); return sizes }),
		metrics.Histogram("rollcall_election_seconds",
			"from when this member knew of no leader until it knew the next one", m.electionDurations.Buckets),
	}
}
