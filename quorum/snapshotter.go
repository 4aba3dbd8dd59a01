package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/quorum/disk"

	"github.com/hashicorp/raft"
)

var (
	// ErrSnapshotInProgress is the error of Snapshotter.TakeSnapshot while a snapshot is being written.
	ErrSnapshotInProgress = errors.New("quorum: a snapshot is being written")
	// ErrNoSpace is wrapped by the error of Snapshotter.TakeSnapshot if the disk may be too full for one more
	// snapshot.
	ErrNoSpace = errors.New("quorum: there may be no room for one more snapshot")
)

// snapshotReserve is the space, in bytes, that is left to the log while a snapshot on demand is written: two of
// its files. A snapshot that does not fit on the disk ends the member.
const snapshotReserve = 32 << 20

// StoredSnapshot describes a snapshot that is on the disk.
type StoredSnapshot struct {
	Index, Term   uint64 // of the last log entry in it
	Zxid          int64  // of the last transaction in it
	Bytes         int64
	WriteDuration time.Duration // from copying the state until the snapshot was on the disk
}

// Snapshotter takes snapshots on demand. It is safe for concurrent use.
type Snapshotter struct {
	status         *Status
	fsm            *fsm
	disk           *disk.Data
	storesAreFiles bool
	failure        *memberFailure
	runEnded       <-chan struct{} // closed when Node.Run is over
}

// TakeSnapshot writes a snapshot as raft does by itself: with the same pauses, and raft then removes the log that
// it does not need any more. The snapshot has at most maxBytes bytes. The error wraps ErrNoSpace if the disk has no
// space for it and snapshotReserve; nothing is written then. The error is ErrSnapshotInProgress while another
// snapshot is written, including raft's own. If ctx ends, TakeSnapshot returns its error, and the snapshot is
// finished all the same. If the member ends, TakeSnapshot returns the reason, or ErrNotRunning.
func (s *Snapshotter) TakeSnapshot(ctx context.Context, maxBytes int64) (StoredSnapshot, error) {
	r := s.status.raft.Load()
	switch {
	case r == nil:
		return StoredSnapshot{}, ErrNotRunning
	case s.fsm.writingSnapshot.Load() || !s.fsm.snapshotRequested.CompareAndSwap(false, true):
		return StoredSnapshot{}, ErrSnapshotInProgress
	}
	type outcome struct {
		stored StoredSnapshot
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		stored, err := s.snapshotIfSpace(r, maxBytes)
		s.fsm.snapshotRequested.Store(false) // before the caller can request the next one
		done <- outcome{stored, err}
	}()
	select {
	case o := <-done:
		return o.stored, o.err
	case <-s.failure.ended: // raft reports nothing if the write of a snapshot ends the member
		return StoredSnapshot{}, fmt.Errorf("quorum: snapshot: %w", s.failure.endError())
	case <-s.runEnded:
		return StoredSnapshot{}, ErrNotRunning
	case <-ctx.Done():
		return StoredSnapshot{}, context.Cause(ctx)
	}
}

// snapshotIfSpace makes raft take a snapshot of at most maxBytes bytes, and waits until it is on the disk or raft
// stops. It never returns if the write ends the member.
func (s *Snapshotter) snapshotIfSpace(r *raft.Raft, maxBytes int64) (StoredSnapshot, error) {
	if err := s.checkSpace(maxBytes); err != nil {
		return StoredSnapshot{}, err
	}
	if err := r.Snapshot().Error(); errors.Is(err, raft.ErrRaftShutdown) {
		return StoredSnapshot{}, ErrNotRunning
	} else if err != nil {
		return StoredSnapshot{}, fmt.Errorf("quorum: snapshot: %w", err)
	}
	return *s.fsm.lastSnapshot.Load(), nil // this one, or one that has followed at once
}

// NewestSnapshot returns the index and the time of the newest readable snapshot. The index is 0 if there is none.
// It reads a few files.
func (s *Snapshotter) NewestSnapshot() (index uint64, at time.Time, err error) {
	return s.disk.NewestReadableSnapshot()
}

// checkSpace returns an error that wraps ErrNoSpace if the disk has no space for a snapshot of maxBytes bytes.
func (s *Snapshotter) checkSpace(maxBytes int64) error {
	if !s.storesAreFiles {
		return nil
	}
	free, _, err := s.disk.FreeSpace()
	if err != nil {
		return fmt.Errorf("quorum: snapshot: space on the disk: %w", err)
	}
	return checkFreeSpace(maxBytes, free)
}

func checkFreeSpace(maxBytes, free int64) error {
	if free-snapshotReserve < maxBytes {
		return fmt.Errorf("%w: %d bytes are free where the data are; a snapshot of this state may take %d, and %d are "+
			"left to the log", ErrNoSpace, free, maxBytes, snapshotReserve)
	}
	return nil
}
