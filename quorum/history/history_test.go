package history

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rollcall/quorum/disk"
)

// What a start no longer needs is kept, compressed, and read again with every entry since the log began. So it is after a restart.
func TestWholePast(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		w.store(60, 1)
		w.snapshot(w.last, 1, w.last-10, true)
	}
	for range 2 {
		w.tidy()
		l := w.list()
		if len(l.Spans) != 1 || l.Spans[0].First != 1 || l.Spans[0].Last != 240 || len(l.Damaged)+len(l.Unused)+len(l.Others) > 0 {
			t.Fatalf("listed: %+v", l)
		}
		if at, ok := l.Spans[0].Begins(); at != 0 || !ok {
			t.Fatalf("the oldest state has index %d, %v; the log goes back to its beginning", at, ok)
		}
		w.check(l.Spans[0], always(1))
		if w.keeper.Stats().Oldest.IsZero() {
			t.Error("the figures say that nothing is kept")
		}
		for _, name := range w.files() {
			if strings.HasSuffix(name, segmentSuffix) {
				t.Errorf("%s is not compressed", name)
			}
		}
		w.restart()
	}
}

// Entries that a deletion of the log's end has replaced are in no chain, whether their segments were kept or not.
func TestReplacedEntries(t *testing.T) {
	w := newWorld(t)
	w.store(40, 1)
	w.cut(25)
	w.store(40, 2) // up to 65
	w.cut(50)
	w.cut(20) // behind the first one
	w.store(60, 3)
	w.snapshot(w.last, 3, w.last, true)
	w.store(1, 3)
	termOf := func(index uint64) uint64 {
		if index <= 20 {
			return 1
		}
		return 3
	}
	w.check(w.list().Spans[0], termOf)
	w.tidy()
	l := w.list()
	if len(l.Spans) != 1 || l.Spans[0].First != 1 {
		t.Fatalf("listed: %+v", l)
	}
	w.check(l.Spans[0], termOf)
}

// A received snapshot leaves a gap. What is before it ends at the newest snapshot that the member took: later entries may never have
// been committed.
func TestGap(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(50, 1, 45, true)
	w.store(40, 1) // up to 100, and not known to be committed
	w.snapshot(500, 3, 0, false)
	w.must(w.data.Log().DeleteRange(45, 100))
	w.last = 500
	w.store(40, 3)
	for range 2 {
		l := w.list()
		if len(l.Spans) != 2 || l.Spans[0].First != 1 || l.Spans[0].Last != 50 || l.Spans[1].First != 501 || l.Spans[1].Last != 540 {
			t.Fatalf("listed: %+v", l)
		}
		if at, ok := l.Spans[1].Begins(); at != 500 || !ok {
			t.Fatalf("the second span begins with the state of index %d, %v", at, ok)
		}
		w.check(l.Spans[0], always(1))
		w.check(l.Spans[1], always(3))
		w.tidy()
	}
}

// Beyond the limits the oldest part goes. What is left begins with a snapshot.
func TestLimits(t *testing.T) {
	for _, by := range []string{"bytes", "age", "full disk", "disk is full now"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			for range 5 {
				w.store(60, 1)
				w.snapshot(w.last, 1, w.last-10, true)
			}
			w.tidy()
			all := w.keeper.Stats()
			switch by {
			case "bytes":
				w.keeper.limits.Bytes = all.Bytes / 2
			case "age":
				w.keeper.limits.Age = -time.Hour // everything is older
			case "full disk":
				w.keeper.freeShare = func(string) (int64, int64, error) {
					return 1<<20 - w.keeper.Stats().Bytes, 16 << 20, nil
				}
			case "disk is full now":
				for w.keeper.dropOldest() {
				}
			}
			w.tidy()
			now, l := w.keeper.Stats(), w.list()
			if now.Bytes >= all.Bytes || now.Bytes > w.keeper.limits.Bytes {
				t.Fatalf("%d of %d bytes are left", now.Bytes, all.Bytes)
			}
			if by == "full disk" && now.Bytes > 0 {
				t.Errorf("%d bytes are kept on a disk without room", now.Bytes)
			}
			if len(l.Spans) != 1 || l.Spans[0].Last != 300 {
				t.Fatalf("listed: %+v", l)
			}
			if at, ok := l.Spans[0].Begins(); !ok || at == 0 {
				t.Fatalf("the rest begins with index %d, %v, and not with a snapshot", at, ok)
			}
			w.check(l.Spans[0], always(1))
		})
	}
}

// A snapshot that lies close to the ones around it is not kept, and the chain is as whole as before.
func TestSnapshotsThatAreClose(t *testing.T) {
	w := newWorld(t)
	for range 6 {
		w.store(20, 1)
		w.snapshot(w.last, 1, w.last-5, true)
	}
	w.tidy()
	l := w.list()
	if n := len(l.Spans[0].Snapshots); n != 2 {
		t.Errorf("%d snapshots are left; a start needs 2, and the log before them takes a second", n)
	}
	w.check(l.Spans[0], always(1))
}

// Damage is named, and nothing that is damaged is removed or replaced.
func TestDamagedFiles(t *testing.T) {
	w := newWorld(t)
	for range 4 {
		w.store(60, 1)
		w.snapshot(w.last, 1, w.last-10, true)
	}
	kept := filepath.Join(w.dir, "rollcall", disk.KeptDirName)
	raw, err := filepath.Glob(filepath.Join(kept, "*.log"))
	w.must(err)
	flip(t, raw[2], 3000)
	w.tidy()
	if _, err := os.Stat(raw[2]); err != nil {
		t.Errorf("the damaged segment is gone: %v", err)
	}
	l := w.list()
	c := NewChain(l.Spans[len(l.Spans)-1], DirectorySource{w.keeper.dirs})
	var failed error
	for _, err := range c.Entries(context.Background(), c.First-1) {
		failed = err
	}
	if !errors.Is(failed, disk.ErrDamaged) || !strings.Contains(failed.Error(), filepath.Base(raw[2])) {
		t.Errorf("reading gives %v; it must name %s", failed, raw[2])
	}
}

func flip(t *testing.T, path string, at int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[at] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A member that runs gives the entries that it has applied, and no byte of later ones, from segments that were moved or compressed
// after they were listed, too.
func TestCommittedEntriesOnly(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(40, 1, 38, true)
	w.store(8, 1)
	const last = 63
	l, err := List(w.keeper.dirs, last)
	w.must(err)
	source := CommittedSource{DirectorySource{w.keeper.dirs}, last}
	w.tidy()
	newest := l.Spans[0]
	if newest.Last != last {
		t.Fatalf("the span ends with entry %d", newest.Last)
	}
	next := uint64(1)
	for e, err := range NewChain(newest, source).Entries(context.Background(), 0) {
		w.must(err)
		if e.Index != next {
			t.Fatalf("entry %d comes where %d belongs", e.Index, next)
		}
		next++
	}
	if next != last+1 {
		t.Fatalf("entry %d is read last", next-1)
	}
	f, err := source.Open(context.Background(), SegmentFile(newest.Segments[len(newest.Segments)-1]))
	w.must(err)
	b, err := io.ReadAll(f)
	w.must(errors.Join(err, f.Close()))
	r, err := disk.NewSegmentReader(bytes.NewReader(b))
	for err == nil {
		_, err = r.Record()
	}
	if index, _ := r.LastEntry(); index != last || !errors.Is(err, io.EOF) {
		t.Errorf("the file that is sent ends with entry %d, %v", index, err)
	}
}

// Names of files come from strangers: no other file is opened.
func TestNamesOfFiles(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{
		"", "raft.db", "segments/../raft.db", "segments/..", "segments/raft.db", "segments/../../rollcall/log/0000000001-00000000000000000000.log",
		"snapshots/../meta", "snapshots/1-2-3", "snapshots/a/meta", "snapshots/1-2-3/../../raft.db", "segments//x.log", "segments/a/x.log",
		"segments/\x00.log", "snapshots/1-2-\x00/meta", "segments/" + strings.Repeat("a", 4000) + ".log", "snapshots/1-2-" + strings.Repeat("3", 4000) + "/meta",
	} {
		f, err := (DirectorySource{w.keeper.dirs}).Open(context.Background(), name)
		if err == nil {
			_ = f.Close()
		}
		if !errors.Is(err, ErrNoSuchFile) || len(err.Error()) > 1000 {
			t.Errorf("%.50q gives %v", name, err)
		}
	}
}

// Whatever a compressed file has in front, nothing is taken from it unless its checksum is right.
func FuzzCompressedHead(f *testing.F) {
	w := disk.SegmentHeader{}
	f.Add(compressedHead{header: w, first: 1, last: 2, bytes: 100}.encode(make([]byte, disk.SegmentHeaderSize)))
	f.Add([]byte{0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		c, ok, err := decodeCompressedHead(b)
		if ok && err == nil && (c.header.Name() == "" || c.bytes < disk.SegmentHeaderSize) {
			t.Errorf("%x gives %+v", b, c)
		}
	})
}

// segmentsIn returns the files of segments in a directory of the member.
func (w *world) segmentsIn(dir string) []string {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.dir, "rollcall", dir, "*"+segmentSuffix))
	w.must(err)
	return paths
}

// A segment that was replaced is in no chain even if it lies among what is kept.
func TestReplacedSegmentIsKept(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	var replaced []string
	for _, path := range w.segmentsIn(disk.LogDirName)[3:] {
		to := filepath.Join(w.t.TempDir(), filepath.Base(path))
		b, err := os.ReadFile(path)
		w.must(errors.Join(err, os.WriteFile(to, b, 0o600)))
		replaced = append(replaced, to)
	}
	w.cut(20)
	w.store(60, 2)
	w.snapshot(w.last, 2, w.last-5, true)
	for _, path := range replaced {
		w.must(os.Rename(path, filepath.Join(w.dir, "rollcall", disk.KeptDirName, filepath.Base(path))))
	}
	termOf := func(index uint64) uint64 {
		if index <= 20 {
			return 1
		}
		return 2
	}
	l := w.list()
	if len(l.Spans) != 1 || len(l.Unused) != len(replaced) {
		t.Fatalf("listed: %+v", l)
	}
	w.check(l.Spans[0], termOf)
	w.tidy()
	if l = w.list(); len(l.Unused) != 0 {
		t.Errorf("what was replaced stays: %v", l.Unused)
	}
	w.check(l.Spans[0], termOf)
}

// If a segment is gone, entries that it replaced do not take its place: reading fails, even where they reach the next segment.
func TestMissingSegment(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.cut(20)
	w.store(8, 2)
	w.cut(24) // so a segment begins with entry 25, which entries of term 1 reach
	w.store(60, 2)
	w.snapshot(w.last, 2, w.last-5, true)
	for _, path := range w.segmentsIn(disk.KeptDirName) {
		if b, err := os.ReadFile(path); err == nil {
			if h, err := disk.ParseSegmentHeader(b); err == nil && h.Base == 21 {
				w.must(os.Remove(path))
			}
		}
	}
	l := w.list()
	var failed error
	for _, err := range NewChain(l.Spans[len(l.Spans)-1], DirectorySource{w.keeper.dirs}).Entries(context.Background(), 0) {
		failed = err
	}
	if !errors.Is(failed, disk.ErrDamaged) {
		t.Errorf("reading gives %v", failed)
	}
}

// After a loss of power a segment may have its former name again. The next start keeps it.
func TestMoveThatIsUndone(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(w.last, 1, w.last-5, true)
	for _, path := range w.segmentsIn(disk.KeptDirName) {
		w.must(os.Rename(path, filepath.Join(w.dir, "rollcall", disk.LogDirName, filepath.Base(path))))
	}
	w.restart()
	w.tidy()
	w.check(w.list().Spans[0], always(1))
	if first := w.list().Spans[0].First; first != 1 {
		t.Errorf("the past begins with entry %d", first)
	}
}

// What is removed while it is compressed does not come back.
func TestRemovedWhileCompressed(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(w.last, 1, w.last-5, true)
	raw := w.segmentsIn(disk.KeptDirName)
	w.keeper.pace = func(out io.Writer) io.Writer {
		for _, path := range raw {
			_ = os.Remove(path) // the disk was full
		}
		return out
	}
	w.tidy()
	if left := w.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A snapshot of which only a part is left, because a process ended while it removed it, is in no span, and the rest goes.
func TestPartOfSnapshot(t *testing.T) {
	for _, lost := range []string{disk.SnapshotStateFile + compressedSuffix, disk.SnapshotMetaFile} {
		t.Run(lost, func(t *testing.T) {
			w := newWorld(t)
			for range 5 {
				w.store(60, 1)
				w.snapshot(w.last, 1, w.last-10, true)
			}
			w.keeper.limits.Bytes = 1
			w.keeper.dropOldest() // so the past begins with a snapshot
			w.keeper.limits.Bytes = 1 << 40
			w.tidy()
			before := w.list().Spans[0]
			part := w.keeper.snapshotPath(before.Snapshots[0])
			w.must(os.Remove(filepath.Join(part, lost)))
			l := w.list()
			if slices.ContainsFunc(l.Spans[0].Snapshots, func(s Snapshot) bool { return s.Name == before.Snapshots[0].Name }) {
				t.Error("it is listed")
			}
			w.tidy()
			if exists(part) {
				t.Error("the rest of it stays")
			}
			w.check(w.list().Spans[0], always(1))
		})
	}
}

// A member writes its newest segment while it is sent: what follows the last entry that counts may be half written, and is not read.
func TestRecordHalfWritten(t *testing.T) {
	w := newWorld(t)
	w.store(10, 1)
	path := w.segmentsIn(disk.LogDirName)[0]
	b, err := os.ReadFile(path)
	w.must(err)
	r, err := disk.NewSegmentReader(bytes.NewReader(b))
	w.must(err)
	end := len(r.HeaderBytes())
	for last, _ := r.LastEntry(); last < 5; last, _ = r.LastEntry() {
		raw, err := r.Record()
		w.must(err)
		end += len(raw)
	}
	flip(t, path, end+100)                    // in the record after entry 5
	for _, last := range []uint64{5, 6, 10} { // with a later one, the log may go on in another segment
		source := CommittedSource{DirectorySource{w.keeper.dirs}, last}
		f, err := source.Open(context.Background(), segmentsPrefix+filepath.Base(path))
		w.must(err)
		sent, err := io.ReadAll(f)
		if w.must(f.Close()); err != nil || len(sent) != end {
			t.Errorf("up to entry %d, %d bytes are sent, want %d: %v", last, len(sent), end, err)
		}
		var failed error
		for _, err := range NewChain(w.list().Spans[0], source).Entries(context.Background(), 0) {
			failed = err
		}
		if !errors.Is(failed, disk.ErrDamaged) || !strings.Contains(failed.Error(), filepath.Base(path)) {
			t.Errorf("entry 6 is missing, and reading gives %v", failed)
		}
	}
}

// A pipe, or another special file, blocks no reader: it counts as damaged.
func TestPipeAmongFiles(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(w.last, 1, w.last-5, true)
	w.must(syscall.Mkfifo(filepath.Join(w.dir, "rollcall", disk.KeptDirName, "0000000099-00000000000000000099.log"), 0o600))
	w.tidy()
	if l := w.list(); len(l.Damaged) != 1 || !strings.Contains(l.Damaged[0], "no regular file") {
		t.Errorf("damaged: %v", l.Damaged)
	}
}

// After a loss of power a segment may be there twice, compressed and not, of which the compressed one may be damaged. The next check
// compresses it again.
func TestSegmentIsThereTwice(t *testing.T) {
	w := newWorld(t)
	w.store(60, 1)
	w.snapshot(w.last, 1, w.last-5, true)
	raw := w.segmentsIn(disk.KeptDirName)
	before := map[string][]byte{}
	for _, path := range raw {
		b, err := os.ReadFile(path)
		w.must(err)
		before[path] = b
	}
	w.tidy()
	for path, b := range before {
		w.must(os.WriteFile(path, b, 0o600))
	}
	flip(t, raw[0]+compressedSuffix, 5000)
	w.tidy()
	if left := w.segmentsIn(disk.KeptDirName); len(left) != 0 || len(w.files()) != len(raw) {
		t.Errorf("there are %v", w.files())
	}
	w.check(w.list().Spans[0], always(1))
}

// Files that no limit can remove do not count, so nothing of the past goes for them.
func TestForeignFilesDoNotCount(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.store(60, 1)
		w.snapshot(w.last, 1, w.last-10, true)
	}
	w.tidy()
	all := w.keeper.Stats()
	kept := filepath.Join(w.dir, "rollcall", disk.KeptDirName)
	for _, name := range []string{"notes.txt", "0000000099-00000000000000000009.log"} {
		w.must(os.WriteFile(filepath.Join(kept, name), make([]byte, 2*all.Bytes), 0o600))
	}
	w.keeper.limits.Bytes = all.Bytes
	w.tidy()
	if now := w.keeper.Stats(); now != all {
		t.Errorf("kept before: %+v, and with files of others: %+v", all, now)
	}
	if l := w.list(); l.Spans[0].First != 1 || len(l.Damaged) != 1 {
		t.Errorf("listed: %+v", l)
	}
}

// The limits do not wait for the file that is compressed.
func TestLimitsWhileCompressing(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		w.store(60, 1)
		w.snapshot(w.last, 1, w.last-10, true)
	}
	var isFull atomic.Bool
	looked := make(chan struct{}, 1)
	w.keeper.freeShare = func(string) (int64, int64, error) {
		if isFull.Load() {
			signal(looked)
			return 0, 1 << 50, nil
		}
		return 1 << 50, 1 << 50, nil
	}
	began, goOn := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(began) })
	w.keeper.pace = func(out io.Writer) io.Writer {
		first()
		<-goOn
		return out
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.keeper.Run(ctx)
	}()
	<-began
	isFull.Store(true)
	w.keeper.wake()
	late := time.After(time.Minute)
	for len(w.segmentsIn(disk.KeptDirName)) > 0 {
		select {
		case <-looked: // before each part that goes, and once more
		case <-late:
			t.Fatalf("on a full disk there are still %v", w.files())
		}
	}
	close(goOn)
	end()
	<-ended
	if left := w.files(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}
