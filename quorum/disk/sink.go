package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// Sink writes a snapshot. It yields to other goroutines, and ends the member if the write fails. Data.Snapshots
// makes it.
type Sink struct {
	raft.SnapshotSink
	Index, Term uint64 // of the last log entry in the snapshot

	store  *snapshotStore
	closed bool
}

// NoteTaken says that this member has taken the snapshot of its own state, and has not received it.
func (k *Sink) NoteTaken() {
	if files, ok := k.SnapshotSink.(*fileSink); ok {
		files.meta.Taken = true
	}
}

func (k *Sink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	runtime.Gosched()
	return n, k.store.endMemberOnError("write snapshot", err)
}

// Close implements raft.SnapshotSink. It returns once the snapshot is stored.
func (k *Sink) Close() error {
	if k.closed {
		return nil // raft calls Close once more
	}
	k.closed = true
	if err := k.store.endMemberOnError("store snapshot", k.SnapshotSink.Close()); err != nil {
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
