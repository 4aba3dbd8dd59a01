package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft-wal/types"

	walfs "github.com/hashicorp/raft-wal/fs"
)

// A file is removed at once until start, and piece by piece afterwards, with rests that are shorter if many wait. Delete
// does not wait for that. A file that cannot be removed is logged, and the next ones are removed.
func TestRemover(t *testing.T) {
	for _, files := range []int{1, 1000} {
		t.Run(strconv.Itoa(files), func(t *testing.T) {
			dir := t.TempDir()
			var logs bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				r := newRemover(walfs.New(), hclog.New(&hclog.LoggerOptions{Output: &logs}))
				removeAll(t, r, dir, files)
				r.Close()
			})
			if n := strings.Count(logs.String(), "could not be removed"); n != 1 || !strings.Contains(logs.String(), filepath.Join(dir, "missing")) {
				t.Errorf("%d errors are logged: %s", n, logs.String())
			}
		})
	}
}

func removeAll(t *testing.T, r *remover, dir string, files int) {
	const pieces = 3
	path := func(i int) string { return filepath.Join(dir, strconv.Itoa(i)) }
	write := func(i int) {
		if err := errors.Join(os.WriteFile(path(i), nil, fileMode), os.Truncate(path(i), pieces*removePiece-1)); err != nil {
			t.Fatal(err)
		}
	}
	write(0)
	if err := r.Delete(dir, "0"); err != nil || len(filesIn(dir)) > 0 {
		t.Fatalf("before start: %v, %v is left", err, filesIn(dir))
	}
	r.startBackground()
	for i := range files {
		write(i)
	}
	begun := time.Now()
	for _, name := range append([]string{"missing"}, filesIn(dir)...) {
		if err := r.Delete(dir, filepath.Base(name)); err != nil {
			t.Error(err)
		}
	}
	if time.Since(begun) > 0 || len(filesIn(dir)) != files {
		t.Errorf("Delete took %v, %d of %d files are left", time.Since(begun), len(filesIn(dir)), files)
	}
	for n := pieces - 1; n > 0 && files == 1; n-- {
		synctest.Wait()
		if info, err := os.Stat(path(0)); err != nil || info.Size() != int64(n*removePiece) {
			t.Errorf("after a rest the file has %v, want %d pieces: %v", info, n, err)
		}
		time.Sleep(removePause)
	}
	time.Sleep(4 * removeWithin) // with rests of full length 1,000 files would take 6 * removeWithin
	synctest.Wait()
	if left := filesIn(dir); len(left) > 0 {
		t.Errorf("after %v there are %d files", time.Since(begun), len(left))
	}
	write(0)
	if err := r.Delete(dir, "0"); err != nil {
		t.Error(err)
	}
	if time.Sleep(time.Second); len(filesIn(dir)) > 0 {
		t.Error("a file that came later is left")
	}
}

// filesIn returns the paths of the files in dir.
func filesIn(dir string) []string {
	paths, _ := filepath.Glob(filepath.Join(dir, "*")) // fails only for a bad pattern
	return paths
}

// Close does not wait for what is to be removed.
func TestRemoverClose(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRemover(walfs.New(), hclog.NewNullLogger())
		r.startBackground()
		for _, name := range []string{"1", "2"} {
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 3*removePiece), fileMode); err != nil {
				t.Fatal(err)
			}
			if err := r.Delete(dir, name); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		begun := time.Now()
		if r.Close(); time.Since(begun) > 0 {
			t.Errorf("Close took %v", time.Since(begun))
		}
		r.Close()
	})
	for name, size := range map[string]int64{"1": 2 * removePiece, "2": 3 * removePiece} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() != size {
			t.Errorf("file %s is left as %v, want %d bytes: %v", name, info, size, err)
		}
	}
}

// smallDisk is a disk without room for a new file as long as dir has others.
type smallDisk struct {
	types.VFS
	dir string
}

func (f smallDisk) Create(dir, name string, size uint64) (types.WritableFile, error) {
	full := len(filesIn(f.dir)) > 0
	file, err := f.VFS.Create(dir, name, size)
	if err == nil && full {
		return nil, errors.Join(syscall.ENOSPC, file.Close())
	}
	return file, err
}

// A new file that finds the disk full waits until all that is not needed is removed, without rests. It fails if nothing waits.
func TestRemoverOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRemover(smallDisk{walfs.New(), dir}, hclog.NewNullLogger())
		defer r.Close()
		r.startBackground()
		const pieces = 3
		for i := range 10 {
			path := filepath.Join(dir, strconv.Itoa(i))
			if err := errors.Join(os.WriteFile(path, nil, fileMode), os.Truncate(path, pieces*removePiece), r.Delete(dir, filepath.Base(path))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		begun := time.Now()
		file, err := r.Create(dir, "new", removePiece)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if took := time.Since(begun); took > pieces*removePause || len(filesIn(dir)) != 1 {
			t.Errorf("after %v the files are %v", took, filesIn(dir))
		}
		if _, err := r.Create(dir, "another", removePiece); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("without files that wait: %v", err)
		}
	})
}

// A log removes its first segments in the background. What it had no time to remove is gone after the next start, and all
// entries that were not deleted are there.
func TestWALRemovesSegments(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]bool{"while it runs": false, "at the next start": true} {
		t.Run(name, func(t *testing.T) {
			d := &walDir{t: t, dir: t.TempDir()}
			for range 15 {
				d.store(17, testEntry) // fills a segment
			}
			before := len(d.segments())
			log, err := openWAL(filepath.Join(d.dir, walName), testSegment, hclog.NewNullLogger())
			if err != nil {
				t.Fatal(err)
			}
			if before < 10 {
				t.Fatalf("%d segments", before)
			}
			if err := log.DeleteRange(1, d.n-1); err != nil {
				t.Fatal(err)
			}
			if !closes {
				log.remover.wg.Wait() // nothing waits to be removed any more
				if left := len(d.segments()); left > 2 {
					t.Errorf("%d of %d segments are left while it runs", left, before)
				}
			}
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			d.check(d.n)
			if left := len(d.segments()); left > 2 {
				t.Errorf("%d of %d segments are left", left, before)
			}
		})
	}
}
