package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// Sink writes a snapshot. It yields to any goroutine that is ready to run, and ends the
// member if the write fails. Data.Snapshots makes them.
type Sink struct {
	raft.SnapshotSink
	Index, Term uint64 // of the last log entry in the snapshot

	store  *snapshotStore
	closed bool
}

// Write writes a block of a snapshot, or part of one.
func (k *Sink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	runtime.Gosched()
	return n, k.store.checkError("write snapshot", err)
}

// Close implements raft.SnapshotSink. When it returns, the snapshot is stored.
func (k *Sink) Close() error {
	if k.closed {
		return nil // raft calls Close once more
	}
	k.closed = true
	if err := k.store.checkError("store snapshot", k.SnapshotSink.Close()); err != nil {
		return err
	}
	k.store.onStored()
	return nil
}

// Cancel implements raft.SnapshotSink.
func (k *Sink) Cancel() error {
	k.closed = true
	return k.SnapshotSink.Cancel()
}
