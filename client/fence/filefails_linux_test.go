package fence_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"rollcall/client/fence"
)

// An act does not run if its token cannot be stored.
func TestFileWithoutToken(t *testing.T) {
	for name, tt := range map[string]struct {
		tokens func(path string) error // makes the file with the token
		want   error
	}{
		"a directory":          {func(path string) error { return os.Mkdir(path, 0o700) }, syscall.EISDIR},
		"a pipe, unreadable":   {func(path string) error { return syscall.Mkfifo(path, 0o600) }, syscall.ESPIPE},
		"a device, not stored": {func(path string) error { return os.Symlink(os.DevNull, path) }, syscall.EINVAL},
		"no place at all":      {func(path string) error { return os.Symlink("no/directory", path) }, fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			if err := tt.tokens(path + ".fence"); err != nil {
				t.Fatal(err)
			}
			err := fence.File{Path: path}.Do(t.Context(), 5, func() error { t.Error("the act has run"); return nil })
			if !errors.Is(err, tt.want) {
				t.Errorf("the error is %v, want %v", err, tt.want)
			}
		})
	}
}

// fillDisk makes every file full at diskSize bytes until the end of the test.
func fillDisk(t *testing.T) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	t.Cleanup(func() {
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
		signal.Reset(syscall.SIGXFSZ)
	})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: diskSize, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
}

const diskSize = 4096

// A write that fails is an error, and leaves the old content.
func TestFileWriteFails(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, path string) error
		want    error
	}{
		"the new content has no place": {
			func(_ *testing.T, path string) error { return os.MkdirAll(path+".new/x", 0o700) }, syscall.ENOTEMPTY,
		},
		"a directory is in the place": {
			func(_ *testing.T, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, fs.ErrExist,
		},
		"the disk is full": {func(t *testing.T, _ string) error { fillDisk(t); return nil }, syscall.EFBIG},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state")
			f := fence.File{Path: path}
			if err := f.Write(t.Context(), 5, []byte("old"), 0o640); err != nil {
				t.Fatal(err)
			}
			if err := tt.prepare(t, path); err != nil {
				t.Fatal(err)
			}
			err := f.Write(t.Context(), 6, bytes.Repeat([]byte("x"), 2*diskSize), 0o640)
			if !errors.Is(err, tt.want) {
				t.Errorf("the error is %v, want %v", err, tt.want)
			}
			if content, err := os.ReadFile(path); err == nil && string(content) != "old" {
				t.Errorf("the file has %d bytes", len(content))
			}
		})
	}
}

// The rest of a new content after a crash blocks no later write, and the file gets the requested mode.
func TestFileAfterCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path+".new", []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (fence.File{Path: path}).Write(t.Context(), 5, []byte("whole"), 0o640); err != nil || contentOf(t, path) != "whole" {
		t.Errorf("%v, the file has %q", err, contentOf(t, path))
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if _, err := os.Stat(path + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file with the new content: %v", err)
	}
}
