package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// writeOut is how many bytes of a snapshot are written to the disk at a time. If it were left to
// the system, all of it would be written when the file is synced, and the log's next writes would
// wait for it. They also wait for each of these pieces: with 2,000 writes per second at the same
// time, pieces of 2 MiB made the slowest hundredth of them 1.6 times as slow, and pieces of 256 KiB
// 1.2 times.
const writeOut = 256 << 10 // bytes

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
