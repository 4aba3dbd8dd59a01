package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// kinds runs a test on each kind of log.
func kinds(t *testing.T, test func(t *testing.T, kind LogKind)) {
	t.Helper()
	for _, kind := range []LogKind{LogBolt, LogWAL} {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// walDir is a log in raft-wal that is opened again and again.
type walDir struct {
	t   *testing.T
	dir string
	n   uint64 // entries stored
}

func (d *walDir) open() logFiles {
	d.t.Helper()
	log, err := openLog(LogWAL, d.dir, hclog.NewNullLogger())
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

// fill appends a batch that fills the last segment up, and does not come to list the next one.
// It returns the path of the full one.
func (d *walDir) fill() string {
	d.t.Helper()
	log := d.open()
	meta, full := d.read(d.meta()), d.segments()[0]
	d.append(log, 17, 1<<20)
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
	if err := log.StoreLogs(batch); err != nil {
		d.t.Fatal(err)
	}
}

// walData looks like raft-wal's own records, an entry and two ends of batches by turns, if read
// where records begin: a client may send that. Five bytes stand before it in the file.
func walData(index uint64, size int) []byte {
	records := []byte{1, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 9, 9, 9, 9, 3, 0, 0, 0, 9, 9, 9, 9}
	return append(append([]byte{9, 9, 9}, bytes.Repeat(records, size/len(records))...), byte(index))
}

// check wants the entries from first to n, and nothing else.
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

// segments are the files of the log, in order.
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

// tear zeroes the end of what was written to the last segment, in bytes: a process was killed
// in the middle of its last write.
func (d *walDir) tear(n int) {
	d.t.Helper()
	path := d.segments()[len(d.segments())-1]
	b := d.read(path)
	end := len(bytes.TrimRight(b, "\x00"))
	clear(b[end-n : end])
	d.write(path, b)
}

// What a crash leaves of raft-wal's files is mended at the start: what was acknowledged is
// there, and the log goes on, also after the next start.
func TestWALAfterCrash(t *testing.T) {
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

// A log that is shortened at either end, or emptied, and goes on, is the same after a start.
func TestWALShortened(t *testing.T) {
	d := &walDir{t: t, dir: t.TempDir()}
	shorten := func(first, last uint64) {
		log := d.open()
		if err := errors.Join(log.DeleteRange(first, last), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
	log := d.open()
	for range 40 {
		d.append(log, 1, 1<<20)
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

// However the files of raft-wal are damaged, Open says so; it does not panic, and starts
// nothing.
func TestDamagedWAL(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(d *walDir)
		reads uint64 // an entry that is first read later; 0: Open says it
	}{
		{"list is text", func(d *walDir) { d.write(d.meta(), []byte(strings.Repeat("not a database\n", 1000))) }, 0},
		{"list is empty", func(d *walDir) { d.write(d.meta(), nil) }, 0},
		{"list is gone", func(d *walDir) { os.Remove(d.meta()) }, 0},
		{"folder is gone", func(d *walDir) { os.RemoveAll(filepath.Join(d.dir, walName)) }, 0},
		{"votes are gone", func(d *walDir) { os.Remove(filepath.Join(d.dir, logName)) }, 0},
		{"full segment is gone", func(d *walDir) { os.Remove(d.segments()[0]) }, 0},
		{"full segment is empty", func(d *walDir) { d.write(d.segments()[0], nil) }, 0},
		{"full segment is another", func(d *walDir) { d.write(d.segments()[0], d.read(d.segments()[1])) }, 0},
		{"length in the last segment", func(d *walDir) { d.flip(d.segments()[1], 32+4) }, 0},
		{"kind of record in the last segment", func(d *walDir) { d.write(d.segments()[1], d.zero(d.segments()[1], 32)) }, 0},
		{"entry in the last segment", func(d *walDir) { d.flip(d.segments()[1], 200) }, 0},
		{"entry in a full segment", func(d *walDir) { d.flip(d.segments()[0], 1<<19) }, 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := folderConfig(t.TempDir(), 1)
			cfg.LogKind = LogWAL
			openAndClose(t, cfg)
			d := &walDir{t: t, dir: cfg.Dir}
			log := d.open()
			d.append(log, 3, 100)
			for range 20 {
				d.append(log, 1, 1<<20)
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			tt.spoil(d)
			n, err := Open(cfg)
			if err == nil {
				err = n.stores.Log.GetLog(tt.reads, new(raft.Log))
				n.Close()
				if tt.reads == 0 || err == nil || errors.Is(err, raft.ErrLogNotFound) {
					t.Errorf("opened; entry %d: %v", tt.reads, err)
				}
			} else if tt.reads != 0 || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), cfg.Dir) {
				t.Errorf("Open: %v, want ErrDamaged with the folder", err)
			}
		})
	}
}

// zero returns what a file holds, but for one record's header.
func (d *walDir) zero(path string, at int) []byte {
	b := d.read(path)
	clear(b[at : at+recordHeader])
	return b
}

func (d *walDir) flip(path string, at int) {
	b := d.read(path)
	b[at] ^= 1
	d.write(path, b)
}

// What raft-wal could not read again is not written, and reaches no other member.
func TestEntryTooLong(t *testing.T) {
	kinds(t, func(t *testing.T, kind LogKind) {
		log, err := openLog(kind, t.TempDir(), hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		s := &logStore{LogStore: log, figures: new(figures), guard: guard{running: func() bool { return false }, ops: &operations{}}}
		long := make([]byte, maxEntry+1)
		for i, data := range [][]byte{long, long[1:]} {
			err := s.StoreLogs([]*raft.Log{{Index: 1, Term: 1, Data: []byte("a")}, {Index: 2, Term: 1, Data: data}})
			last, _ := s.LastIndex()
			if refused := i == 0; errors.Is(err, ErrTooLong) != refused || refused != (last == 0) {
				t.Errorf("%d bytes: %v; last index %d", len(data), err, last)
			}
		}
		var l raft.Log
		if err := s.GetLog(2, &l); err != nil || len(l.Data) != maxEntry {
			t.Errorf("the longest entry: %d bytes, %v", len(l.Data), err)
		}
	})
	if p := new(Node).Propose(make([]byte, maxEntry+1)); !errors.Is(p.Error(), ErrTooLong) {
		t.Errorf("Propose: %v", p.Error())
	}
}

// A folder keeps its kind of log.
func TestLogKind(t *testing.T) {
	kinds(t, func(t *testing.T, kind LogKind) {
		for _, apart := range []bool{false, true} {
			cfg := folderConfig(t.TempDir(), 1)
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
			for _, say := range []string{"identity.json has " + string(kind), fmt.Sprintf("(logStore) is %s", other)} {
				if !errors.Is(err, ErrOtherLog) || !strings.Contains(err.Error(), say) {
					t.Errorf("Open with %s: %v, want it to say %q", other, err, say)
				}
			}
			id, err := readIdentity(cfg.Dir)
			if want := map[LogKind]int{LogBolt: 1, LogWAL: 2}[kind]; err != nil || id.Format != want {
				t.Errorf("format %d, %v, want %d: older versions know BoltDB only", id.Format, err, want)
			}
		}
	})
	cfg := folderConfig(t.TempDir(), 1)
	openAndClose(t, cfg)
	if id, _ := readIdentity(cfg.Dir); id.Store != DefaultLogKind {
		t.Errorf("a new folder has %q", id.Store)
	}
	write(t, filepath.Join(cfg.Dir, identityName), `{"format": 1, "member": 1, "servers": ["1 m1:3888"]}`)
	if id, err := readIdentity(cfg.Dir); err != nil || id.Store != LogBolt {
		t.Errorf("a folder from before there was a choice: %q, %v", id.Store, err)
	}
}
