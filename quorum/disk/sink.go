package disk

import (
	"runtime"

	"github.com/hashicorp/raft"
)

// writeOut is how much of a snapshot is handed to the disk at a time. Left to the system,
// all of it goes at once when the file is synced, and the log's next writes wait behind it;
// they wait behind each of these, too: beside 2,000 writes per second pieces of 2 MiB made
// the slowest hundredth of them 1.6 times as slow, of 256 KiB 1.2 times.
const writeOut = 256 << 10 // bytes

// snapshotSink writes a snapshot. It yields to any goroutine that is ready to run, and stops the
// member if the write fails.
type snapshotSink struct {
	raft.SnapshotSink
	store  *snapshotStore
	closed bool
}

// Write takes a block of a snapshot, or part of one.
func (k *snapshotSink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	runtime.Gosched()
	return n, k.store.check("write snapshot", err)
}

func (k *snapshotSink) Close() error {
	if k.closed {
		return nil // raft closes once more
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
