package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
)

// ErrSnapshotRuns is the error of TakeSnapshot while a snapshot is being written.
var ErrSnapshotRuns = errors.New("quorum: a snapshot is being written")

// StoredSnapshot describes a snapshot that is on the disk.
type StoredSnapshot struct {
	Index, Term uint64 // of the last log entry in it
	Zxid        int64  // of the last transaction in it
	Bytes       int64
	Took        time.Duration // from copying the state until the snapshot was on the disk
}

// TakeSnapshot writes a snapshot as raft does by itself: with the same pauses, and raft then removes the log that it does not
// need any more. One is written at a time: the error is ErrSnapshotRuns while another one is written, also one of raft's own. If
// ctx ends, TakeSnapshot returns its error, and the snapshot is finished all the same.
func (n *Node) TakeSnapshot(ctx context.Context) (StoredSnapshot, error) {
	r := n.raft.Load()
	switch {
	case r == nil:
		return StoredSnapshot{}, ErrNotRunning
	case n.fsm.writing.Load() || !n.fsm.demanded.CompareAndSwap(false, true):
		return StoredSnapshot{}, ErrSnapshotRuns
	}
	type outcome struct {
		stored StoredSnapshot
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		defer n.fsm.demanded.Store(false)
		stored, err := n.fsm.takeSnapshot(r)
		done <- outcome{stored, err}
	}()
	select {
	case o := <-done:
		return o.stored, o.err
	case <-ctx.Done():
		return StoredSnapshot{}, context.Cause(ctx)
	}
}

// takeSnapshot has raft take a snapshot, and waits until it is on the disk or raft stops.
func (f *fsm) takeSnapshot(r *raft.Raft) (StoredSnapshot, error) {
	taken := r.Snapshot()
	if err := taken.Error(); errors.Is(err, raft.ErrRaftShutdown) {
		return StoredSnapshot{}, ErrNotRunning
	} else if err != nil {
		return StoredSnapshot{}, fmt.Errorf("quorum: snapshot: %w", err)
	}
	meta, state, err := taken.Open()
	if err != nil {
		return StoredSnapshot{}, fmt.Errorf("quorum: snapshot: %w", err)
	}
	_ = state.Close() // nothing was read
	stored := *f.stored.Load()
	stored.Index, stored.Term, stored.Bytes = meta.Index, meta.Term, meta.Size
	return stored, nil
}
