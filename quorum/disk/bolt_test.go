package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// boltDir is a log in BoltDB that is opened again and again.
type boltDir struct {
	t   *testing.T
	dir string
	n   uint64 // entries stored
}

func (d *boltDir) open() logFiles {
	d.t.Helper()
	log, err := openLog(LogBolt, d.dir, 0, hclog.NewNullLogger())
	if err != nil {
		d.t.Fatal(err)
	}
	return log
}

// store opens the log, appends some entries one by one, stores a term and closes the log.
func (d *boltDir) store(entries int) {
	d.t.Helper()
	log := d.open()
	for range entries {
		d.n++
		if err := log.StoreLog(&raft.Log{Index: d.n, Term: 7, Data: boltData(d.n)}); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := errors.Join(log.SetUint64(keyTerm, 7), log.Close()); err != nil {
		d.t.Fatal(err)
	}
}

func boltData(i uint64) []byte { return bytes.Repeat([]byte{'d', byte(i)}, 50) }

func (d *boltDir) path(name string) string { return filepath.Join(d.dir, name) }

func (d *boltDir) read(name string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// unmarked changes the file without its mark, and appends without checksums.
func (d *boltDir) unmarked(do func(s *raftboltdb.BoltStore) error) {
	d.t.Helper()
	s, err := raftboltdb.New(raftboltdb.Options{Path: d.path(logName), BoltOptions: boltOptions(0)})
	if err == nil {
		err = errors.Join(do(s), s.Close())
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// The mark of a BoltDB never keeps a member with sound data from starting.
func TestBoltMarkLags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		do   func(d *boltDir)
	}{
		{"not at all", func(*boltDir) {}},
		{"lost power", func(d *boltDir) {
			was := d.read(boltMarkName)
			d.store(3)
			write(d.t, d.path(boltMarkName), string(was))
		}},
		{"removed", func(d *boltDir) { os.Remove(d.path(boltMarkName)) }},
		{"the log was shortened and the term changed, and the mark was lost", func(d *boltDir) {
			d.unmarked(func(s *raftboltdb.BoltStore) error {
				d.n -= 2
				return errors.Join(s.DeleteRange(d.n+1, d.n+2), s.SetUint64(keyTerm, 7))
			})
		}},
		{"the log was shortened at both ends", func(d *boltDir) {
			log := d.open()
			d.n--
			if err := errors.Join(log.DeleteRange(d.n+1, d.n+1), log.DeleteRange(1, 2), log.Close()); err != nil {
				d.t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &boltDir{t: t, dir: t.TempDir()}
			d.store(9)
			tt.do(d)
			d.store(2)
			log := d.open()
			defer log.Close()
			first, _ := log.FirstIndex()
			last, _ := log.LastIndex()
			if last != d.n {
				t.Errorf("the log ends with %d, want %d", last, d.n)
			}
			for i := first; i <= last; i++ {
				var l raft.Log
				if err := log.GetLog(i, &l); err != nil || !bytes.Equal(l.Data, boltData(i)) || l.Extensions != nil {
					t.Errorf("entry %d: %q, extensions %x, %v", i, l.Data, l.Extensions, err)
				}
			}
			if term, err := log.GetUint64(keyTerm); term != 7 || err != nil {
				t.Errorf("term %d, %v", term, err)
			}
		})
	}
}

// Damage that bbolt does not notice is found: changed values and entries, an older copy of the
// file, another member's file, and a log with a hole.
func TestDamagedBolt(t *testing.T) {
	t.Parallel()
	spoil := func(d *boltDir, old, changed string) {
		d.t.Helper()
		b := d.read(logName)
		if after := bytes.ReplaceAll(b, []byte(old), []byte(changed)); bytes.Equal(after, b) {
			d.t.Fatalf("there is no %q", old)
		} else {
			write(d.t, d.path(logName), string(after))
		}
	}
	tests := []struct {
		name string
		do   func(d *boltDir)
		read uint64 // an entry that is read first; 0: opening says it
	}{
		{"term", func(d *boltDir) {
			spoil(d, "CurrentTerm\x00\x00\x00\x00\x00\x00\x00\x07", "CurrentTerm\x00\x00\x00\x00\x00\x00\x00\x06")
		}, 0},
		{"name of the term", func(d *boltDir) { spoil(d, "CurrentTerm", "CurrentTerl") }, 0},
		{"name of the log", func(d *boltDir) { spoil(d, "logs", "lofs") }, 0},
		{"an entry", func(d *boltDir) { spoil(d, string(boltData(5)), string(boltData(6))) }, 5},
		{"length in an entry", func(d *boltDir) {
			b := d.read(logName)
			length := string(b[bytes.Index(b, boltData(5))-2:][:2])
			// In all pages, used or not. The decoder reads the data where it expects a name.
			spoil(d, length+string(boltData(5)), "\x00\x00"+string(boltData(5)))
		}, 5},
		{"an entry without a checksum", func(d *boltDir) {
			d.unmarked(func(s *raftboltdb.BoltStore) error {
				return errors.Join(s.DeleteRange(9, 9), s.StoreLog(&raft.Log{Index: 9, Term: 8, Data: boltData(9)}))
			})
		}, 0},
		{"index of an entry", func(d *boltDir) { spoil(d, "\x00\x00\x00\x00\x00\x00\x00\x05", "\x00\x00\x00\x00\x00\x00\x00\x07") }, 0},
		{"number of entries", func(d *boltDir) {
			d.unmarked(func(s *raftboltdb.BoltStore) error { return s.DeleteRange(9, 9) })
			log := d.open() // marks what is there
			log.Close()
			mark, err := decodeBoltMark(d.read(boltMarkName))
			if err != nil {
				d.t.Fatal(err)
			}
			mark.lastIndex++
			write(d.t, d.path(boltMarkName), string(mark.encode()))
		}, 0},
		{"newest meta page", func(d *boltDir) {
			b := d.read(logName)
			b[os.Getpagesize()+boltMetaAt+boltTxAt] ^= 1
			write(d.t, d.path(logName), string(b))
		}, 0},
		{"older file", func(d *boltDir) {
			was := d.read(logName)
			d.store(1)
			write(d.t, d.path(logName), string(was))
		}, 0},
		{"mark is zeros", func(d *boltDir) { write(d.t, d.path(boltMarkName), string(make([]byte, boltMarkSize))) }, 0},
		{"mark is cut", func(d *boltDir) { write(d.t, d.path(boltMarkName), string(d.read(boltMarkName)[:5])) }, 0},
		{"bit of the mark", func(d *boltDir) {
			b := d.read(boltMarkName)
			b[12] ^= 4
			write(d.t, d.path(boltMarkName), string(b))
		}, 0},
	}
	whole := &boltDir{t: t, dir: t.TempDir()}
	whole.store(9)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &boltDir{t: t, dir: filepath.Join(t.TempDir(), "copy"), n: whole.n}
			take(t, whole.dir, d.dir)
			tt.do(d)
			log, err := openLog(LogBolt, d.dir, 0, hclog.NewNullLogger())
			if err == nil {
				err = log.GetLog(tt.read, new(raft.Log))
				log.Close()
				if tt.read == 0 {
					t.Fatal("it was opened")
				}
			} else if tt.read != 0 {
				t.Fatal(err)
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), d.dir) {
				t.Errorf("%v, want ErrDamaged with the file", err)
			}
		})
	}
}

// A raft.db with the votes of another member is not used.
func TestOtherMembersVotes(t *testing.T) {
	t.Parallel()
	kinds(t, func(t *testing.T, kind LogKind) {
		mine, others := directoryConfig(t.TempDir(), 1), directoryConfig(t.TempDir(), 2)
		for _, cfg := range []*Config{&mine, &others} {
			cfg.LogKind = kind
			openAndClose(t, *cfg)
		}
		for _, name := range []string{logName, boltMarkName} {
			b, err := os.ReadFile(filepath.Join(others.DataDir, memberDirName, name))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(mine.DataDir, memberDirName, name), string(b))
		}
		d, err := Open(mine)
		if err == nil {
			d.Close()
		}
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "belongs to member 2") {
			t.Errorf("Open: %v, want ErrDamaged and whose it is", err)
		}
	})
}
