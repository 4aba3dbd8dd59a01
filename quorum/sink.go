package quorum

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hashicorp/raft"
)

// writeOut is how much of a snapshot is handed to the disk at a time. Left to the system,
// all of it goes at once when the file is synced, and the log's next writes wait behind it;
// they wait behind each of these, too: beside 2,000 writes per second pieces of 2 MiB made
// the slowest hundredth of them 1.6 times as slow, of 256 KiB 1.2 times.
const writeOut = 256 << 10 // bytes

// stateFile is what raft calls the file with a snapshot's body.
const stateFile = "state.bin"

// snapshotSink writes a snapshot beside what clients wait for: a little at a time, and
// after whoever else wants the processor. Once closed it is durable, before raft shortens
// the log.
type snapshotSink struct {
	raft.SnapshotSink
	store  *snapshotStore
	file   *os.File // nil: not a file, or it cannot be opened a second time
	size   int64    // written
	out    int64    // of that on the disk, as far as this sink has seen to it
	closed bool
}

func newSnapshotSink(sink raft.SnapshotSink, store *snapshotStore) *snapshotSink {
	k := &snapshotSink{SnapshotSink: sink, store: store}
	if store.dir != "" {
		// What cannot be written out early is synced in the end, by raft.
		k.file, _ = os.OpenFile(filepath.Join(store.dir, sink.ID()+tmpSuffix, stateFile), os.O_WRONLY, 0)
	}
	return k
}

// Write takes a block of a snapshot, or part of one.
func (k *snapshotSink) Write(p []byte) (int, error) {
	n, err := k.SnapshotSink.Write(p)
	if k.size += int64(n); k.file != nil && k.size-k.out >= writeOut {
		writeBack(k.file, k.out, k.size-k.out)
		k.out = k.size
	}
	runtime.Gosched()
	return n, k.store.check("write snapshot", err)
}

func (k *snapshotSink) Close() error {
	if k.closed {
		return nil // raft closes once more
	}
	k.end()
	err := k.SnapshotSink.Close()
	if err == nil && k.store.dir != "" { // raft syncs the files and the folder above, not the one between
		err = errors.Join(syncDir(filepath.Join(k.store.dir, k.ID())), syncDir(k.store.dir))
	}
	if err := k.store.check("store snapshot", err); err != nil {
		return err
	}
	k.store.stored()
	return nil
}

func (k *snapshotSink) Cancel() error {
	k.end()
	return k.SnapshotSink.Cancel()
}

func (k *snapshotSink) end() {
	k.closed = true
	if k.file != nil {
		_ = k.file.Close() // raft's own has what was written
		k.file = nil
	}
}
