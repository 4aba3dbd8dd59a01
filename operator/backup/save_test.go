package backup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file has its name once it is committed, is readable for its owner alone, and replaces no other file.
func TestSave(t *testing.T) {
	dir := t.TempDir()
	name := FileName(someHead())
	if name != "rollcall-20260102T030405Z-7.backup" {
		t.Errorf("name %s", name)
	}
	p, err := CreatePart(dir, "rollcall")
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.Repeat([]byte("whole"), 1<<20) // longer than what is written to the disk at a time
	if _, err := p.Write(whole); err != nil {
		t.Fatal(err)
	}
	if names := namesIn(t, dir); len(names) != 1 || !strings.HasSuffix(names[0], partSuffix) {
		t.Errorf("before it is whole there is %q", names)
	}
	if err := p.Commit(name); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, name))
	info, statErr := os.Stat(filepath.Join(dir, name))
	if err != nil || statErr != nil || !bytes.Equal(text, whole) || info.Mode().Perm() != 0o600 {
		t.Errorf("%d bytes: %v, %v, %v", len(text), info.Mode(), err, statErr)
	}
	second, err := CreatePart(dir, "rollcall")
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Commit(name); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), name) {
		t.Errorf("a second one of the same name: %v", err)
	}
	third, err := CreatePart(dir, "rollcall")
	if err != nil {
		t.Fatal(err)
	}
	if err := third.Abort(); err != nil {
		t.Fatal(err)
	}
	if err := third.Abort(); !errors.Is(err, fs.ErrClosed) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of a file that is closed and gone: %v", err)
	}
	if names := namesIn(t, dir); len(names) != 1 || names[0] != name {
		t.Errorf("left are %q", names)
	}
}

func namesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
