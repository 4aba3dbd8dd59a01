package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stranger is a user who is neither root nor the one of the tests.
const stranger = 65534

// rollcall up writes nothing where another user could have prepared links, or could read its secrets later.
func TestUpWhereOthersWrite(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	prepare := map[string]func(dir string) error{
		"may write in the directory": func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "1"), 0o777), os.Symlink(victim, filepath.Join(dir, "1", "zoo.cfg")), os.Chmod(dir, 0o777))
		},
		"may write in the directory /": func(dir string) error { return os.Chmod(filepath.Dir(dir), 0o777) },
		"token in ":                    func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "token")) },
		"secret in ":                   func(dir string) error { return os.Symlink(victim, filepath.Join(dir, "secret")) },
		"1 in ":                        func(dir string) error { return os.Symlink(filepath.Dir(victim), filepath.Join(dir, "1")) },
	}
	if os.Getuid() == 0 { // only root can give files away
		prepare["belongs to the user 65534"] = func(dir string) error { return os.Chown(dir, stranger, stranger) }
		prepare["token in"] = func(dir string) error {
			token := filepath.Join(dir, "token")
			return errors.Join(os.WriteFile(token, []byte("the token of a stranger\n"), 0o666), os.Chown(token, stranger, stranger))
		}
	}
	for want, change := range prepare {
		dir := filepath.Join(t.TempDir(), "up")
		if err := errors.Join(os.Mkdir(dir, 0o700), change(dir)); err != nil {
			t.Fatal(err)
		}
		out, err := command(t, "up", "--data", dir, "--ports", "1")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q\n%s", err, want, out)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
			t.Errorf("%q: %v, and the file of the victim has %q", want, err, text)
		}
	}
}

// What rollcall up writes replaces a link, and never goes through it. A token stays.
func TestUpWritesNewFiles(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "precious")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o600), os.Mkdir(filepath.Join(dir, "1"), 0o755), os.Symlink(victim, filepath.Join(dir, "1", "zoo.cfg"))); err != nil {
		t.Fatal(err)
	}
	files, err := openUpFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := upFlags{dataDir: dir, files: files, ports: []int{2181, 2182, 2183}}
	var tokens []string
	var out strings.Builder
	for range 2 {
		if err := f.writeMissingSecrets(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.writeAndLoadConfig(0, &eventPrinter{out: &out}); err != nil {
			t.Fatal(err)
		}
		token, err := os.ReadFile(filepath.Join(dir, "token"))
		if err != nil || len(token) < 20 {
			t.Fatalf("%q, %v", token, err)
		}
		tokens = append(tokens, string(token))
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" || tokens[0] != tokens[1] {
		t.Errorf("%v, the file of the victim has %q, the tokens are %q", err, text, tokens)
	}
	for name, mode := range map[string]os.FileMode{"token": 0o600, "secret": 0o600, "1": 0o700 | os.ModeDir, "1/zoo.cfg": 0o600} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.*")); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if err := files.replaceFile("none/zoo.cfg", ""); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a file in no directory: %v", err)
	}
	if strings.Contains(out.String(), "warning") {
		t.Errorf("its own files lead to warnings: %s", out.String())
	}
	if err := files.Close(); err != nil {
		t.Error(err)
	}
}
