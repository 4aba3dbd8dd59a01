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

// boltDir is a BoltDB that is opened again and again, beside an empty log.
type boltDir struct {
	t    *testing.T
	dir  string
	term uint64 // that was stored last
}

func (d *boltDir) open() *logFiles {
	d.t.Helper()
	log, err := openLog(d.dir, d.dir, testSegment, logOpening{}, hclog.NewNullLogger())
	if err != nil {
		d.t.Fatal(err)
	}
	return log
}

// store opens the store, stores the next term and closes it.
func (d *boltDir) store() {
	d.t.Helper()
	log := d.open()
	d.term++
	if err := errors.Join(log.SetUint64(keyTerm, d.term), log.Close()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *boltDir) path(name string) string { return filepath.Join(d.dir, name) }

func (d *boltDir) read(name string) []byte {
	d.t.Helper()
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// unmarked changes the file without its mark.
func (d *boltDir) unmarked(do func(s *raftboltdb.BoltStore) error) {
	d.t.Helper()
	s, err := raftboltdb.New(raftboltdb.Options{Path: d.path(logName), BoltOptions: boltOptions()})
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
			d.store()
			write(d.t, d.path(boltMarkName), string(was))
		}},
		{"removed", func(d *boltDir) { os.Remove(d.path(boltMarkName)) }},
		{"the term changed, and the mark was lost", func(d *boltDir) {
			d.unmarked(func(s *raftboltdb.BoltStore) error {
				d.term = 100
				return s.SetUint64(keyTerm, d.term)
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := &boltDir{t: t, dir: t.TempDir()}
			d.store()
			d.store()
			tt.do(d)
			log := d.open()
			defer log.Close()
			if term, err := log.GetUint64(keyTerm); term != d.term || err != nil {
				t.Errorf("term %d, %v, want %d", term, err, d.term)
			}
		})
	}
}

// Damage that bbolt does not notice is found: changed values, an older copy of the file, and a log that an earlier build kept
// there.
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
	}{
		{"term", func(d *boltDir) {
			spoil(d, "CurrentTerm\x00\x00\x00\x00\x00\x00\x00\x02", "CurrentTerm\x00\x00\x00\x00\x00\x00\x00\x01")
		}},
		{"name of the term", func(d *boltDir) { spoil(d, "CurrentTerm", "CurrentTerl") }},
		{"name of a bucket", func(d *boltDir) { spoil(d, "logs", "lofs") }},
		{"entries of a log", func(d *boltDir) {
			d.unmarked(func(s *raftboltdb.BoltStore) error { return s.StoreLog(&raft.Log{Index: 1, Term: 8}) })
		}},
		{"newest meta page", func(d *boltDir) {
			b := d.read(logName)
			b[os.Getpagesize()+boltMetaAt+boltTxAt] ^= 1
			write(d.t, d.path(logName), string(b))
		}},
		{"older file", func(d *boltDir) {
			was := d.read(logName)
			d.store()
			write(d.t, d.path(logName), string(was))
		}},
		{"mark is zeros", func(d *boltDir) { write(d.t, d.path(boltMarkName), string(make([]byte, boltMarkSize))) }},
		{"mark is cut", func(d *boltDir) { write(d.t, d.path(boltMarkName), string(d.read(boltMarkName)[:5])) }},
		{"bit of the mark", func(d *boltDir) {
			b := d.read(boltMarkName)
			b[12] ^= 4
			write(d.t, d.path(boltMarkName), string(b))
		}},
	}
	whole := &boltDir{t: t, dir: t.TempDir()}
	whole.store()
	whole.store()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := &boltDir{t: t, dir: filepath.Join(t.TempDir(), "copy"), term: whole.term}
			take(t, whole.dir, d.dir)
			tt.do(d)
			log, err := openLog(d.dir, d.dir, testSegment, logOpening{}, hclog.NewNullLogger())
			if err == nil {
				log.Close()
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
	mine, others := directoryConfig(t.TempDir(), 1), directoryConfig(t.TempDir(), 2)
	for _, cfg := range []*Config{&mine, &others} {
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
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), logName+": damaged: it belongs to another log") {
		t.Errorf("Open: %v, want ErrDamaged, and that it is of another log", err)
	}
}
