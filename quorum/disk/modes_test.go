package disk

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// If other users can read a member's files, the member logs that, and the command that changes it.
func TestWarnsOfReaders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, dir string) // may open a path to all
		want  []string                       // the paths below dir that the command names; nil: nothing is logged
	}{
		"closed":                 {func(*testing.T, string) {}, nil},
		"closed and open inside": {func(t *testing.T, dir string) { chmod(t, filepath.Join(own(dir), snapshotsDir), 0o755) }, nil},
		"open":                   {func(t *testing.T, dir string) { chmod(t, own(dir), 0o750) }, []string{"rollcall"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), memberDirName)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			cfg := directoryConfig(dir, 1)
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
