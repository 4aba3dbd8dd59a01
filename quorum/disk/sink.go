package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// writeOut is how many bytes of a snapshot are written to the disk at a time. If the system chose
// when to write, it would write all of them when the file is synced, and the log's next writes
// would wait for that. They also wait for each piece. Beside 2,000 writes per second, pieces of 2
// MiB made the slowest hundredth of the writes take 1.6 times as long, and pieces of 256 KiB 1.2
// times.
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
