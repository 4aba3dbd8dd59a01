package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

const (
	// testSegment is the limit of a segment's size in tests, in bytes: a test fills several of them.
	testSegment = 128 << 10
	// testEntry is the size of a long entry, in bytes: 15 of them fill a segment.
	testEntry = testSegment / 16
)

// segmentDir is a log that is opened again and again.
type segmentDir struct {
	t   *testing.T
	dir string
	n   uint64 // index of the last entry
}

func tryOpen(dir string) (*segmentLog, error) {
	return openSegmentLog(dir, testSegment, logOpening{}, hclog.NewNullLogger())
}

func (d *segmentDir) open() *segmentLog {
	d.t.Helper()
	l, err := tryOpen(d.dir)
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

// do opens the log, calls do and closes the log.
func (d *segmentDir) do(do func(l *segmentLog) error) {
	d.t.Helper()
	l := d.open()
	if err := errors.Join(do(l), l.Close()); err != nil {
		d.t.Fatal(err)
	}
}

// store appends one batch of entries.
func (d *segmentDir) store(entries, size int) {
	d.t.Helper()
	d.do(func(l *segmentLog) error { return l.StoreLogs(d.batch(entries, size)) })
}

func (d *segmentDir) batch(entries, size int) (logs []*raft.Log) {
	for range entries {
		d.n++
		logs = append(logs, testLog(d.n, size))
	}
	return logs
}

// testLog returns an entry that depends on its index only.
func testLog(index uint64, size int) *raft.Log {
	l := &raft.Log{Index: index, Term: index / 3, Type: raft.LogType(index % 3), Data: bytes.Repeat([]byte{byte(index), 1, 0, 3}, size/4)}
	if index%2 == 0 {
		l.AppendedAt, l.Extensions = time.Unix(0, int64(index)), []byte("more")
	}
	return l
}

// check requires exactly the entries from first to n.
func (d *segmentDir) check(first uint64) {
	d.t.Helper()
	d.do(func(l *segmentLog) error {
		from, _ := l.FirstIndex()
		to, _ := l.LastIndex()
		if from != first || to != d.n {
			return fmt.Errorf("the log is %d to %d, want %d to %d", from, to, first, d.n)
		}
		for i := first; i > 0 && i <= d.n; i++ {
			var e raft.Log
			if err := l.GetLog(i, &e); err != nil {
				return err
			}
			if want := testLog(i, len(e.Data)); !reflect.DeepEqual(&e, want) {
				return fmt.Errorf("entry %d is %v, want %v", i, e, want)
			}
		}
		return nil
	})
}

func (d *segmentDir) segments() []string {
	d.t.Helper()
	all, err := globIn(d.dir, "*"+segmentSuffix)
	if err != nil || len(all) == 0 {
		d.t.Fatal(all, err)
	}
	slices.Sort(all)
	return all
}

func (d *segmentDir) lastPath() string { return slices.Max(d.segments()) }

func (d *segmentDir) mark() string { return filepath.Join(d.dir, logMarkName) }

func (d *segmentDir) read(path string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

func (d *segmentDir) write(path string, b []byte) {
	d.t.Helper()
	if err := os.WriteFile(path, b, fileMode); err != nil {
		d.t.Fatal(err)
	}
}

// used returns the offset at which the last segment's records end, if the last record does not end in zeros.
func (d *segmentDir) used() int {
	const end = recordAlignment
	return (len(bytes.TrimRight(d.read(d.lastPath()), "\x00")) + end - 1) / end * end
}

func (d *segmentDir) change(path string, change func(b []byte) []byte) {
	d.t.Helper()
	d.write(path, change(d.read(path)))
}

func flipAt(at int) func(b []byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 1
		return b
	}
}

func zeroAt(from, to int) func(b []byte) []byte {
	return func(b []byte) []byte {
		clear(b[from:to])
		return b
	}
}

// resealed returns a header with other fields and the right checksum.
func resealed(change func(h *segmentHeader)) func(b []byte) []byte {
	return func(b []byte) []byte {
		h, _ := decodeSegmentHeader(b)
		change(&h)
		return append(h.encode(), b[segmentHeaderSize:]...)
	}
}

// filled returns a log with several full segments, whose last one has three batches of three entries.
func filled(t *testing.T) *segmentDir {
	t.Helper()
	d := &segmentDir{t: t, dir: filepath.Join(t.TempDir(), logDirName)}
	d.store(3, 100)
	d.do(func(l *segmentLog) error {
		for range 60 {
			if err := l.StoreLogs(d.batch(1, testEntry)); err != nil {
				return err
			}
		}
		return nil
	})
	for d.used()+3*3*2*testEntry/4 > testSegment {
		d.store(1, testEntry)
	}
	for range 3 {
		d.store(3, 1000)
	}
	return d
}

func (d *segmentDir) copy(t *testing.T) *segmentDir {
	t.Helper()
	c := &segmentDir{t: t, dir: filepath.Join(t.TempDir(), logDirName), n: d.n}
	take(t, d.dir, c.dir)
	return c
}

// A log returns the entries that were stored, also after a restart and at the limits of segments. It rejects entries
// that it could not return.
func TestSegmentLog(t *testing.T) {
	t.Parallel()
	d := filled(t)
	d.check(1)
	d.store(3, testSegment) // a batch that is longer than a segment
	d.store(1, 4)
	d.check(1)
	for _, path := range d.segments() {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v: %v", path, info.Mode(), err)
		}
	}
	d.do(func(l *segmentLog) error {
		for _, logs := range [][]*raft.Log{
			{testLog(d.n, 4)},
			{testLog(d.n+2, 4)},
			{testLog(d.n+1, 4), testLog(d.n+3, 4)},
			{testLog(0, 4)},
		} {
			if err := l.StoreLogs(logs); err == nil {
				t.Errorf("stored %v after entry %d", logs, d.n)
			}
		}
		if err := l.DeleteRange(5, 6); err == nil {
			t.Error("entries in the middle were deleted")
		}
		if err := errors.Join(l.StoreLogs(nil), l.DeleteRange(d.n+1, d.n+9), l.DeleteRange(0, 0)); err != nil {
			t.Error(err)
		}
		for _, i := range []uint64{0, d.n + 1} {
			if err := l.GetLog(i, new(raft.Log)); err != raft.ErrLogNotFound { //nolint:errorlint // raft compares it so
				t.Errorf("entry %d: %v", i, err)
			}
		}
		return nil
	})
	d.check(1)
	l := d.open()
	l.Close()
	if err := l.GetLog(1, new(raft.Log)); !errors.Is(err, errLogClosed) || l.StoreLog(testLog(d.n+1, 4)) == nil {
		t.Errorf("a closed log: %v", err)
	}
}

// A new segment that finds the disk full waits for the files that are about to go, and is made then. It is tried once if there are
// none, or if something else is wrong.
func TestSegmentOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		first error // of the first try
		waits bool  // a file waits for its removal
		tries int
		want  error
	}{
		{"space", nil, true, 1, nil},
		{"full, and a file waits", syscall.ENOSPC, true, 2, nil},
		{"over the quota, and a file waits", syscall.EDQUOT, true, 2, nil},
		{"full, and no file waits", syscall.ENOSPC, false, 1, syscall.ENOSPC},
		{"broken, and a file waits", syscall.EIO, true, 1, syscall.EIO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := filled(t)
			d.do(func(l *segmentLog) error {
				path := filepath.Join(d.dir, "unneeded")
				if tt.waits {
					if err := errors.Join(os.WriteFile(path, nil, fileMode), os.Truncate(path, 3*removePiece)); err != nil {
						return err
					}
					l.remover.remove(path)
				}
				tries := 0
				l.create = func(dir string, h segmentHeader) (*segment, error) {
					if tries++; tries == 1 && tt.first != nil {
						return nil, os.NewSyscallError("fallocate", tt.first)
					}
					if _, err := os.Stat(path + removedSuffix); tries > 1 && !errors.Is(err, os.ErrNotExist) {
						t.Errorf("tried again before the file is gone: %v", err)
					}
					return createSegment(dir, h)
				}
				before := len(l.segments)
				err := l.begin(l.headerAfterLast(testSegment))
				if !errors.Is(err, tt.want) || tries != tt.tries || len(l.segments) > before != (tt.want == nil) {
					t.Errorf("%v after %d tries, %d segments more; want %v after %d", err, tries, len(l.segments)-before, tt.want, tt.tries)
				}
				return nil
			})
		})
	}
}

// A log that is shortened at either end, or emptied, and then continued, is the same after a start. Segments that are not
// needed go, at the next start at the latest.
func TestSegmentLogShortened(t *testing.T) {
	t.Parallel()
	d := filled(t)
	shorten := func(first, last uint64) {
		d.do(func(l *segmentLog) error {
			err := l.DeleteRange(first, last)
			l.remover.waitUntilEmpty()
			return err
		})
	}
	shorten(0, 5)
	d.check(6)
	before := len(d.segments())
	shorten(6, 40)
	d.check(41)
	if after := len(d.segments()); after > before-2 {
		t.Errorf("%d of %d segments are left", after, before)
	}
	d.n -= 4 // in the middle of a batch
	shorten(d.n+1, d.n+4)
	d.check(41)
	d.store(3, 100)
	d.check(41)
	d.n = 50 // in an earlier segment
	shorten(51, 1<<60)
	d.check(41)
	d.store(2, 100)
	shorten(41, 51)
	d.check(52)
	d.do(func(l *segmentLog) error {
		if err := l.DeleteRange(1, 1<<60); err != nil {
			return err
		}
		first, _ := l.FirstIndex()
		last, _ := l.LastIndex()
		if first != 0 || last != 0 {
			t.Errorf("an emptied log is %d to %d", first, last)
		}
		return nil
	})
	if left := len(d.segments()); left != 1 {
		t.Errorf("an emptied log has %d segments", left)
	}
	d.n = 99 // a snapshot came
	d.store(2, testSegment)
	d.check(100)
	d.n = 0
	d.do(func(l *segmentLog) error { return l.DeleteRange(100, 101) })
	d.store(2, 100)
	d.check(1)
}

// Whatever happens to the files, either all entries are there, or a start rejects the files, names the directory and
// changes nothing.
func TestDamagedSegments(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	other := filled(t)
	all := whole.segments()
	last, end := all[len(all)-1], whole.used()
	var lastBatch, batchBefore int // where they begin
	whole.do(func(l *segmentLog) error {
		lastBatch, batchBefore = l.last().offsetOf(whole.n-2), l.last().offsetOf(whole.n-5)
		return nil
	})
	tests := []struct {
		name  string
		spoil func(d *segmentDir, path func(i int) string) // path returns the i-th segment; -1 is the last one
	}{
		{"first segment is gone", func(d *segmentDir, path func(int) string) { os.Remove(path(0)) }},
		{"segment in the middle is gone", func(d *segmentDir, path func(int) string) { os.Remove(path(1)) }},
		{"last segment is gone", func(d *segmentDir, path func(int) string) { os.Remove(path(-1)) }},
		{"all segments are gone", func(d *segmentDir, path func(int) string) {
			for _, p := range d.segments() {
				os.Remove(p)
			}
		}},
		{"segment is empty", func(d *segmentDir, path func(int) string) { d.write(path(1), nil) }},
		{"segment is cut", func(d *segmentDir, path func(int) string) {
			d.change(path(1), func(b []byte) []byte { return b[:len(b)-1] })
		}},
		{"segment is longer", func(d *segmentDir, path func(int) string) {
			d.change(path(1), func(b []byte) []byte { return append(b, 0) })
		}},
		{"last segment is cut behind its end", func(d *segmentDir, path func(int) string) {
			d.change(path(-1), func(b []byte) []byte { return b[:end] })
		}},
		{"last segment is huge", func(d *segmentDir, path func(int) string) {
			if err := os.Truncate(path(-1), 1<<40); err != nil {
				d.t.Fatal(err)
			}
		}},
		{"segment is another", func(d *segmentDir, path func(int) string) { d.write(path(1), d.read(path(0))) }},
		{"segment has another number", func(d *segmentDir, path func(int) string) {
			h, _ := decodeSegmentHeader(d.read(path(1)))
			h.number += 100
			if err := os.Rename(path(1), filepath.Join(d.dir, h.name())); err != nil {
				d.t.Fatal(err)
			}
		}},
		{"segment is that of another member", func(d *segmentDir, path func(int) string) {
			d.write(path(1), other.read(filepath.Join(other.dir, filepath.Base(path(1)))))
		}},
		{"last segment is that of another member", func(d *segmentDir, path func(int) string) {
			d.write(path(-1), other.read(filepath.Join(other.dir, filepath.Base(path(-1)))))
		}},
		{"all segments are those of another member", func(d *segmentDir, path func(int) string) {
			for _, p := range d.segments() {
				d.write(p, other.read(filepath.Join(other.dir, filepath.Base(p))))
			}
		}},
		{"magic", func(d *segmentDir, path func(int) string) { d.change(path(1), flipAt(2)) }},
		{"header", func(d *segmentDir, path func(int) string) { d.change(path(1), flipAt(segmentHeaderSize-8)) }},
		{"front in the last header", func(d *segmentDir, path func(int) string) { d.change(path(-1), flipAt(47)) }},
		{"segment of another log that is not needed", func(d *segmentDir, path func(int) string) {
			d.do(func(l *segmentLog) error {
				err := l.DeleteRange(1, d.n-4)
				l.remover.waitUntilEmpty()
				return err
			})
			d.write(path(0), other.read(filepath.Join(other.dir, filepath.Base(path(0)))))
		}},
		{"records of two runs", func(d *segmentDir, path func(int) string) {
			twin := d.copy(t)
			d.do(func(l *segmentLog) error {
				return errors.Join(l.StoreLog(testLog(d.n+1, 40)), l.StoreLog(testLog(d.n+2, 40)))
			})
			twin.do(func(l *segmentLog) error {
				first := testLog(d.n+1, 40)
				first.Term++
				return errors.Join(l.StoreLog(first), l.StoreLog(testLog(d.n+2, 40)))
			})
			size := len(bytes.TrimRight(d.read(path(-1)), "\x00"))
			second := twin.read(filepath.Join(twin.dir, filepath.Base(path(-1))))
			d.change(path(-1), func(b []byte) []byte { copy(b[size-100:], second[size-100:]); return b })
		}},
		{"segments of two runs", func(d *segmentDir, path func(int) string) {
			twin := d.copy(t)
			run := func(d *segmentDir, term uint64) {
				d.do(func(l *segmentLog) error {
					for i := range uint64(4) {
						e := testLog(d.n+1+i, testSegment/2-1000)
						e.Term = term
						if err := l.StoreLog(e); err != nil {
							return err
						}
					}
					return nil
				})
			}
			run(d, 1)
			run(twin, 2)
			for _, p := range []string{d.lastPath(), d.mark()} {
				d.write(p, twin.read(filepath.Join(twin.dir, filepath.Base(p))))
			}
		}},
		{"header of another base", func(d *segmentDir, path func(int) string) {
			d.change(path(1), resealed(func(h *segmentHeader) { h.base++ }))
		}},
		{"header that follows another record", func(d *segmentDir, path func(int) string) {
			d.change(path(1), resealed(func(h *segmentHeader) { h.before++ }))
		}},
		{"header of an earlier front", func(d *segmentDir, path func(int) string) {
			os.Remove(path(0))
			d.change(path(1), resealed(func(h *segmentHeader) { h.front++ }))
		}},
		{"header of another log", func(d *segmentDir, path func(int) string) {
			d.change(path(0), resealed(func(h *segmentHeader) { h.logID++ }))
		}},
		{"entry in a full segment", func(d *segmentDir, path func(int) string) { d.change(path(0), flipAt(testEntry/2)) }},
		{"end of a full segment", func(d *segmentDir, path func(int) string) {
			d.change(path(0), zeroAt(testSegment-2*testEntry, testSegment))
		}},
		{"first record of the last segment", func(d *segmentDir, path func(int) string) { d.change(path(-1), flipAt(segmentHeaderSize+9)) }},
		{"length in the last batch", func(d *segmentDir, path func(int) string) { d.change(path(-1), flipAt(lastBatch+5)) }},
		{"entry in the last batch", func(d *segmentDir, path func(int) string) { d.change(path(-1), flipAt(end-500)) }},
		{"last batch is zeros", func(d *segmentDir, path func(int) string) { d.change(path(-1), zeroAt(lastBatch, end)) }},
		{"a sector of the last batch is zeros", func(d *segmentDir, path func(int) string) {
			at := (end - 1500) / sectorSize * sectorSize
			d.change(path(-1), zeroAt(at, at+sectorSize))
		}},
		{"all but the header is zeros", func(d *segmentDir, path func(int) string) { d.change(path(-1), zeroAt(segmentHeaderSize, testSegment)) }},
		{"record in another place", func(d *segmentDir, path func(int) string) {
			d.change(path(-1), func(b []byte) []byte { copy(b[end:], b[lastBatch:end]); return b })
		}},
		{"batch is missing", func(d *segmentDir, path func(int) string) {
			d.change(path(-1), func(b []byte) []byte { copy(b[batchBefore:], b[lastBatch:end]); clear(b[lastBatch:end]); return b })
		}},
		{"flipped, and the mark is older", func(d *segmentDir, path func(int) string) {
			d.lag()
			d.change(path(-1), flipAt(end-500))
		}},
		{"flipped in a header, and the mark is older", func(d *segmentDir, path func(int) string) {
			d.lag()
			d.change(path(-1), flipAt(lastBatch+17))
		}},
		{"earlier batch is zeros, and the mark is older", func(d *segmentDir, path func(int) string) {
			d.lag()
			d.change(path(-1), zeroAt(batchBefore, lastBatch))
		}},
		{"mark is text", func(d *segmentDir, _ func(int) string) { d.write(d.mark(), []byte("not a mark")) }},
		{"mark is zeros", func(d *segmentDir, _ func(int) string) { d.write(d.mark(), make([]byte, logMarkSize)) }},
		{"mark is empty", func(d *segmentDir, _ func(int) string) { d.write(d.mark(), nil) }},
		{"bit of the mark", func(d *segmentDir, _ func(int) string) { d.change(d.mark(), flipAt(23)) }},
		{"mark is that of another member", func(d *segmentDir, _ func(int) string) { d.write(d.mark(), other.read(other.mark())) }},
	}
	if len(all) < 4 || filepath.Base(last) == filepath.Base(all[1]) {
		t.Fatalf("the segments are %v", all)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := whole.copy(t)
			tt.spoil(d, func(i int) string { return filepath.Join(d.dir, filepath.Base(all[(i+len(all))%len(all)])) })
			before := d.contents()
			l, err := tryOpen(d.dir)
			if err == nil {
				l.Close()
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.dir) {
				t.Errorf("%v, want ErrDamaged with the directory", err)
			}
			if !reflect.DeepEqual(before, d.contents()) {
				t.Error("the files have changed")
			}
		})
	}
}

// lag sets the mark back to the first segment, as a loss of power may.
func (d *segmentDir) lag() {
	e, _ := decodeLogEnd(d.read(d.mark()))
	e.segment, e.index = 1, 1
	d.write(d.mark(), e.encode())
}

// contents returns the files with their contents, except for those that are too long.
func (d *segmentDir) contents() map[string]string {
	d.t.Helper()
	files := map[string]string{}
	for _, path := range filesIn(d.dir) {
		if info, err := os.Stat(path); err == nil && info.Size() < 1<<30 {
			files[filepath.Base(path)] = string(d.read(path))
		}
	}
	return files
}

// An entry that changes while the log is open is not read. One that the system cannot read is not called damaged.
func TestReadFails(t *testing.T) {
	t.Parallel()
	d := filled(t)
	d.do(func(l *segmentLog) error {
		path := d.lastPath()
		d.change(path, flipAt(d.used()-100))
		if err := l.GetLog(d.n, new(raft.Log)); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("a changed entry: %v", err)
		}
		if err := os.Truncate(path, segmentHeaderSize); err != nil {
			return err
		}
		if err := l.GetLog(d.n, new(raft.Log)); !errors.Is(err, ErrDamaged) {
			t.Errorf("a cut segment: %v", err)
		}
		if err := l.last().file.Close(); err != nil {
			return err
		}
		file, err := os.Open(d.dir)
		if l.last().file = file; err != nil {
			return err
		}
		if err := l.GetLog(d.n, new(raft.Log)); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("a failed read: %v", err)
		}
		if err := l.DeleteRange(d.n, d.n); err == nil || errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.dir) {
			t.Errorf("a deletion that cannot read the entry before: %v", err)
		}
		return nil
	})
}

// After a failed write or sync nothing more is written, and the entries before it can be read.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	for name, open := range map[string]func(d *segmentDir) (*os.File, error){
		"the write fails": func(d *segmentDir) (*os.File, error) { return os.Open(d.lastPath()) },
		"the sync fails":  func(*segmentDir) (*os.File, error) { return openUnsyncable() },
	} {
		t.Run(name, func(t *testing.T) {
			d := whole.copy(t)
			l := d.open()
			defer l.Close()
			failing, err := open(d)
			if err != nil {
				t.Fatal(err)
			}
			defer failing.Close()
			sound := l.last().file
			l.last().file = failing
			first := l.StoreLog(testLog(d.n+1, 4))
			l.last().file = sound
			for what, err := range map[string]error{"write": first, "next write": l.StoreLog(testLog(d.n+1, 4)), "deletion": l.DeleteRange(1, 2)} {
				if err == nil || !strings.Contains(err.Error(), d.dir) || errors.Is(err, ErrDamaged) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if err := l.GetLog(d.n, new(raft.Log)); err != nil {
				t.Error(err)
			}
			if last, _ := l.LastIndex(); last != d.n {
				t.Errorf("the log ends with %d, want %d", last, d.n)
			}
		})
	}
}

// openUnsyncable opens a file that takes every write, and that the system cannot sync.
func openUnsyncable() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) }

// A last batch that lacks a sector in one of its records is torn, although the records after that one are whole. The log
// ends before the batch, and continues in another segment.
func TestTornBatch(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	for lost := range uint64(3) { // of the three records of the last batch
		d := whole.copy(t)
		d.tear(lost)
		segments := len(d.segments())
		d.n -= 3
		d.store(2, 1000)
		d.check(1)
		if got := len(d.segments()); got != segments+1 {
			t.Errorf("record %d lacks a sector: %d segments, want %d", lost, got, segments+1)
		}
	}
}

// tear takes a sector of one of the three records in the last batch, as a loss of power does before the mark is written.
func (d *segmentDir) tear(lost uint64) {
	d.t.Helper()
	at := 0
	d.do(func(l *segmentLog) error {
		at = l.last().offsetOf(d.n-2+lost) + recordHeaderSize
		return nil
	})
	d.lag()
	at = (at + sectorSize - 1) / sectorSize * sectorSize
	d.change(d.lastPath(), zeroAt(at, at+sectorSize))
}

// A log whose mark lags is opened, and so is one whose first start has not made its mark. Then the mark is made new.
func TestMarkLags(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(d *segmentDir){
		"lags": (*segmentDir).lag,
		"gone": func(d *segmentDir) { os.Remove(d.mark()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := filled(t)
			want, _ := decodeLogEnd(d.read(d.mark()))
			do(d)
			d.check(1)
			if got, err := decodeLogEnd(d.read(d.mark())); got.segment != want.segment || got.index != want.index || err != nil {
				t.Errorf("the mark is %+v, %v; want that of the end, %+v", got, err, want)
			}
		})
	}
}

// Where fallocate is missing, a segment has its size all the same, and all of it is on the disk.
func TestAllocateByWriting(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 3<<20 + 7
	if err := allocateByWriting(file, size); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file.Name()); err != nil || len(b) != size || !isZero(b) {
		t.Errorf("%d bytes, zeros: %t, %v", len(b), isZero(b), err)
	}
}

// A directory of a new member is small, and its segments grow.
func TestSizesOfSegments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), logDirName)
	l, err := openSegmentLog(dir, maxSegmentBytes, logOpening{}, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var sizes []int64
	for i := uint64(1); len(sizes) < 9; i++ {
		if size := l.last().size; len(sizes) == 0 || l.last().number > uint64(len(sizes)) {
			sizes = append(sizes, size)
		}
		if err := l.StoreLog(testLog(i, 200<<10)); err != nil {
			t.Fatal(err)
		}
	}
	want := []int64{256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 16 << 20, 16 << 20}
	if !slices.Equal(sizes, want) {
		t.Errorf("the sizes are %v, want %v", sizes, want)
	}
}

// An entry as long as the limit is stored, and no longer one.
func TestEntryTooLong(t *testing.T) {
	t.Parallel()
	log, err := openLog(t.TempDir(), t.TempDir(), 0, logOpening{}, hclog.NewNullLogger())
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
}
