package disk

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// formerly moves a member's files to where earlier versions had them.
func formerly(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(own(dir))
	for _, e := range entries {
		err = errors.Join(err, os.Rename(filepath.Join(own(dir), e.Name()), filepath.Join(dir, e.Name())))
	}
	if err = errors.Join(err, os.Remove(own(dir))); err != nil {
		t.Fatal(err)
	}
}

// If other users can read a member's files, the member logs that, and the command that changes it.
// The operator's folder may have the name of a member's own one.
func TestWarnsOfReaders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, dir string) // may open a path to all
		want  []string                       // the paths below dir that the command names; nil: nothing is logged
	}{
		"closed":                 {func(*testing.T, string) {}, nil},
		"closed and open inside": {func(t *testing.T, dir string) { chmod(t, filepath.Join(own(dir), snapshotsDir), 0o755) }, nil},
		"open":                   {func(t *testing.T, dir string) { chmod(t, own(dir), 0o750) }, []string{"rollcall"}},
		"former place":           {func(t *testing.T, dir string) { formerly(t, dir); chmod(t, dir, 0o755) }, nil},
		"former place, all open": {func(t *testing.T, dir string) {
			formerly(t, dir)
			chmod(t, dir, 0o755)
			chmod(t, filepath.Join(dir, snapshotsDir), 0o755)
		}, []string{snapshotsDir}},
		"former place, in a safe": {func(t *testing.T, dir string) { formerly(t, dir); chmod(t, filepath.Join(dir, snapshotsDir), 0o755) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ownName)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			cfg := folderConfig(dir, 1)
			openAndClose(t, cfg)
			chmod(t, dir, 0o700)
			tt.spoil(t, dir)
			var log bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			openAndClose(t, cfg)
			if tt.want == nil {
				if strings.Contains(log.String(), "chmod") {
					t.Errorf("it says: %s", log.String())
				}
				return
			}
			if command := "chmod -R go-rwx " + filepath.Join(append([]string{dir}, tt.want...)...); !strings.Contains(log.String(), command+"\"") {
				t.Errorf("it says: %s, want it to name the command %q", log.String(), command)
			}
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
