package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
)

// A file loses its name at once, and is removed piece by piece, with rests that are shorter if many wait. remove does not
// wait for that. A file that cannot be removed is logged, and the next ones are removed.
func TestRemover(t *testing.T) {
	for _, files := range []int{1, 1000} {
		t.Run(strconv.Itoa(files), func(t *testing.T) {
			dir := t.TempDir()
			var logs bytes.Buffer
			synctest.Test(t, func(t *testing.T) {
				r := newRemover(dir, hclog.New(&hclog.LoggerOptions{Output: &logs}))
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
	for i := range files {
		write(i)
	}
	begun := time.Now()
	for _, name := range append([]string{"missing"}, filesIn(dir)...) {
		r.remove(filepath.Join(dir, filepath.Base(name)))
	}
	if time.Since(begun) > 0 || len(filesIn(dir)) != files {
		t.Errorf("Delete took %v, %d of %d files are left", time.Since(begun), len(filesIn(dir)), files)
	}
	for n := pieces - 1; n > 0 && files == 1; n-- {
		synctest.Wait()
		if info, err := os.Stat(path(0) + removedSuffix); err != nil || info.Size() != int64(n*removePiece) {
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
	r.remove(path(0))
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
		r := newRemover(dir, hclog.NewNullLogger())
		for _, name := range []string{"1", "2"} {
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 3*removePiece), fileMode); err != nil {
				t.Fatal(err)
			}
			r.remove(filepath.Join(dir, name))
		}
		synctest.Wait()
		begun := time.Now()
		if r.Close(); time.Since(begun) > 0 {
			t.Errorf("Close took %v", time.Since(begun))
		}
		r.Close()
	})
	for name, size := range map[string]int64{"1": 2 * removePiece, "2": 3 * removePiece} {
		if info, err := os.Stat(filepath.Join(dir, name) + removedSuffix); err != nil || info.Size() != size {
			t.Errorf("file %s is left as %v, want %d bytes: %v", name, info, size, err)
		}
	}
}

// A new segment that finds the disk full waits until all that is not needed is removed, without rests.
func TestRemoverOnFullDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newRemover(dir, hclog.NewNullLogger())
		defer r.Close()
		const pieces = 3
		for i := range 10 {
			path := filepath.Join(dir, strconv.Itoa(i))
			if err := errors.Join(os.WriteFile(path, nil, fileMode), os.Truncate(path, pieces*removePiece)); err != nil {
				t.Fatal(err)
			}
			r.remove(path)
		}
		synctest.Wait()
		begun := time.Now()
		if waited := r.waitUntilEmpty(); !waited || time.Since(begun) > pieces*removePause || len(filesIn(dir)) != 0 {
			t.Errorf("waited %t, and after %v the files are %v", waited, time.Since(begun), filesIn(dir))
		}
		if r.waitUntilEmpty() {
			t.Error("waited although nothing is removed")
		}
	})
}
