package quorum

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// DefaultSnapshotEvery is ZooKeeper's snapCount, counted in log entries.
	DefaultSnapshotEvery = 100_000
	// DefaultSnapshotBytes of log between snapshots: half a minute to replay, at worst.
	DefaultSnapshotBytes = 512 << 20
	// DefaultTrailingBytes of log behind a snapshot: a member that comes back within it is
	// caught up from the log.
	DefaultTrailingBytes = 64 << 20

	// trailingTime is how much of the present writing is kept behind a snapshot as well,
	// while it is more than TrailingBytes: the time of a restart.
	trailingTime = time.Minute
	// maxTrailingFactor bounds that to so many TrailingBytes.
	maxTrailingFactor = 4
	// minTrailing entries are kept in any case.
	minTrailing = 128
	// meterInterval is how often the log's growth is looked at.
	meterInterval = 5 * time.Second
)

// meter decides when raft takes a snapshot and how much log it keeps behind it. raft knows
// counts of entries alone, and an entry holds between one write and 4,096; so the counts
// follow the sizes of the entries that this member stores:
//
//	trailing = (TrailingBytes, or a minute's writing up to four times as much) / average size
//
// A snapshot is taken after SnapshotEvery entries or SnapshotBytes, whichever is first, but
// for some chance, so that the members do not all write at the same time.
type meter struct {
	every    uint64  // entries between snapshots
	limit    float64 // bytes between snapshots, this member's share of chance included
	trailing float64 // bytes behind a snapshot

	entries, bytes int64   // the log's counters when last looked at
	size           float64 // average of an entry, in bytes; the recent ones count more
	rate           float64 // entries a second; likewise
}

func newMeter(every uint64, bytes, trailing int64) *meter {
	return &meter{
		every: every, limit: float64(bytes) * (1 - rand.Float64()/8),
		trailing: float64(trailing), size: 1 << 10,
	}
}

// look takes the log's counters, elapsed after the last look, and sinceSnapshot, the bytes
// appended since the last snapshot. It returns the settings for raft.
func (m *meter) look(entries, bytes, sinceSnapshot int64, elapsed time.Duration) (threshold, trailing uint64) {
	de, db := float64(entries-m.entries), float64(bytes-m.bytes)
	m.entries, m.bytes = entries, bytes
	const weight = 0.3
	if de > 0 {
		m.size += weight * (db/de - m.size)
	}
	m.rate += weight * (de/elapsed.Seconds() - m.rate)

	keep := max(m.trailing, min(m.rate*trailingTime.Seconds()*m.size, maxTrailingFactor*m.trailing))
	trailing = max(uint64(keep/m.size), minTrailing)
	threshold = m.every
	if float64(sinceSnapshot) >= m.limit {
		threshold = 1
	}
	return threshold, trailing
}

// meterLoop keeps raft's settings at what the meter says.
func (n *Node) meterLoop(ctx context.Context, r *raft.Raft) {
	m := newMeter(n.cfg.SnapshotEvery, n.cfg.SnapshotBytes, n.cfg.TrailingBytes)
	ticker := time.NewTicker(meterInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		rc := r.ReloadableConfig()
		entries, bytes, sinceSnapshot := n.disk.Appended()
		threshold, trailing := m.look(entries, bytes, sinceSnapshot, meterInterval)
		if rc.SnapshotThreshold == threshold && rc.TrailingLogs == trailing {
			continue
		}
		rc.SnapshotThreshold, rc.TrailingLogs = threshold, trailing
		if err := r.ReloadConfig(rc); err != nil {
			n.fatal(err) // cannot be: only counts have changed
			return
		}
	}
}
