package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"rollcall/quorum/disk"

	"github.com/hashicorp/raft"
)

const (
	// DefaultSnapshotEvery is ZooKeeper's snapCount. It counts log entries.
	DefaultSnapshotEvery = 100_000
	// DefaultSnapshotBytes is the number of bytes of log between snapshots. Replaying them takes half a minute at
	// worst.
	DefaultSnapshotBytes = 512 << 20
	// DefaultTrailingBytes is the number of bytes of log that are kept before a snapshot. A member that lacks no
	// more than that catches up from the log.
	DefaultTrailingBytes = 64 << 20

	// trailingTime is the time that the log before a snapshot covers, at the present write rate, if that is more
	// than TrailingBytes: the duration of a restart.
	trailingTime = time.Minute
	// maxTrailingFactor limits that log to this many times TrailingBytes.
	maxTrailingFactor = 4
	// minTrailing is the minimum number of entries to keep.
	minTrailing = 128
	// tuneInterval is the interval of the updates.
	tuneInterval = 5 * time.Second
)

// snapshotTuner decides when raft takes a snapshot and how much log it keeps before it. raft only counts
// entries, and an entry holds between one write and 4,096. So the counts are computed from the sizes of this
// member's entries:
//
//	trailing = (TrailingBytes, or a minute's writing up to four times as much) / average size
//
// A snapshot is taken after SnapshotEvery entries or SnapshotBytes, whichever is first. A random factor keeps
// the members from all writing at the same time.
type snapshotTuner struct {
	maxEntries    uint64  // entries between snapshots
	maxBytes      float64 // bytes between snapshots, with this member's random factor
	trailingBytes float64 // bytes kept before a snapshot

	lastEntries, lastBytes int64   // the log's counters at the last update
	averageEntrySize       float64 // average size of an entry, in bytes, with more weight on recent ones
	entriesPerSecond       float64 // entries a second, weighted likewise
}

func newSnapshotTuner(every uint64, bytes, trailing int64) *snapshotTuner {
	return &snapshotTuner{
		maxEntries: every, maxBytes: float64(bytes) * (1 - rand.Float64()/8),
		trailingBytes: float64(trailing), averageEntrySize: 1 << 10,
	}
}

// update takes the log's counters, the time since the last update, and the bytes appended since the last snapshot.
// It returns the settings for raft.
func (m *snapshotTuner) update(entries, bytes, sinceSnapshot int64, elapsed time.Duration) (threshold,
	trailing uint64,
) {
	de, db := float64(entries-m.lastEntries), float64(bytes-m.lastBytes)
	m.lastEntries, m.lastBytes = entries, bytes
	const weight = 0.3
	if de > 0 {
		m.averageEntrySize += weight * (db/de - m.averageEntrySize)
	}
	m.entriesPerSecond += weight * (de/elapsed.Seconds() - m.entriesPerSecond)

	keep := max(m.trailingBytes, min(m.entriesPerSecond*trailingTime.Seconds()*m.averageEntrySize,
		maxTrailingFactor*m.trailingBytes))
	trailing = max(uint64(keep/m.averageEntrySize), minTrailing)
	threshold = m.maxEntries
	if float64(sinceSnapshot) >= m.maxBytes {
		threshold = 1
	}
	return threshold, trailing
}

// run keeps raft's settings up to date until ctx ends.
func (m *snapshotTuner) run(ctx context.Context, settings *raftSettings, d *disk.Data, fail func(error)) {
	ticker := time.NewTicker(tuneInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		entries, bytes, sinceSnapshot := d.AppendTotals()
		threshold, trailing := m.update(entries, bytes, sinceSnapshot, tuneInterval)
		err := settings.change(func(c *raft.ReloadableConfig) { c.SnapshotThreshold, c.TrailingLogs = threshold, trailing })
		if err != nil {
			fail(err) // cannot happen: only counts have changed
			return
		}
	}
}
