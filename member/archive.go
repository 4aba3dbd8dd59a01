package member

import (
	"context"
	"fmt"
	"time"

	"rollcall/internal/metrics"
	"rollcall/operator/archive"
	"rollcall/operator/archive/location"
	"rollcall/quorum/wire"
)

// archivedMember implements archive.Member.
type archivedMember struct{ m *Member }

// newArchiveSender returns what sends the log to the archive, or nil if there is none.
func newArchiveSender(m *Member) (*archive.Sender, error) {
	if m.cfg.Archive.To == "" {
		return nil, nil
	}
	store, err := location.Open(m.cfg.Archive)
	if err != nil {
		return nil, fmt.Errorf("archive.to: %w", err)
	}
	return archive.NewSender(archive.SenderConfig{
		Store: store, Log: m.node.Disk().Past(), Member: archivedMember{m}, MemberID: m.cfg.ID, Version: m.cfg.Version,
		Interval: m.cfg.Archive.Interval, Logger: m.log,
	}), nil
}

// archiveEndWait is the longest that a member that ends waits for its sender: a request may hang.
const archiveEndWait = time.Second

// archiveLoop sends the log to the archive, if there is one.
func (b *backups) archiveLoop(ctx context.Context) error {
	if b.archive == nil {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.archive.Run(ctx)
	}()
	<-ctx.Done()
	select {
	case <-ended:
	case <-time.After(archiveEndWait):
		b.log.Warn("archive: a request has not ended; the end of this member does not wait for it")
	}
	return nil
}

// LogName implements archive.Member.
func (a archivedMember) LogName() string {
	if a.m.cfg.isStandalone() {
		return archive.DiskLog(uint64(a.m.DiskID()))
	}
	id := a.m.ports.addressBook.EnsembleID()
	if id == (wire.EnsembleID{}) {
		return ""
	}
	return archive.EnsembleLog(id[:])
}

// IsLeader implements archive.Member.
func (a archivedMember) IsLeader() bool { return a.m.node.Status().IsLeader() }

// AppliedIndex implements archive.Member.
func (a archivedMember) AppliedIndex() uint64 { return a.m.node.Status().AppliedIndex() }

// TakeSnapshot implements archive.Member.
func (a archivedMember) TakeSnapshot(ctx context.Context) error {
	_, err := operations{a.m.viewer.collector, a.m}.StoreSnapshot(ctx)
	return err
}

// archiveMetrics returns the metrics of the archive, if there is one.
func (b *backups) archiveMetrics() []metrics.Native {
	if b.archive == nil {
		return nil
	}
	return []metrics.Native{
		metrics.Gauge("rollcall_archive_age_seconds",
			"age of the oldest entry of the log that is not in the archive, 0 if all are; on the leader, which sends them",
			func() float64 { return b.archive.Stats().Age.Seconds() }),
		metrics.Gauge("rollcall_archive_index",
			"index of the last entry of the log in the archive; on the leader", func() uint64 { return b.archive.Stats().ArchivedIndex }),
		metrics.Counter("rollcall_archive_failures_total",
			"attempts to reach or write the archive that failed", func() uint64 { return b.archive.Stats().Failures }),
		metrics.Counter("rollcall_archive_bytes_total",
			"bytes that this member has stored in the archive", func() uint64 { return b.archive.Stats().Bytes }),
		metrics.Counter("rollcall_archive_lost_entries_total",
			"entries of the log that were removed from this member before they were in the archive", func() uint64 { return b.archive.Stats().LostEntries }),
	}
}
