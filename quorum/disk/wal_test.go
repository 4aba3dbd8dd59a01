package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	walfs "github.com/hashicorp/raft-wal/fs"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/types"
	"go.etcd.io/bbolt"
)

// kinds runs a test on each kind of log.
func kinds(t *testing.T, test func(t *testing.T, kind LogKind)) {
	t.Helper()
	for _, kind := range []LogKind{LogBolt, LogWAL} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

const (
	// testSegment is the size of a segment in tests, in bytes: a test fills several of them.
	testSegment = 128 << 10
	// testEntry is the size of a long entry, in bytes: 17 of them fill a segment.
	testEntry = testSegment / 16
)

// walDir is a log in raft-wal that is opened again and again.
type walDir struct {
	t   *testing.T
	dir string
	n   uint64 // entries stored
	was []byte // the mark before the last batch
}

func (d *walDir) open() logFiles {
	d.t.Helper()
	log, err := openLog(LogWAL, d.dir, testSegment, hclog.NewNullLogger())
	if err != nil {
		d.t.Fatal(err)
	}
	return log
}

// store opens the log, appends one batch of entries and closes it.
func (d *walDir) store(entries, size int) {
	d.t.Helper()
	log := d.open()
	defer log.Close()
	d.append(log, entries, size)
}

// fill appends a batch that fills the last segment, and stops before the next one is listed. It
// returns the path of the full one.
func (d *walDir) fill() string {
	d.t.Helper()
	log := d.open()
	meta, full := d.read(d.meta()), d.segments()[0]
	d.append(log, 17, testEntry)
	if err := log.Close(); err != nil {
		d.t.Fatal(err)
	}
	for _, next := range d.segments()[1:] { // raft-wal may have come to make the next one
		if err := os.Remove(next); err != nil {
			d.t.Fatal(err)
		}
	}
	d.write(d.meta(), meta)
	return full
}

func (d *walDir) append(log logFiles, entries, size int) {
	d.t.Helper()
	var batch []*raft.Log
	for range entries {
		d.n++
		batch = append(batch, &raft.Log{Index: d.n, Term: 1, Data: walData(d.n, size)})
	}
	d.was = d.read(d.mark())
	if err := log.StoreLogs(batch); err != nil {
		d.t.Fatal(err)
	}
}

// walData looks like raft-wal's own records, alternately an entry and two ends of batches, when it
// is read from where records begin. A client may send such data. Five bytes come before it in the
// file.
func walData(index uint64, size int) []byte {
	records := []byte{1, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9, 9, 3, 0, 0, 0, 9, 9, 9, 9}
	return append(append([]byte{9, 9, 9}, bytes.Repeat(records, size/len(records))...), byte(index))
}

// check requires exactly the entries from first to n.
func (d *walDir) check(first uint64) {
	d.t.Helper()
	log := d.open()
	defer log.Close()
	from, _ := log.FirstIndex()
	to, _ := log.LastIndex()
	if from != first || to != d.n {
		d.t.Fatalf("the log is %d to %d, want %d to %d", from, to, first, d.n)
	}
	for i := first; i <= d.n; i++ {
		var l raft.Log
		if err := log.GetLog(i, &l); err != nil || l.Index != i || l.Data[len(l.Data)-1] != byte(i) {
			d.t.Fatalf("entry %d: index %d, %v", i, l.Index, err)
		}
	}
}

// segments returns the files of the log, in order.
func (d *walDir) segments() []string {
	d.t.Helper()
	all, err := filepath.Glob(filepath.Join(d.dir, walName, "*.wal"))
	if err != nil || len(all) == 0 {
		d.t.Fatal(all, err)
	}
	slices.Sort(all)
	return all
}

func (d *walDir) meta() string { return filepath.Join(d.dir, walName, walMetaName) }

func (d *walDir) mark() string { return filepath.Join(d.dir, walName, walMarkName) }

func (d *walDir) read(path string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *walDir) write(path string, b []byte) {
	d.t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// tear zeroes bytes at the end of what was written to the last segment, as if a process had been
// killed in the middle of its last write.
func (d *walDir) tear(n int) {
	d.t.Helper()
	path := d.segments()[len(d.segments())-1]
	b := d.read(path)
	end := len(bytes.TrimRight(b, "\x00"))
	clear(b[end-n : end])
	d.write(path, b)
	d.write(d.mark(), d.was)
}

// What a crash leaves of raft-wal's files is repaired at the start: acknowledged entries are there,
// and the log continues, also after the next start.
func TestWALAfterCrash(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		crash func(d *walDir)
		first uint64
	}{
		{"none", func(*walDir) {}, 1},
		{"in a long batch", func(d *walDir) {
			d.store(8, 4<<10)
			d.tear(9 << 10)
			d.n -= 8
		}, 1},
		{"in a long batch, twice", func(d *walDir) {
			for range 2 {
				d.store(8, 4<<10)
				d.tear(9 << 10)
				d.n -= 8
			}
		}, 1},
		{"in the first batch", func(d *walDir) {
			log := d.open()
			err := errors.Join(log.DeleteRange(1, d.n), log.Close())
			if err != nil {
				d.t.Fatal(err)
			}
			first := d.n + 1
			d.store(8, 4<<10)
			d.tear(9 << 10)
			d.n = first - 1
			d.store(1, 10)
		}, 4},
		{"before a full segment was listed", func(d *walDir) { d.fill() }, 1},
		{"while a segment was filled up", func(d *walDir) {
			full := d.fill()
			b := d.read(full)
			clear(b[len(b)-12:])
			d.write(full, b)
			d.write(d.mark(), d.was)
			d.n -= 17
		}, 1},
		{"while the last segment was written anew", func(d *walDir) {
			meta := d.read(d.meta())
			last := d.segments()[0]
			text := d.read(last)
			d.open().Close()
			d.write(d.meta(), meta)
			d.write(last, text)
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &walDir{t: t, dir: t.TempDir()}
			d.store(2, 100)
			d.store(1, 100)
			tt.crash(d)
			d.store(1, 100)
			d.check(tt.first)
			d.store(2, 40)
			d.check(tt.first)
			if files := d.segments(); len(files) > 2 {
				t.Errorf("files that are not needed are left: %v", files)
			}
		})
	}
}

// A log that is shortened at either end, or emptied, and then continued, is the same after a start.
func TestWALShortened(t *testing.T) {
	t.Parallel()
	d := &walDir{t: t, dir: t.TempDir()}
	shorten := func(first, last uint64) {
		log := d.open()
		if err := errors.Join(log.DeleteRange(first, last), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
	log := d.open()
	for range 40 {
		d.append(log, 1, testEntry)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	shorten(1, 5)
	d.check(6)
	shorten(6, 33)
	d.check(34)
	shorten(39, 40)
	d.n = 38
	d.check(34)
	d.store(3, 100)
	d.check(34)
	shorten(34, d.n)
	d.n = 99 // a snapshot came
	d.store(2, 100)
	d.check(100)
}

// However the files of raft-wal are damaged, Open reports it, does not panic and starts nothing.
func TestDamagedWAL(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(d *walDir)
		reads uint64 // an entry that is first read later; 0: Open says it
	}{
		{"list is text", func(d *walDir) { d.write(d.meta(), []byte(strings.Repeat("not a database\n", 1000))) }, 0},
		{"list is empty", func(d *walDir) { d.write(d.meta(), nil) }, 0},
		{"list is gone", func(d *walDir) { os.Remove(d.meta()) }, 0},
		{"directory is gone", func(d *walDir) { os.RemoveAll(filepath.Join(d.dir, walName)) }, 0},
		{"votes are gone", func(d *walDir) { os.Remove(filepath.Join(d.dir, logName)) }, 0},
		{"full segment is gone", func(d *walDir) { os.Remove(d.segments()[0]) }, 0},
		{"full segment is empty", func(d *walDir) { d.write(d.segments()[0], nil) }, 0},
		{"full segment is another", func(d *walDir) { d.write(d.segments()[0], d.read(d.segments()[1])) }, 0},
		{"length in the last segment", func(d *walDir) { d.flip(d.segments()[1], 32+4) }, 0},
		{"kind of record in the last segment", func(d *walDir) { d.write(d.segments()[1], d.zero(d.segments()[1], 32)) }, 0},
		{"entry in the last segment", func(d *walDir) { d.flip(d.segments()[1], 200) }, 0},
		{"entry in a full segment", func(d *walDir) { d.flip(d.segments()[0], testEntry/2) }, 4},
		{"full segment is cut in its index", func(d *walDir) { // an offset of 4 bytes for each entry
			if err := os.Truncate(d.segments()[0], int64(len(d.read(d.segments()[0]))-40)); err != nil {
				d.t.Fatal(err)
			}
		}, 18},
		{"last segment is cut in the middle", func(d *walDir) { d.cut(d.used() / 2) }, 0},
		{"last segment is cut before its last batch", func(d *walDir) { d.cut(d.used() - testEntry) }, 0},
		{"last segment is cut after its last batch", func(d *walDir) { d.cut(d.used()) }, 0},
		{"last segment is cut to nothing", func(d *walDir) { d.cut(0) }, 0},
		{"last segment is gone", func(d *walDir) { os.Remove(d.segments()[1]) }, 0},
		{"last segment is all zeros", func(d *walDir) { d.write(d.segments()[1], make([]byte, testSegment)) }, 0},
		{"last batch is zeros", func(d *walDir) {
			b, end := d.read(d.segments()[1]), d.used()
			clear(b[end-testEntry : end])
			d.write(d.segments()[1], b)
		}, 0},
		{"last segment is huge", func(d *walDir) { d.cut(1 << 40) }, 0},
		{"list is older than the segments", func(d *walDir) {
			old := d.read(d.meta())
			log := d.open()
			d.append(log, 17, testEntry)
			d.append(log, 1, 100)
			log.Close()
			d.write(d.meta(), old)
		}, 0},
		{"list has lost its key", func(d *walDir) { d.list(func(string) string { return "" }) }, 0},
		{"number in the list", func(d *walDir) {
			d.list(func(text string) string { return strings.Replace(text, `"NextSegmentID":`, `"NextSegmentID":9`, 1) })
		}, 0},
		{"checksum of the list is gone", func(d *walDir) {
			d.list(func(text string) string { return regexp.MustCompile(`,"Sum":\d+`).ReplaceAllString(text, "") })
		}, 0},
		{"page of the list", func(d *walDir) { d.flip(d.meta(), 16+48) }, 0},
		{"mark is text", func(d *walDir) { d.write(d.mark(), []byte("not a mark")) }, 0},
		{"mark is zeros", func(d *walDir) { d.write(d.mark(), make([]byte, walMarkSize)) }, 0},
		{"mark is empty", func(d *walDir) { d.write(d.mark(), nil) }, 0},
		{"bit of the mark", func(d *walDir) { d.flip(d.mark(), 23) }, 0},
	}
	whole := &walDir{t: t, dir: own(t.TempDir())}
	cfg := directoryConfig(filepath.Dir(whole.dir), 1)
	cfg.LogKind = LogWAL
	openAndClose(t, cfg)
	log := whole.open()
	whole.append(log, 3, 100)
	for range 20 {
		whole.append(log, 1, testEntry)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := cfg
			cfg.DataDir = filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(cfg.DataDir, os.DirFS(filepath.Dir(whole.dir))); err != nil {
				t.Fatal(err)
			}
			d := &walDir{t: t, dir: own(cfg.DataDir), n: whole.n, was: whole.was}
			tt.spoil(d)
			data, err := Open(cfg)
			if err == nil {
				err = data.Log().GetLog(tt.reads, new(raft.Log))
				data.Close()
				if tt.reads == 0 {
					t.Fatalf("opened; entry %d: %v", tt.reads, err)
				}
			} else if tt.reads != 0 {
				t.Fatalf("Open: %v, want that of entry %d only", err, tt.reads)
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), cfg.DataDir) {
				t.Errorf("%v, want ErrDamaged with the directory", err)
			}
		})
	}
}

// used returns how many bytes of the last segment are written to.
func (d *walDir) used() int64 {
	all := d.segments()
	return int64(len(bytes.TrimRight(d.read(all[len(all)-1]), "\x00")))
}

// cut shortens the last segment to size bytes.
func (d *walDir) cut(size int64) {
	d.t.Helper()
	all := d.segments()
	if err := os.Truncate(all[len(all)-1], size); err != nil {
		d.t.Fatal(err)
	}
}

// list changes the text of the list of segments; "" removes it.
func (d *walDir) list(change func(string) string) {
	d.t.Helper()
	db, err := bbolt.Open(d.meta(), 0, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, key := tx.Bucket([]byte(metadb.MetaBucket)), []byte(metadb.MetaKey)
		before := string(b.Get(key))
		after := change(before)
		if after == before {
			d.t.Errorf("nothing of the list has changed: %s", before)
		}
		if after == "" {
			return b.Delete(key)
		}
		return b.Put(key, []byte(after))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// The mark never keeps a member with a sound log from starting. It may lag, it may be that of an
// earlier segment, and it may be gone.
func TestWALMarkLags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(d *walDir)
	}{
		{"lost power", func(d *walDir) {
			d.store(3, 100)
			old := d.read(d.mark())
			d.store(5, 100)
			d.write(d.mark(), old)
		}},
		{"lost power in a new segment", func(d *walDir) {
			d.store(17, testEntry)
			d.store(1, 100)
			old := d.read(d.mark())
			d.store(5, 100)
			d.write(d.mark(), old)
		}},
		{"removed", func(d *walDir) {
			d.store(3, 100)
			os.Remove(d.mark())
		}},
		{"killed while the end was removed", func(d *walDir) {
			log := d.open()
			d.append(log, 9, 100)
			meta, last := d.read(d.meta()), len(d.segments())
			if err := errors.Join(log.DeleteRange(5, 9), log.Close()); err != nil {
				d.t.Fatal(err)
			}
			for _, next := range d.segments()[last:] {
				os.Remove(next)
			}
			d.write(d.meta(), meta)
		}},
		{"killed after the end was removed", func(d *walDir) {
			log := d.open()
			d.append(log, 9, 100)
			if err := errors.Join(log.DeleteRange(5, 9), log.Close()); err != nil {
				d.t.Fatal(err)
			}
			all := d.segments()
			os.Remove(all[len(all)-1]) // listed, and not made yet
			d.n = 4
		}},
		{"killed while a segment was made", func(d *walDir) {
			d.store(17, testEntry)
			d.open().Close()
			if d.used() != 0 {
				d.t.Fatal("no segment is empty")
			}
			d.cut(4096)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &walDir{t: t, dir: t.TempDir()}
			tt.do(d)
			d.check(1)
			d.store(2, 100)
			d.check(1)
		})
	}
}

// A segment that a start has rewritten is protected too, although the mark names the one before.
func TestWALZeroedAfterStart(t *testing.T) {
	t.Parallel()
	d := &walDir{t: t, dir: t.TempDir()}
	d.store(5, 1000)
	d.open().Close()
	last := d.segments()[0]
	b, end := d.read(last), d.used()
	clear(b[end-100 : end])
	d.write(last, b)
	if log, err := openLog(LogWAL, d.dir, testSegment, hclog.NewNullLogger()); !errors.Is(err, ErrDamaged) {
		if err == nil {
			log.Close()
		}
		t.Errorf("opened with %v, want ErrDamaged", err)
	}
}

// zero returns the contents of a file with one record's header zeroed.
func (d *walDir) zero(path string, at int) []byte {
	b := d.read(path)
	clear(b[at : at+walRecordHeaderSize])
	return b
}

func (d *walDir) flip(path string, at int) {
	b := d.read(path)
	b[at] ^= 1
	d.write(path, b)
}

// An entry that raft-wal could not read again is not written.
func TestEntryTooLong(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind LogKind) {
		log, err := openLog(kind, t.TempDir(), walSegment, hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		s := &logStore{LogStore: log, metrics: new(writeMetrics), storeGuard: unguarded()}
		long := make([]byte, MaxEntryBytes+1)
		for i, data := range [][]byte{long, long[1:]} {
			err := s.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: []byte("a")}, {Index: 2, Term: 1, Data: data}})
			last, _ := s.LastIndex()
			if refused := i == 0; errors.Is(err, ErrEntryTooLong) != refused || refused != (last == 0) {
				t.Errorf("%d bytes: %v; last index %d", len(data), err, last)
			}
		}
		var l raft.Log
		if err := s.GetLog(2, &l); err != nil || len(l.Data) != MaxEntryBytes {
			t.Errorf("the longest entry: %d bytes, %v", len(l.Data), err)
		}
	})
}

// A directory keeps its kind of log.
func TestLogKind(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind LogKind) {
		for _, apart := range []bool{false, true} {
			cfg := directoryConfig(t.TempDir(), 1)
			if apart {
				cfg.LogDir = t.TempDir()
			}
			cfg.LogKind = kind
			openAndClose(t, cfg)
			openAndClose(t, cfg)
			cfg.LogKind = ""
			openAndClose(t, cfg)
			other := map[LogKind]LogKind{LogBolt: LogWAL, LogWAL: LogBolt}[kind]
			cfg.LogKind = other
			_, err := Open(cfg)
			for _, say := range []string{"identity.json has " + string(kind), fmt.Sprintf("(logStore) is %s", other), fmt.Sprintf("configure logStore=%s", kind)} {
				if !errors.Is(err, errOtherLogKind) || !strings.Contains(err.Error(), say) {
					t.Errorf("Open with %s: %v, want it to say %q", other, err, say)
				}
			}
			id, err := readIdentity(own(cfg.DataDir))
			if err != nil || id.Format != directoryFormat || id.LogKind != kind {
				t.Errorf("the identity is %+v, %v", id, err)
			}
		}
	})
	cfg := directoryConfig(t.TempDir(), 1)
	cfg.SegmentBytes = 0
	openAndClose(t, cfg)
	if id, _ := readIdentity(own(cfg.DataDir)); id.LogKind != DefaultLogKind {
		t.Errorf("a new directory has %q", id.LogKind)
	}
	d := &walDir{t: t, dir: own(cfg.DataDir)}
	if size := len(d.read(d.segments()[0])); size != 16<<20 {
		t.Errorf("a new directory has a segment of %d bytes, want the 16 MiB that docs/storage.md promises", size)
	}
}

// fullDisk makes no file, or writes nothing more, once it is full.
type fullDisk struct {
	types.VFS
	full bool
}

func (d *fullDisk) Create(dir, name string, size uint64) (types.WritableFile, error) {
	file, err := d.VFS.Create(dir, name, size)
	if err == nil && d.full { // as a real one: the file is there, and has no space
		return nil, errors.Join(os.Truncate(filepath.Join(dir, name), 0), file.Close(), syscall.ENOSPC)
	}
	return file, err
}

// A full disk is reported as such, when a write needs a new segment and when a start does. Once
// there is space, all acknowledged entries are there, and the log continues.
func TestWALFullDisk(t *testing.T) {
	t.Parallel()
	d := &walDir{t: t, dir: t.TempDir()}
	dir, disk := filepath.Join(d.dir, walName), &fullDisk{VFS: walfs.New()}
	d.store(1, 100)
	open := func() (log *walLog, err error) {
		err = openCatchingDamage(dir, func() error {
			log, err = openSegments(dir, testSegment, disk, hclog.NewNullLogger())
			return err
		})
		return log, err
	}
	wantFull := func(what string, err error) {
		t.Helper()
		err = WithAdvice(err, false)
		if !errors.Is(err, ErrFull) || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "Free space") {
			t.Errorf("%s: %v, want ErrFull and what to do", what, err)
		}
	}
	log, err := open()
	if err != nil {
		t.Fatal(err)
	}
	disk.full = true
	entry := func() *raft.Log {
		d.n++
		return &raft.Log{Index: d.n, Term: 1, Data: walData(d.n, testEntry)}
	}
	for err == nil {
		err = log.StoreLog(entry())
	}
	d.n--
	wantFull("write", err)
	if err := log.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		log, err := open()
		if err == nil {
			log.Close()
		}
		wantFull("start", err)
	}
	disk.full = false
	d.check(1)
	d.store(3, 100)
	d.check(1)
}
