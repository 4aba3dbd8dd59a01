package disk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The bytes of the files are counted once, wherever the log is.
func TestDiskUsage(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"one directory", "two directories"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, logDir := &Data{directories: []*directory{{dir: dir}}}, dir
			if name == "two directories" {
				logDir = t.TempDir()
				d.directories = append(d.directories, &directory{dir: logDir})
			}
			for path, size := range map[string]int{
				filepath.Join(logDir, logName): 300, filepath.Join(logDir, logDirName, "1.log"): 700, filepath.Join(dir, identityName): 10,
				filepath.Join(dir, snapshotsDir, "1-2-3", "state.bin"): 500,
			} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if data, log, err := d.UsedSpace(); data != 510 || log != 1000 || err != nil {
				t.Errorf("%d, %d, %v, want 510 and 1000", data, log, err)
			}
		})
	}
}

// Free returns the free bytes of the file systems of both directories. Stores without files have none.
func TestFree(t *testing.T) {
	here, missing := &directory{dir: t.TempDir()}, &directory{dir: filepath.Join(t.TempDir(), "missing")}
	if data, log, err := (&Data{directories: []*directory{here, here}}).FreeSpace(); data < 1<<20 || log < 1<<20 || err != nil {
		t.Errorf("%d bytes for the data, %d for the log, %v", data, log, err)
	}
	for _, directories := range [][]*directory{{here, missing}, {missing, here}, {missing}} {
		if _, _, err := (&Data{directories: directories}).FreeSpace(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory is missing: %v", err)
		}
	}
	if data, log, err := (&Data{}).FreeSpace(); data != 0 || log != 0 || err != nil {
		t.Errorf("without files: %d, %d, %v", data, log, err)
	}
}
