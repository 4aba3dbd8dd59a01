package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// MakeDirectory makes what is missing, leaves what is there, and takes no file for a directory. What it syncs is tested by
// integration/power.
func TestMakeDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b", "c")
	for range 2 {
		if err := MakeDirectory(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want a directory of mode 0700", info, err)
	}
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MakeDirectory(file, 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("in place of a file: %v", err)
	}
	if err := MakeDirectory(filepath.Join(file, "below"), 0o700); err == nil {
		t.Error("below a file: no error")
	}
	if err := SyncDirectory(filepath.Join(top, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
}
