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
		SnapshotStore: files, files: files, stored: func() { stored++ },
		guard: guard{fail: func(err error) { t.Error(err) }, running: func() bool { return true }, ops: &operations{}},
	}
	sink, err := store.Create(1, 10, 2, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	k := sink.(*Sink).SnapshotSink.(*fileSink)
	block := bytes.Repeat([]byte("snapshot"), 8<<10)
	for range 3 * writeOut / len(block) {
		if _, err := sink.Write(block); err != nil {
			t.Fatal(err)
		}
		if k.meta.Size-k.file.out >= writeOut {
			t.Fatalf("%d of %d bytes written out", k.file.out, k.meta.Size)
		}
	}
	if k.file.out == 0 {
		t.Error("nothing is written out")
	}
	if info, err := k.file.Stat(); err != nil || info.Size() < k.file.out {
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
	if b, err := io.ReadAll(r); err != nil || len(b) != 3*writeOut || stored != 1 {
		t.Errorf("%d bytes, %v; stored %d times", len(b), err, stored)
	}
}
