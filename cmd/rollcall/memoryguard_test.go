package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"rollcall/migrate/datadir"
)

const (
	bombNodes = 128      // of 1 MiB each, which is as much as a node of ZooKeeper has
	bombRoom  = 64 << 20 // bytes of memory that the test allows: half of what the nodes take
)

// hugeState returns a directory of ZooKeeper's whose snapshot is 500 times as large as its file.
func hugeState(t *testing.T) (dir string) {
	t.Helper()
	data := make([]byte, 1<<20)
	nodes := make([]datadir.Node, bombNodes)
	for i := range nodes {
		nodes[i] = datadir.Node{Path: fmt.Sprintf("/n%d", i), Data: data}
	}
	dir = zooKeepers(t, nodes...)
	names, err := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	from, err := os.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(names[0] + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(packed, from); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{packed.Close(), to.Close(), from.Close(), os.Remove(names[0])} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A small file that stands for a large state does not take the memory of the machine.
func TestImportOfABomb(t *testing.T) {
	dir := hugeState(t)
	before := debug.SetMemoryLimit(bombRoom)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	out, err := command(t, "import", "--check", dir)
	if err == nil || !strings.Contains(err.Error(), "there is too little memory for this state") || !strings.Contains(err.Error(), "snapshot.") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Memory is looked at while a backup is read, too, but what is garbage by then does not count.
func TestRoom(t *testing.T) {
	r := newMemoryGuard(100 * int64(heapObjects()) / guardShare * 4)
	kept, garbage := [][]byte{}, 0
	from := r.wrapReader(endlessReader{})
	part := make([]byte, guardStep)
	for range 200 {
		garbage += len(make([]byte, guardStep))
		if _, err := io.ReadFull(from, part); err != nil {
			t.Fatalf("after %d bytes of garbage: %v", garbage, err)
		}
	}
	for range 4 * int(r.limit/guardStep) {
		kept = append(kept, make([]byte, guardStep))
		if _, err := io.ReadFull(from, part); err != nil {
			if size := uint64(len(kept)) * guardStep; size < r.limit/2 || !strings.Contains(err.Error(), "too little memory") {
				t.Errorf("with %d bytes kept: %v", size, err)
			}
			return
		}
	}
	t.Errorf("%d bytes were kept, and %d are allowed", len(kept)*guardStep, r.limit)
}

// endlessReader is a file without an end.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }
