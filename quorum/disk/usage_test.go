package disk

import (
	"os"
	"path/filepath"
	"testing"
)

// The bytes of the files are counted once, wherever the log is.
func TestDiskUsage(t *testing.T) {
	for _, name := range []string{"one folder", "two folders"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			d, logDir := &Data{folders: []*folder{{dir: dir}}}, dir
			if name == "two folders" {
				logDir = t.TempDir()
				d.folders = append(d.folders, &folder{dir: logDir})
			}
			for path, size := range map[string]int{
				filepath.Join(logDir, logName): 300, filepath.Join(logDir, walName, "1.wal"): 700, filepath.Join(dir, identityName): 10,
				filepath.Join(dir, snapshotsDir, "1-2-3", "state.bin"): 500,
			} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if data, log, err := d.Usage(); data != 510 || log != 1000 || err != nil {
				t.Errorf("%d, %d, %v, want 510 and 1000", data, log, err)
			}
		})
	}
}
