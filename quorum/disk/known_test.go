package disk

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

// knownMember is a member's directories on one day after the other. The log is apart from the data.
type knownMember struct {
	t   *testing.T
	cfg Config
	n   uint64 // index of the last entry
}

func newKnownMember(t *testing.T) *knownMember {
	t.Helper()
	cfg := directoryConfig(t.TempDir(), 1)
	cfg.LogDir, cfg.SegmentBytes = t.TempDir(), testSegment
	return &knownMember{t: t, cfg: cfg}
}

// day starts the member, calls do, and stops it. If it is killed, its stop is not seen in the files that day returns.
func (m *knownMember) day(killed bool, do func(d *Data)) (files map[string]string) {
	m.t.Helper()
	d, err := Open(m.cfg)
	if err == nil {
		err = d.RepairLog(verifyKnown)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	do(d)
	if killed {
		files = m.files()
	}
	if err := d.Close(); err != nil {
		m.t.Fatal(err)
	}
	if !killed {
		files = m.files()
	}
	return files
}

func verifyKnown(r io.Reader) (c SnapshotContents, err error) {
	_, err = fmt.Fscan(r, &c.Index, &c.Term)
	return c, err
}

// store appends entries, one by one.
func (m *knownMember) store(d *Data, entries, size int) {
	m.t.Helper()
	for range entries {
		m.n++
		if err := d.Log().StoreLog(&raft.Log{Index: m.n, Term: 1, Data: make([]byte, size)}); err != nil {
			m.t.Fatal(err)
		}
	}
}

// snapshot stores a snapshot, which the member has taken or received.
func (m *knownMember) snapshot(d *Data, index uint64, taken bool) {
	m.t.Helper()
	_, transport := raft.NewInmemTransport("")
	k, err := d.Snapshots().Create(1, index, 1, raft.Configuration{}, 1, transport)
	if err != nil {
		m.t.Fatal(err)
	}
	if taken {
		k.(*Sink).NoteTaken()
	}
	_, err = fmt.Fprint(k, index, " ", 1)
	if err = errors.Join(err, k.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// knownParts are the parts of a member's directories that may be put back, and the files of each.
var knownParts = map[string]func(name string) bool{
	"the log":       func(name string) bool { return strings.HasPrefix(name, "log/rollcall/"+logDirName+"/") },
	"raft.db":       func(name string) bool { return strings.HasPrefix(name, "log/rollcall/raft.") },
	"log.durable":   func(name string) bool { return name == "data/rollcall/"+outsideMarkName },
	"the snapshots": func(name string) bool { return strings.HasPrefix(name, "data/rollcall/"+snapshotsDir+"/") },
}

// files returns the contents of all files, by their paths.
func (m *knownMember) files() map[string]string {
	m.t.Helper()
	files := map[string]string{}
	for name, dir := range map[string]string{"data": m.cfg.DataDir, "log": m.cfg.LogDir} {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			files[name+strings.TrimPrefix(path, dir)] = string(b)
			return err
		})
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return files
}

// put returns new directories with files.
func (m *knownMember) put(files map[string]string) Config {
	m.t.Helper()
	cfg, top := m.cfg, m.t.TempDir()
	cfg.DataDir, cfg.LogDir = filepath.Join(top, "data"), filepath.Join(top, "log")
	for name, text := range files {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
			m.t.Fatal(err)
		}
		write(m.t, path, text)
	}
	return cfg
}

// mix returns files, with the named parts replaced by the same parts of others.
func mix(files, others map[string]string, parts ...string) map[string]string {
	mixed := maps.Clone(files)
	for _, part := range parts {
		maps.DeleteFunc(mixed, func(name, _ string) bool { return knownParts[part](name) })
		for name, text := range others {
			if knownParts[part](name) {
				mixed[name] = text
			}
		}
	}
	return mixed
}

// opens opens directories as a start does, and returns the last index of the data.
func opens(cfg Config) (last uint64, err error) {
	d, err := Open(cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := d.RepairLog(verifyKnown); err != nil {
		return 0, err
	}
	newest, err := d.NewestSnapshotIndex()
	if err != nil {
		return 0, err
	}
	last, err = d.Log().LastIndex()
	return max(last, newest), err
}

// Each part of a member's directories is from one of two days. A start accepts the mixtures that a crash during a start
// can leave: the log is the newest part, then raft.db, then log.durable. It rejects every other mixture, names the
// contradiction and says what to do. The log is not full on either day, so only the number of starts shows the age of a
// part.
func TestPartsOfTwoDays(t *testing.T) {
	t.Parallel()
	m := newKnownMember(t)
	before := m.day(false, func(d *Data) { m.store(d, 3, 100) })
	after := m.day(true, func(d *Data) { m.store(d, 2, 100) })
	parts := []string{"the log", "raft.db", "log.durable"}
	for old := range 1 << len(parts) {
		var name []string
		isOld := func(i int) bool { return old>>i&1 == 1 }
		for i, part := range parts {
			if isOld(i) {
				name = append(name, part)
			}
		}
		sound := (!isOld(0) || isOld(1)) && (!isOld(1) || isOld(2))
		last, err := opens(m.put(mix(after, before, name...)))
		switch {
		case sound && (err != nil || last != m.n && !isOld(0)):
			t.Errorf("%v are old: the data end with %d, want %d: %v", name, last, m.n, err)
		case !sound && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "older copy") || !strings.Contains(err.Error(), putBackAdvice)):
			t.Errorf("%v are old: %v, want a refusal", name, err)
		}
	}
}

// A log that is restored from an earlier stop is rejected, and so is the whole log directory, or the log of another
// member: raft.db, log.durable or a snapshot contradict it. The restored log itself is complete.
func TestLogOfAnotherDay(t *testing.T) {
	t.Parallel()
	other := newKnownMember(t)
	others := other.day(false, func(d *Data) { other.store(d, 3, 100) })
	m := newKnownMember(t)
	before := m.day(false, func(d *Data) { m.store(d, 3, 100) })
	var hot map[string]string
	rolled := m.day(true, func(d *Data) {
		m.store(d, 2, 100)
		hot = m.files()
		m.store(d, 20, testEntry)
	})
	stopped := m.day(false, func(d *Data) { m.store(d, 2, 100) })
	m.day(false, func(*Data) {})
	var unsaved map[string]string
	taken := m.day(true, func(d *Data) {
		unsaved = m.files()
		m.store(d, 5, 100)
		m.snapshot(d, m.n-1, true)
	})
	var sameTerm map[string]string
	term := m.day(true, func(d *Data) {
		sameTerm = m.files()
		m.store(d, 2, 100)
		if err := d.Stable().SetTerm(7); err != nil {
			t.Fatal(err)
		}
	})
	all := []string{"the log", "raft.db"}
	for _, tt := range []struct {
		name     string
		now, old map[string]string
		parts    []string
		source   string // what contradicts
	}{
		{"log of an earlier stop", stopped, before, []string{"the log"}, logName},
		{"log directory of an earlier stop", stopped, before, all, outsideMarkName},
		{"log and raft.db, where log.durable is old, too, and a snapshot is new", taken, before, append(all, "log.durable"), snapshotsDir},
		{"log of the same run, before a segment was full", rolled, hot, []string{"the log"}, outsideMarkName},
		{"log directory of the same run, before a segment was full", rolled, hot, all, outsideMarkName},
		{"log directory of the same run, before a snapshot was taken", taken, unsaved, all, snapshotsDir},
		{"log of the same run, before the term changed", term, sameTerm, []string{"the log"}, logName},
		{"log of another member", stopped, others, []string{"the log"}, logName},
		{"log of another member, after as many starts", before, others, []string{"the log"}, logName},
		{"log directory of another ensemble", stopped, others, all, outsideMarkName},
		{"raft.db of another member, after as many starts", before, others, []string{"raft.db"}, outsideMarkName},
		{"raft.db of an earlier stop", stopped, before, []string{"raft.db"}, outsideMarkName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mixed := mix(tt.now, tt.old, tt.parts...)
			put := *m
			put.t, put.cfg = t, m.put(mixed)
			_, err := opens(put.cfg)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(fmt.Sprint(err), tt.source) || !strings.Contains(fmt.Sprint(err), putBackAdvice) {
				t.Errorf("%v, want a refusal that names %s", err, tt.source)
			}
			if after := mix(put.files(), mixed, "raft.db"); !maps.Equal(after, mixed) {
				t.Errorf("a start that was refused has left %v of %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(mixed)))
			}
			if _, err := opens(m.put(tt.now)); err != nil {
				t.Errorf("without that: %v", err)
			}
		})
	}
}

// A log that ends before the newest snapshot, or contradicts it, makes way for it if the snapshot was received: that was
// interrupted. If the snapshot was taken from this log, the log is not that one.
func TestLogBeforeSnapshot(t *testing.T) {
	t.Parallel()
	for _, taken := range []bool{false, true} {
		for _, shorter := range []bool{false, true} {
			m := newKnownMember(t)
			m.day(false, func(d *Data) {
				m.store(d, 9, 100)
				m.snapshot(d, 9, taken)
				if err := d.Log().DeleteRange(9, 9); err != nil {
					t.Fatal(err)
				}
				if shorter {
					return
				}
				if err := d.Log().StoreLog(&raft.Log{Index: 9, Term: 2}); err != nil {
					t.Fatal(err)
				}
			})
			last, err := opens(m.cfg)
			if taken && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), putBackAdvice)) {
				t.Errorf("taken, and the log is shorter: %t: %v, want a refusal", shorter, err)
			}
			if !taken && (last != 9 || err != nil) {
				t.Errorf("received, and the log is shorter: %t: the data end with %d, %v", shorter, last, err)
			}
		}
	}
}

// A snapshot that was taken never goes further than the log, or an earlier snapshot, on the disk.
func TestSnapshotBeyondLog(t *testing.T) {
	t.Parallel()
	m := newKnownMember(t)
	m.day(false, func(d *Data) {
		m.store(d, 3, 100)
		_, transport := raft.NewInmemTransport("")
		k, err := d.Snapshots().Create(1, 4, 1, raft.Configuration{}, 1, transport)
		if err != nil {
			t.Fatal(err)
		}
		k.(*Sink).NoteTaken()
		d.snapshotStore.raftRunning = func() bool { return false }
		if err := k.Close(); err == nil || !strings.Contains(err.Error(), "the data on the disk to 3") {
			t.Errorf("it was stored: %v", err)
		}
	})
}

// A directory that was complete is not opened without what is known of its log, and no error advises to remove it.
func TestKnownEndIsGone(t *testing.T) {
	t.Parallel()
	m := newKnownMember(t)
	files := m.day(false, func(d *Data) { m.store(d, 3, 100) })
	for _, name := range []string{"log/rollcall/log/" + logMarkName, "log/rollcall/" + boltMarkName, "data/rollcall/" + outsideMarkName} {
		for what, text := range map[string]string{"gone": "", "damaged": "no mark"} {
			spoiled := maps.Clone(files)
			if spoiled[name] = text; what == "gone" {
				delete(spoiled, name)
			}
			_, err := opens(m.put(spoiled))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(name)) || strings.Contains(err.Error(), "remove") {
				t.Errorf("%s is %s: %v", name, what, err)
			}
		}
	}
	d, err := Open(m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	bolt := d.unguarded.Stable.(*logFiles).bolt
	if err := errors.Join(bolt.SetUint64(keyTerm, 1), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := opens(m.cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "does not say which log") {
		t.Errorf("raft.db does not know the log: %v", err)
	}
}

// A received snapshot for which the log was emptied is missed if it is gone, although an older one is there. One whose entries
// the log has is not needed.
func TestSnapshotIsGone(t *testing.T) {
	t.Parallel()
	for _, emptied := range []bool{true, false} {
		m := newKnownMember(t)
		m.day(false, func(d *Data) {
			m.store(d, 9, 100)
			m.snapshot(d, 8, true)
			if m.snapshot(d, 9, false); !emptied {
				return
			}
			if err := d.Log().DeleteRange(1, 9); err != nil {
				t.Fatal(err)
			}
		})
		all, err := filepath.Glob(filepath.Join(own(m.cfg.DataDir), snapshotsDir, "1-9-*"))
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if err := os.RemoveAll(all[0]); err != nil {
			t.Fatal(err)
		}
		last, err := opens(m.cfg)
		if emptied && (!errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "the snapshot of index 9 is gone")) {
			t.Errorf("the log was emptied for it: %v", err)
		}
		if !emptied && (last != 9 || err != nil) {
			t.Errorf("the log goes on: the data end with %d, %v", last, err)
		}
	}
}
