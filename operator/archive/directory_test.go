package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A Directory stores what is new and replaces nothing. It lists names in their order.
func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	d := NewDirectory(dir)
	for _, name := range []string{"a/b/2", "a/b/1", "a/c/1", "a/b/3"} {
		if err := d.Put(t.Context(), name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Put(t.Context(), "a/b/2", []byte("other")); !errors.Is(err, ErrExists) {
		t.Errorf("a name that is taken: %v", err)
	}
	f, err := d.Open(t.Context(), "a/b/2")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); string(b) != "a/b/2" || errors.Join(err, f.Close()) != nil {
		t.Errorf("%q, %v", b, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "a/b/2")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; want a file that only its owner can read", info, err)
	}
	if _, err := d.Open(t.Context(), "a/b/4"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no object: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a/b/9.x"+partSuffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir, after string
		want       []string
	}{
		{"", "", []string{"a/"}},
		{"a/", "", []string{"a/b/", "a/c/"}},
		{"a/b/", "", []string{"a/b/1", "a/b/2", "a/b/3"}},
		{"a/b/", "a/b/1", []string{"a/b/2", "a/b/3"}},
		{"a/b/", "a/b/2x", []string{"a/b/3"}},
		{"none/", "", nil},
	} {
		var got []string
		for item, err := range d.List(t.Context(), tt.dir, tt.after) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, item.Name)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q after %q: %q, want %q", tt.dir, tt.after, got, tt.want)
		}
	}
	none := NewDirectory(filepath.Join(dir, "none"))
	_, opened := none.Open(t.Context(), "a/b/1")
	for _, err := range []error{none.Put(t.Context(), "a/b/1", nil), opened, listError(t, none, ""), listError(t, none, "a/")} {
		if err == nil || !strings.Contains(err.Error(), "does not exist; make it") {
			t.Errorf("no directory: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("the directory was made, maybe where nothing is mounted")
	}
}

// listError returns the error of a list.
func listError(t *testing.T, store Store, dir string) (err error) {
	for _, err = range store.List(t.Context(), dir, "") {
	}
	return err
}

// virtualDisk is a fileSystem in memory that loses, at a crash, what was not synced. It fails the test if a name is replaced.
type virtualDisk struct {
	names     map[string]*virtualFile // as a process sees them
	durable   map[string]*virtualFile
	steps     int // that are left before the crash; below 0: it has happened
	room      int // bytes
	nextPart  int
	replacing string // a name that was to be replaced
}

type virtualFile struct {
	content []byte
	synced  bool
	dir     bool
}

var errCrash = errors.New("the process has ended")

func newVirtualDisk() *virtualDisk {
	return &virtualDisk{names: map[string]*virtualFile{}, durable: map[string]*virtualFile{}, steps: 1 << 40, room: 1 << 40}
}

// step reports whether the process lives.
func (v *virtualDisk) step() error {
	if v.steps--; v.steps < 0 {
		return errCrash
	}
	return nil
}

// crash loses what was not synced: of each change of a name, and of each file's bytes, some of it.
func (v *virtualDisk) crash(r *rand.Rand) {
	after := map[string]*virtualFile{}
	for name, f := range v.durable {
		after[name] = f
	}
	for name, f := range v.names {
		if v.durable[name] == nil && (f.dir || r.IntN(2) == 0) {
			after[name] = f // the name reached the disk before its directory was synced
		}
	}
	for name := range v.durable {
		if v.names[name] == nil && r.IntN(2) == 0 {
			delete(after, name)
		}
	}
	for name, f := range after {
		if !f.dir && !f.synced {
			after[name] = &virtualFile{content: f.content[:r.IntN(len(f.content)+1)], synced: true}
		}
	}
	v.names, v.durable = after, map[string]*virtualFile{}
	for name, f := range after {
		v.durable[name] = f
	}
	v.steps = 1 << 40
}

func (v *virtualDisk) CheckDirectory(string) error { return nil }

func (v *virtualDisk) MakeDirectory(path string) error {
	if v.names[path] != nil {
		return nil
	}
	if path != "/archive" {
		if err := v.MakeDirectory(filepath.Dir(path)); err != nil {
			return err
		}
	}
	if err := v.step(); err != nil {
		return err
	}
	v.names[path] = &virtualFile{dir: true, synced: true}
	v.durable[path] = v.names[path]
	return nil
}

func (v *virtualDisk) WriteNew(prefix string, content []byte) (string, error) {
	if err := v.step(); err != nil {
		return "", err
	}
	v.nextPart++
	name := fmt.Sprintf("%s.%d%s", prefix, v.nextPart, partSuffix)
	f := &virtualFile{content: bytes.Clone(content[:len(content)/2])}
	v.names[name] = f
	if err := v.step(); err != nil {
		return name, err
	}
	if v.room -= len(content); v.room < 0 {
		v.room += len(content)
		return name, &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	f.content = bytes.Clone(content)
	if err := v.step(); err != nil {
		return name, err
	}
	f.synced = true
	return name, nil
}

func (v *virtualDisk) Link(from, to string) error {
	if err := v.step(); err != nil {
		return err
	}
	if v.names[to] != nil {
		return &fs.PathError{Op: "link", Path: to, Err: fs.ErrExist}
	}
	v.names[to] = v.names[from]
	return nil
}

func (v *virtualDisk) Remove(path string) error {
	if err := v.step(); err != nil {
		return err
	}
	if !strings.HasSuffix(path, partSuffix) {
		v.replacing = path
	}
	delete(v.names, path)
	return nil
}

func (v *virtualDisk) SyncDirectory(path string) error {
	if err := v.step(); err != nil {
		return err
	}
	for name, f := range v.names {
		if filepath.Dir(name) == path {
			v.durable[name] = f
		}
	}
	for name := range v.durable {
		if filepath.Dir(name) == path && v.names[name] == nil {
			delete(v.durable, name)
		}
	}
	return nil
}

func (v *virtualDisk) Open(path string) (io.ReadCloser, error) {
	f := v.names[path]
	if f == nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return io.NopCloser(bytes.NewReader(f.content)), nil
}

func (v *virtualDisk) ReadDirectory(path string) (all []fs.DirEntry, err error) {
	for name, f := range v.names {
		if filepath.Dir(name) == path {
			all = append(all, fs.FileInfoToDirEntry(virtualInfo{filepath.Base(name), f}))
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return all, nil
}

type virtualInfo struct {
	name string
	*virtualFile
}

func (i virtualInfo) Name() string       { return i.name }
func (i virtualInfo) Size() int64        { return int64(len(i.content)) }
func (i virtualInfo) ModTime() time.Time { return time.Time{} }
func (i virtualInfo) IsDir() bool        { return i.dir }
func (i virtualInfo) Sys() any           { return nil }
func (i virtualInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// The process ends, or the machine loses power, at every step of sending to a directory. What another member then finds is whole, and it
// completes the archive.
func TestCrashAtEveryStep(t *testing.T) {
	e := newEnsemble(t)
	e.write(20, 1)
	m := newMember(t, e, 1)
	m.snapshot(0)
	other := newMember(t, e, 2)
	other.follow(0)
	for crash, done := 0, false; !done; crash++ {
		disk := newVirtualDisk()
		store := &Directory{dir: "/archive", files: disk}
		s := m.sender(store)
		s.batchBytes = 1500
		disk.steps = crash
		ctx, stop := context.WithCancel(t.Context())
		store.files = &stopsAtCrash{disk, stop}
		err := s.sendRound(ctx)
		s.stateWork.Wait()
		stop()
		done = disk.steps >= 0
		if done && err != nil {
			t.Fatal(err)
		}
		store.files = disk
		disk.crash(rand.New(rand.NewPCG(uint64(crash), 3)))
		for _, sender := range []*Sender{other.sender(store), m.sender(store)} {
			sender.batchBytes = 4000
			m.must(sendAll(sender))
		}
		if disk.replacing != "" {
			t.Fatalf("%s was to be replaced", disk.replacing)
		}
		l := onlyLog(t, store)
		if len(l.Spans) != 1 || len(l.states) == 0 {
			t.Fatalf("after a crash at step %d: %+v", crash, l)
		}
		v, err := Verify(t.Context(), store, l, l.Spans[0])
		if err != nil || len(v.Damage) > 0 || v.To.Zxid != e.State.Zxid() {
			t.Fatalf("after a crash at step %d: %+v, %v", crash, v, err)
		}
		if crash%8 == 0 || done {
			e.checkArchive(t, store, 1)
		}
		if done && crash < 20 {
			t.Errorf("only %d steps", crash)
		}
	}
}

// stopsAtCrash ends the sender when the disk crashes, which would try again.
type stopsAtCrash struct {
	*virtualDisk
	stop func()
}

func (s *stopsAtCrash) WriteNew(prefix string, content []byte) (string, error) {
	name, err := s.virtualDisk.WriteNew(prefix, content)
	return name, s.stopIf(err)
}

func (s *stopsAtCrash) Link(from, to string) error { return s.stopIf(s.virtualDisk.Link(from, to)) }
func (s *stopsAtCrash) Remove(path string) error   { return s.stopIf(s.virtualDisk.Remove(path)) }
func (s *stopsAtCrash) SyncDirectory(path string) error {
	return s.stopIf(s.virtualDisk.SyncDirectory(path))
}

func (s *stopsAtCrash) MakeDirectory(path string) error {
	return s.stopIf(s.virtualDisk.MakeDirectory(path))
}

func (s *stopsAtCrash) stopIf(err error) error {
	if errors.Is(err, errCrash) {
		s.stop()
	}
	return err
}

// A directory whose disk is full gets nothing that is half made, and the rest when there is room again.
func TestFullDirectory(t *testing.T) {
	e, m := newMemberWith(t, 40)
	disk := newVirtualDisk()
	store := &Directory{dir: "/archive", files: disk}
	s := m.sender(store)
	disk.room = 2000
	if err := sendAll(s); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("a full disk: %v", err)
	}
	for name := range disk.names {
		if strings.HasSuffix(name, partSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	disk.room = 1 << 30
	m.must(sendAll(s))
	e.checkArchive(t, store, 1)
}

// A pipe in place of an object is an error, and does not wait for its other end.
func TestPipeInDirectory(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := NewDirectory(dir).Open(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("%v, %v", f, err)
	}
}

// A name with more entries than an object can have is not a name of an archive, so it does not stop a sender.
func TestEndlessRun(t *testing.T) {
	for last, want := range map[uint64]bool{maxRunEntries: true, maxRunEntries + 1: false, math.MaxUint64: false} {
		r := run{log: DiskLog(1), last: EntryID{Index: last, Term: 1, Sum: 1}, member: 1}
		if _, ok := parseRun(r.name()); ok != want {
			t.Errorf("entries 1 to %d: %v, want %v", last, ok, want)
		}
	}
}
