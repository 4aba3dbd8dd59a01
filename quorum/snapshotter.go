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
	// ErrSnapshotInProgress is the error of Snapshotter.Take while a snapshot is being written.
	ErrSnapshotInProgress = errors.New("quorum: a snapshot is being written")
	// ErrNoSpace is wrapped by the error of Snapshotter.Take if the disk may be too full for one more snapshot.
	ErrNoSpace = errors.New("quorum: there may be no room for one more snapshot")
)

// snapshotReserve is the space that is left to the log while a snapshot on demand is written, in bytes: two of its files. A snapshot that
// does not fit on the disk ends the member.
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
	storesAreFiles bool // the stores are files
	failure        *memberFailure
	runEnded       <-chan struct{} // closed when Node.Run is over
}

// TakeSnapshot writes a snapshot as raft does by itself: with the same pauses, and raft then removes the log that it does not
// need any more. most limits the snapshot, in bytes. The error wraps ErrNoRoom if the disk has no room for them and
// snapshotReserve; nothing is written then. One is written at a time: the error is ErrSnapshotRuns while another one is written,
// also one of raft's own. If ctx ends, Take returns its error, and the snapshot is finished all the same. If the member
// ends, Take returns why, or ErrNotRunning.
func (s *Snapshotter) TakeSnapshot(ctx context.Context, most int64) (StoredSnapshot, error) {
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
		defer s.fsm.snapshotRequested.Store(false)
		stored, err := s.requestSnapshot(r, most)
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

// requestSnapshot has raft take a snapshot of at most so many bytes, and waits until it is on the disk or raft stops. It never
// returns if the write ends the member.
func (s *Snapshotter) requestSnapshot(r *raft.Raft, most int64) (StoredSnapshot, error) {
	if err := s.checkSpace(most); err != nil {
		return StoredSnapshot{}, err
	}
	if err := r.Snapshot().Error(); errors.Is(err, raft.ErrRaftShutdown) {
		return StoredSnapshot{}, ErrNotRunning
	} else if err != nil {
		return StoredSnapshot{}, fmt.Errorf("quorum: snapshot: %w", err)
	}
	return *s.fsm.lastSnapshot.Load(), nil // this one, or one that has followed at once
}

// NewestSnapshot returns the index of the newest readable snapshot, and when it was written. The index is
// 0 if there is none. It reads a few files.
func (s *Snapshotter) NewestSnapshot() (index uint64, at time.Time, err error) {
	return s.disk.NewestReadableSnapshot()
}

// checkSpace returns an error that wraps ErrNoRoom if the disk of the data has no room for a snapshot of so many bytes.
func (s *Snapshotter) checkSpace(most int64) error {
	if !s.storesAreFiles {
		return nil // the stores are not files
	}
	free, _, err := s.disk.FreeSpace()
	if err != nil {
		return fmt.Errorf("quorum: snapshot: space on the disk: %w", err)
	}
	return checkFreeSpace(most, free)
}

// checkFreeSpace returns an error that wraps ErrNoRoom if a snapshot of so many bytes and snapshotReserve are more than what is free.
func checkFreeSpace(most, free int64) error {
	if free-snapshotReserve < most {
		return fmt.Errorf("%w: %d bytes are free where the data are; a snapshot of this state may take %d, and %d are left to the log", ErrNoSpace, free, most, snapshotReserve)
	}
	return nil
}
