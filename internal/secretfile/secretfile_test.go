package secretfile

import (
	"errors"
	"fmt"
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
		f, err := ReadTrustedFile(path, 100)
		if err != nil || string(f.Text) != "hush" {
			t.Errorf("mode %o: %q, %v", mode, f.Text, err)
		}
		if got := f.ExposedWarning(); (got != "") != exposed || exposed && !strings.Contains(got, "chmod 600") {
			t.Errorf("mode %o: %q", mode, got)
		}
	}
}

// What is rejected for its mode: what this process could put right, and what others may write.
func TestRejectExposed(t *testing.T) {
	self, other := os.Geteuid(), os.Geteuid()+1
	for name, tt := range map[string]struct {
		file File
		want bool
	}{
		"its owner's":                        {File{Mode: 0o600, Owner: self}, false},
		"its group may read it":              {File{Mode: 0o640, Owner: self}, false},
		"others may read it":                 {File{Mode: 0o644, Owner: self}, true},
		"its group may write it":             {File{Mode: 0o660, Owner: self}, true},
		"others may read another user's":     {File{Mode: 0o444, Owner: other}, false},
		"others may write another user's":    {File{Mode: 0o666, Owner: other}, true},
		"its group may write another user's": {File{Mode: 0o660, Owner: other}, true},
		"mounted read-only":                  {File{Mode: 0o666, Owner: self, IsOnReadOnlyMount: true}, false},
		"a pipe":                             {File{Mode: 0o644 | fs.ModeNamedPipe, Owner: self}, false},
	} {
		tt.file.Path = "/some/token"
		err := tt.file.RejectExposed()
		if (err != nil) != tt.want || err != nil && (!strings.Contains(err.Error(), fmt.Sprintf("(mode %#o)", tt.file.Mode.Perm())) || !strings.Contains(err.Error(), "run chmod 600 /some/token")) {
			t.Errorf("%s: %v", name, err)
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
	if f, err := ReadTrustedFile(long, 4); err != nil || string(f.Text) != "01234" {
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
		_, err := ReadTrustedFile(path, 100)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
		if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
			t.Errorf("%s: the error is a PathError, which names the path twice", path)
		}
		fault := WrapFault("some.key", path, err)
		if !errors.Is(fault, err) || fault.Error() != "some.key="+path+": "+err.Error() {
			t.Errorf("%v", fault)
		}
	}
	if err := WrapFault("some.key", long, nil); err != nil {
		t.Errorf("no error became %v", err)
	}
	if faults := NewWarnings("k", "p", "", "one", ""); len(faults) != 1 || faults[0].Error() != "k=p: one" || !faults[0].IsWarning {
		t.Errorf("%v", faults)
	}
}

// The advice stands at errors that it helps with: the path or the rights are wrong. None has the path.
func TestAdvice(t *testing.T) {
	for cause, advised := range map[error]bool{
		syscall.ENOENT: true, syscall.EACCES: true, syscall.EPERM: true, syscall.ENOTDIR: true,
		syscall.EIO: false, syscall.EMFILE: false, syscall.ESTALE: false,
	} {
		err := withoutPath(&fs.PathError{Op: "read", Path: "/some/file", Err: cause})
		want := cause.Error()
		if advised {
			want += "; it must name a file that this user may read"
		}
		if err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// stranger is a user who is neither root nor the one of the tests.
const stranger = 65534

// A file of another user is not read, whatever its mode: that user could change it. It counts who owns the open file.
func TestOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("hush"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTrustedFile(path, 100); err != nil {
		t.Errorf("an own file: %v", err)
	}
	if _, err := ReadTrustedFile("/etc/passwd", 100); err != nil {
		t.Errorf("a file of root's: %v", err)
	}
	if os.Getuid() != 0 {
		return // only root can give a file away
	}
	link := path + ".link"
	if err := errors.Join(os.Chown(path, stranger, stranger), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		f, err := ReadTrustedFile(name, 100)
		if err == nil || !strings.Contains(err.Error(), "belongs to the user 65534") || f.Text != nil {
			t.Errorf("%s: %q, %v", name, f.Text, err)
		}
	}
}

// Which directories another user could change, or replace.
func TestDirectory(t *testing.T) {
	root := t.TempDir()
	tests := []struct {
		name   string
		above  os.FileMode // mode of the directory above
		mode   os.FileMode
		givenA bool // the directory above is another user's
		given  bool // the directory is another user's
		others []int
		want   string
	}{
		{name: "own", above: 0o755, mode: 0o755},
		{name: "private", above: 0o700, mode: 0o700},
		{name: "sticky above", above: 0o777 | os.ModeSticky, mode: 0o700},
		{name: "sticky itself", above: 0o755, mode: 0o777 | os.ModeSticky, want: "other users may write in the directory"},
		{name: "open", above: 0o755, mode: 0o777, want: "other users may write in the directory"},
		{name: "open to a group", above: 0o755, mode: 0o770, want: "other users may write in the directory"},
		{name: "open above", above: 0o777, mode: 0o700, want: "other users may write in the directory"},
		{name: "another's", above: 0o755, mode: 0o755, given: true, want: "belongs to the user 65534"},
		{name: "another's, who is known", above: 0o755, mode: 0o755, given: true, others: []int{stranger}},
		{name: "another's in a sticky one", above: 0o777 | os.ModeSticky, mode: 0o700, given: true, want: "belongs to the user 65534"},
		{name: "another's above", above: 0o755, mode: 0o700, givenA: true, want: "belongs to the user 65534"},
	}
	for _, tt := range tests {
		if (tt.given || tt.givenA) && os.Getuid() != 0 {
			continue // only root can give a directory away
		}
		above := filepath.Join(root, tt.name)
		dir := filepath.Join(above, "dir")
		if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(above, tt.above), os.Chmod(dir, tt.mode)); err != nil {
			t.Fatal(err)
		}
		for path, given := range map[string]bool{above: tt.givenA, dir: tt.given} {
			if given {
				if err := os.Chown(path, stranger, stranger); err != nil {
					t.Fatal(err)
				}
			}
		}
		link := filepath.Join(root, tt.name+" link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{dir, link} {
			got, err := ResolveTrustedDirectory(path, tt.others...)
			if tt.want == "" && (err != nil || got != dir) || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s: %q, %v, want %q", tt.name, got, err, tt.want)
			}
		}
		made, err := MakeTrustedDirectory(filepath.Join(dir, "a", "b"))
		wanted := tt.want
		if len(tt.others) > 0 {
			wanted = "belongs to the user"
		}
		if tt.name == "sticky itself" {
			wanted = ""
		}
		if wanted == "" && (err != nil || made != filepath.Join(dir, "a", "b")) ||
			wanted != "" && (err == nil || !strings.Contains(err.Error(), wanted)) {
			t.Errorf("%s: made %q, %v, want %q", tt.name, made, err, wanted)
		}
		if _, err := os.Stat(filepath.Join(dir, "a")); wanted != "" && err == nil {
			t.Errorf("%s: something was made there", tt.name)
		}
	}
}
