package disk

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// benchLog is a log on disk that grows.
type benchLog struct {
	*logStore
	b     *testing.B
	dir   string
	files *logFiles
	last  uint64
}

func openBenchLog(b *testing.B) *benchLog {
	b.Helper()
	dir := b.TempDir()
	files, err := openLog(dir, dir, 0, logOpening{}, hclog.NewNullLogger())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = files.Close() }) // nothing is asked of it any more
	return &benchLog{
		b: b, dir: dir, files: files,
		logStore: &logStore{LogStore: files, metrics: new(writeMetrics), storeGuard: unguarded()},
	}
}

// append stores a batch of entries of 150 bytes, each a write of 100 bytes with its frame.
func (l *benchLog) append(batch int) {
	logs := make([]*raft.Log, batch)
	for i := range logs {
		l.last++
		logs[i] = &raft.Log{Index: l.last, Term: 1, Data: make([]byte, 150), AppendedAt: time.Now()}
	}
	if err := l.StoreLogs(logs); err != nil {
		l.b.Error(err)
	}
}

// BenchmarkLogStore appends batches of entries, each until it is on disk.
func BenchmarkLogStore(b *testing.B) {
	for _, batch := range []int{1, 16, 64, 512} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			l := openBenchLog(b)
			b.ReportAllocs()
			for b.Loop() {
				l.append(batch)
			}
			b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
		})
	}
}

// BenchmarkAfterShortening appends batches of 16 entries to a log that has lost 90,000, and counts
// the bytes written for each.
func BenchmarkAfterShortening(b *testing.B) {
	l := openBenchLog(b)
	for l.last < 100_000 {
		l.append(500)
	}
	if err := l.DeleteRange(1, 90_000); err != nil {
		b.Fatal(err)
	}
	before := bytesWritten(b)
	for b.Loop() {
		l.append(16)
	}
	b.ReportMetric(float64(bytesWritten(b)-before)/float64(b.N), "written-B/op")
}

// bytesWritten returns the number of bytes that this process has passed to the system's write calls.
func bytesWritten(b *testing.B) (n int64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "wchar: ")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkWriteBeside measures the writes of 16 entries, one after the other: while nothing else
// happens, while 50,000 entries are deleted, and while a snapshot of 128 MiB is written.
func BenchmarkWriteBeside(b *testing.B) {
	var quiet, shortening, snapshot []time.Duration
	var deleting time.Duration
	for b.Loop() {
		l := openBenchLog(b)
		for l.last < 60_000 {
			l.append(500)
		}
		quiet = append(quiet, l.writeDuring(func() { time.Sleep(500 * time.Millisecond) })...)
		shortening = append(shortening, l.writeDuring(func() {
			begun := time.Now()
			if err := l.DeleteRange(1, 50_000); err != nil {
				b.Error(err)
			}
			deleting += time.Since(begun)
		})...)
		snapshot = append(snapshot, l.writeDuring(func() { writeSnapshot(b) })...)
	}
	b.ReportMetric(float64(deleting.Milliseconds())/float64(b.N), "deletion-ms")
	for what, took := range map[string][]time.Duration{"quiet": quiet, "deleting": shortening, "snapshot": snapshot} {
		slices.Sort(took)
		for name, at := range map[string]int{"p50": len(took) / 2, "p99": len(took) * 99 / 100, "max": len(took) - 1} {
			b.ReportMetric(float64(took[at].Microseconds()), what+"-"+name+"-µs")
		}
	}
}

// writeDuring writes entries until do returns, and returns the duration of each write.
func (l *benchLog) writeDuring(do func()) (took []time.Duration) {
	var done atomic.Bool
	go func() {
		do()
		done.Store(true)
	}()
	for !done.Load() {
		begun := time.Now()
		l.append(16)
		took = append(took, time.Since(begun))
	}
	return took
}

func writeSnapshot(b *testing.B) {
	store, err := raft.NewFileSnapshotStoreWithLogger(b.TempDir(), 1, hclog.NewNullLogger())
	if err != nil {
		b.Error(err)
		return
	}
	_, trans := raft.NewInmemTransport("")
	sink, err := store.Create(1, 1, 1, raft.Configuration{}, 1, trans)
	if err != nil {
		b.Error(err)
		return
	}
	block := make([]byte, 64<<10)
	for range 2048 {
		if _, err := sink.Write(block); err != nil {
			b.Error(err)
		}
	}
	if err := sink.Close(); err != nil {
		b.Error(err)
	}
}

// BenchmarkReadLog reads an entry of 150 bytes, as a start does with all entries after the
// snapshot.
func BenchmarkReadLog(b *testing.B) {
	l := openBenchLog(b)
	for l.last < 20_000 {
		l.append(500)
	}
	b.ReportAllocs()
	var entry raft.Log
	for i := uint64(0); b.Loop(); i++ {
		if err := l.GetLog(i%l.last+1, &entry); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenLog opens a log of 200,000 entries of 150 bytes in all.
func BenchmarkOpenLog(b *testing.B) {
	l := openBenchLog(b)
	for l.last < 200_000 {
		l.append(500)
	}
	if err := l.files.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		files, err := openLog(l.dir, l.dir, 0, logOpening{}, hclog.NewNullLogger())
		if err == nil {
			err = files.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
