package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

var testConfiguration = raft.Configuration{Servers: []raft.Server{{ID: "1", Address: "m1:3888"}}}

// storeSnapshot stores a snapshot of term 2 in any store, and returns its directory below dir.
func storeSnapshot(t *testing.T, s raft.SnapshotStore, dir string, index uint64, body string, servers raft.Configuration) string {
	t.Helper()
	_, trans := raft.NewInmemTransport("")
	sink, err := s.Create(1, index, 2, servers, 1, trans)
	if err == nil {
		_, err = io.WriteString(sink, body)
		err = errors.Join(err, sink.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, snapshotsDir, sink.ID())
}

func testFiles(t *testing.T, dir string) *snapshotFiles {
	t.Helper()
	files, err := newSnapshotFiles(filepath.Join(dir, snapshotsDir), hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// readSnapshot returns the metadata and the contents of the newest snapshot.
func readSnapshot(s raft.SnapshotStore) (meta raft.SnapshotMeta, body string, err error) {
	list, err := s.List()
	if err != nil || len(list) == 0 {
		return meta, "", errors.Join(err, errors.New("none"))
	}
	m, r, err := s.Open(list[0].ID)
	if err != nil {
		return meta, "", err
	}
	b, err := io.ReadAll(r)
	return *m, string(b), errors.Join(err, r.Close())
}

// The two newest snapshots are kept.
func TestSnapshotsAreReaped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := testFiles(t, dir)
	var all []string
	for _, index := range []uint64{3, 9, 20} {
		all = append(all, storeSnapshot(t, files, dir, index, "x", testConfiguration))
	}
	list, err := files.List()
	if err != nil || len(list) != 2 || list[0].Index != 20 || list[1].Index != 9 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := os.Stat(all[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the oldest: %v", err)
	}
	sink, err := files.Create(1, 30, 2, testConfiguration, 1, nil)
	if err = errors.Join(err, sink.Cancel(), sink.Close()); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(files.dir); err != nil || len(list) != 2 {
		t.Errorf("after a snapshot was cancelled: %v, %v", list, err)
	}
}

// flips calls f with each bit of a file flipped in turn, and puts the file right again. It writes one
// byte at a time, because some file systems write a file to the disk at once that is emptied first.
func flips(t *testing.T, path string, f func(bit int)) {
	t.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for at, b := range good {
		for bit := range 8 {
			if _, err := file.WriteAt([]byte{b ^ 1<<bit}, int64(at)); err != nil {
				t.Fatal(err)
			}
			f(8*at + bit)
		}
		if _, err := file.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}

// One wrong bit in a snapshot, wherever it is, is found.
func TestSnapshotBitFlips(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := testFiles(t, dir)
	at := storeSnapshot(t, files, dir, 1234, "some state", testConfiguration)
	if _, _, err := readSnapshot(files); err != nil {
		t.Fatal(err)
	}
	flips(t, filepath.Join(at, metaFile), func(bit int) {
		if _, _, err := readSnapshot(files); err == nil {
			t.Errorf("bit %d of the metadata: not found", bit)
		}
	})
	flips(t, filepath.Join(at, stateFile), func(bit int) {
		if _, body, err := readSnapshot(files); !errors.Is(err, ErrDamaged) || len(body) == len("some state") {
			t.Errorf("bit %d of the state: %q, %v", bit, body, err)
		}
	})
	for _, body := range []string{"", "some stat", "some state "} {
		write(t, filepath.Join(at, stateFile), body)
		if _, _, err := readSnapshot(files); !errors.Is(err, ErrDamaged) {
			t.Errorf("state %q: %v", body, err)
		}
	}
}

// A damaged snapshot that a newer one has replaced does not matter.
func TestOlderSnapshotIsDamaged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := testFiles(t, dir)
	var at []string
	for _, index := range []uint64{3, 9} {
		at = append(at, storeSnapshot(t, files, dir, index, "x", testConfiguration))
	}
	s := Stores{Log: raft.NewInmemStore(), Snapshots: files}
	write(t, filepath.Join(at[0], metaFile), "{")
	if why := newestSnapshotError(s); why != nil {
		t.Errorf("the older one is damaged: %v", why)
	}
	write(t, filepath.Join(at[1], metaFile), "{")
	if why := newestSnapshotError(s); !errors.Is(why, ErrDamaged) || !strings.Contains(why.Error(), at[1]) {
		t.Errorf("both are damaged: %v", why)
	}
}

// A snapshot that finds the disk full is written on once what is kept of the past has given way, and fails if nothing is left of that.
func TestSnapshotOnFullDisk(t *testing.T) {
	t.Parallel()
	for _, kept := range []int{0, 2} {
		files := testFiles(t, t.TempDir())
		sink, err := files.Create(1, 10, 2, raft.Configuration{}, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer full.Close()
		k, left := sink.(*fileSink), kept
		room := k.file.File
		defer room.Close()
		k.file.File = full
		files.retired = &retired{Retirement: Retirement{FreeSpace: func() bool {
			if left--; left == 0 {
				k.file.File = room
			}
			return left >= 0
		}}}
		_, err = io.WriteString(sink, "state")
		if kept == 0 && !isDiskFull(err) {
			t.Errorf("nothing is kept, and the write gives %v", err)
		}
		if kept == 0 {
			continue
		}
		if err := errors.Join(err, sink.Close()); err != nil {
			t.Errorf("the past has given way, and the snapshot gives %v", err)
		}
		if _, body, err := readSnapshot(files); body != "state" || err != nil {
			t.Errorf("it has the state %q, %v", body, err)
		}
	}
}
