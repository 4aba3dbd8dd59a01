package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// snapshotSink writes a snapshot. It yields to any goroutine that is ready to run, and ends the
// member if the write fails.
type snapshotSink struct {
	raft.SnapshotSink
	store  *snapshotStore
	closed bool
}

// Write writes a block of a snapshot, or part of one.
func (k *snapshotSink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	runtime.Gosched()
	return n, k.store.check("write snapshot", err)
}

func (k *snapshotSink) Close() error {
	if k.closed {
		return nil // raft calls Close once more
	}
	k.closed = true
	if err := k.store.check("store snapshot", k.SnapshotSink.Close()); err != nil {
		return err
	}
	k.store.stored()
	return nil
}

func (k *snapshotSink) Cancel() error {
	k.closed = true
	return k.SnapshotSink.Cancel()
}
