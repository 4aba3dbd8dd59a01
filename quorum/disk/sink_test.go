package disk

import (
	"bytes"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A snapshot reaches the disk while it is being written, in the file that raft writes.
func TestSnapshotIsWrittenOut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files, err := newSnapshotFiles(dir, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	stored := 0
	store := &snapshotStore{
		SnapshotStore: files, files: files, onStored: func() { stored++ },
		storeGuard: storeGuard{endMember: func(err error) { t.Error(err) }, raftRunning: func() bool { return true }, operations: &operations{}},
	}
	sink, err := store.Create(1, 10, 2, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := sink.(*Sink).SnapshotSink.(*fileSink)
	block := bytes.Repeat([]byte("snapshot"), 8<<10)
	for range 3 * flushSize / len(block) {
		if _, err := sink.Write(block); err != nil {
			t.Fatal(err)
		}
		if k.meta.Size-k.file.flushedBytes >= flushSize {
			t.Fatalf("%d of %d bytes written out", k.file.flushedBytes, k.meta.Size)
		}
	}
	if k.file.flushedBytes == 0 {
		t.Error("nothing is written out")
	}
	if info, err := k.file.Stat(); err != nil || info.Size() < k.file.flushedBytes {
		t.Errorf("the file that is written out: %v, %v", info, err)
	}
	for range 2 { // raft closes once more
		if err := sink.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, r, err := store.Open(sink.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r); err != nil || len(b) != 3*flushSize || stored != 1 {
		t.Errorf("%d bytes, %v; stored %d times", len(b), err, stored)
	}
}
