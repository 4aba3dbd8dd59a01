package history

import (
	"errors"
	"io"
	"os"
	"testing"

	"rollcall/quorum/disk"
)

// The time of compressing a log whose data are half random, on one processor and without a disk. Keeper takes pauseFactor times as long
// in addition.
func BenchmarkCompress(b *testing.B) {
	w := newWorld(b)
	w.store(600, 1)
	w.snapshot(w.last, 1, w.last-5, true)
	paths := w.segmentsIn(disk.KeptDirName)
	b.SetBytes(testSegmentBytes)
	for i := 0; b.Loop(); i++ {
		in, err := os.Open(paths[i%len(paths)])
		w.must(err)
		records, err := disk.NewSegmentReader(in)
		w.must(err)
		_, err = copyRecords(io.Discard, records, nil)
		w.must(errors.Join(err, in.Close()))
	}
}
