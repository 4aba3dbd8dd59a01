package secretfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Which modes are open to others. The files of Kubernetes and of Docker are read, whatever their mode.
func TestExposed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, exposed := range map[os.FileMode]bool{0o400: false, 0o600: false, 0o640: false, 0o440: false, 0o444: true, 0o644: true, 0o604: true, 0o602: true, 0o660: true, 0o601: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		f, err := Read(path, 100)
		if err != nil || string(f.Text) != "hush" {
			t.Errorf("mode %o: %q, %v", mode, f.Text, err)
		}
		if got := f.Exposed(); (got != "") != exposed || exposed && !strings.Contains(got, "chmod 600") {
			t.Errorf("mode %o: %q", mode, got)
		}
	}
}

// A file is read up to the limit and one byte more. What is no file is refused, and never waited for.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	long, pipe, locked := filepath.Join(dir, "long"), filepath.Join(dir, "pipe"), filepath.Join(dir, "locked")
	for _, path := range []string{long, locked} {
		if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(locked, 0), syscall.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := Read(long, 4); err != nil || string(f.Text) != "01234" {
		t.Errorf("%q, %v", f.Text, err)
	}
	refused := map[string]string{
		filepath.Join(dir, "none"): "no such file or directory; it must name a file that this user may read",
		dir:                        "this is not a file (mode drwx", pipe: "this is not a file (mode prw-------); it must name a file",
	}
	if os.Getuid() != 0 { // root may read everything
		refused[locked] = "permission denied; it must name a file that this user may read"
	}
	for path, want := range refused {
		_, err := Read(path, 100)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
			t.Errorf("%s: the error is a PathError, which names the path twice", path)
		}
		fault := Wrong("some.key", path, err)
		if !errors.Is(fault, err) || fault.Error() != "some.key="+path+": "+err.Error() {
			t.Errorf("%v", fault)
		}
	}
	if err := Wrong("some.key", long, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if faults := Warn("k", "p", "", "one", ""); len(faults) != 1 || faults[0].Error() != "k=p: one" || !faults[0].Mild {
		t.Errorf("%v", faults)
	}
}

// The advice stands at errors that it helps with: the path or the rights are wrong. None has the path.
func TestAdvice(t *testing.T) {
	for cause, advised := range map[error]bool{
		syscall.ENOENT: true, syscall.EACCES: true, syscall.EPERM: true, syscall.ENOTDIR: true,
		syscall.EIO: false, syscall.EMFILE: false, syscall.ESTALE: false,
	} {
		err := bare(&fs.PathError{Op: "read", Path: "/some/file", Err: cause})
		want := cause.Error()
		if advised {
			want += "; it must name a file that this user may read"
		}
		if err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
