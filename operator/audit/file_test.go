package audit

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// opened opens the file audit in a new directory, with room for 100 bytes and two old files.
func opened(t *testing.T) (*fileSink, string, *bytes.Buffer) {
	t.Helper()
	var warnings bytes.Buffer
	path := filepath.Join(t.TempDir(), "audit")
	w, err := newFileSink(path, 100, 2, false, slog.New(slog.NewTextHandler(&warnings, nil)).Warn)
	if err != nil {
		t.Fatal(err)
	}
	return w, path, &warnings
}

// put writes a line that begins as those in JSON do.
func put(t *testing.T, w *fileSink, line string) {
	t.Helper()
	if err := w.write([]byte(jsonPrefix + line + "\n")); err != nil {
		t.Fatal(err)
	}
}

// read returns the lines of a file without the beginning that put gave them.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), jsonPrefix, "")
}

// Open makes the directory of the default file, and no other one: a wrong path is an error.
func TestOwnDirectory(t *testing.T) {
	for _, own := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "data", "audit", "audit.log")
		l, err := Open(Config{Settings: Settings{Enable: true, File: path, OwnDirectory: own}})
		if (err == nil) != own {
			t.Fatalf("own directory %t: %v", own, err)
		}
		l.Close()
		info, err := os.Stat(filepath.Dir(path))
		if own && (err != nil || info.Mode().Perm()&0o007 != 0) || !own && err == nil {
			t.Errorf("own directory %t: %v, %v", own, info, err)
		}
	}
}

// A loss of power may leave the size of the first lines and only some of their sectors. Such a file is emptied. Another
// file that begins with zeros is rejected and not changed.
func TestLostBeginning(t *testing.T) {
	zeros := strings.Repeat("\x00", sectorSize)
	lines := strings.Repeat(jsonPrefix+"a line\n", sectorSize)
	for name, tt := range map[string]struct {
		text    string
		emptied bool
	}{
		"zeros":               {zeros[:100], true},
		"zeros, then lines":   {zeros + zeros + lines, true},
		"zeros in a sector":   {zeros + "text\x00" + lines, false},
		"zeros after a line":  {jsonPrefix + "\n" + zeros, false},
		"more than was lost":  {strings.Repeat(zeros, maxLineBytes/sectorSize+1), false},
		"text of other kinds": {"other\n" + zeros, false},
	} {
		path := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := newFileSink(path, 100, 2, false, nil)
		if err == nil {
			err = w.close()
		}
		info, serr := os.Stat(path)
		if serr != nil {
			t.Fatal(serr)
		}
		isLog := tt.emptied || strings.HasPrefix(tt.text, jsonPrefix)
		if (err == nil) != isLog || (info.Size() == 0) != tt.emptied {
			t.Errorf("%s: %v, and %d bytes are left of %d; want it emptied: %t", name, err, info.Size(), len(tt.text), tt.emptied)
		}
	}
}

// A file that is full is renamed, and so many are kept. No line is in two files or in none.
func TestRotation(t *testing.T) {
	w, path, _ := opened(t)
	for i := range 10 {
		put(t, w, fmt.Sprintf("%032d", i)) // two of them fit
	}
	put(t, w, strings.Repeat("x", 200)) // longer than a file: it gets one of its own
	put(t, w, "last")
	line := func(i int) string { return fmt.Sprintf("%032d\n", i) }
	for name, want := range map[string]string{path: "last\n", path + ".1": strings.Repeat("x", 200) + "\n", path + ".2": line(8) + line(9)} {
		if got := read(t, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat(path + ".3"); err == nil {
		t.Error("there is a third old file")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o027 != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
}

// If old files cannot be renamed, the file grows, and a warning has the reason.
func TestRotationFails(t *testing.T) {
	w, path, warnings := opened(t)
	if err := os.MkdirAll(path+".1/full", 0o700); err != nil { // a file is not renamed over a directory
		t.Fatal(err)
	}
	if err := os.MkdirAll(path+".2/full", 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		put(t, w, fmt.Sprintf("%032d", i))
	}
	if got := read(t, path); len(got) != 330 {
		t.Errorf("the file has %d bytes", len(got))
	}
	if n := strings.Count(warnings.String(), "is not rotated"); n < 1 || n > 4 {
		t.Errorf("%d warnings: %s", n, warnings)
	}
}

// Another process may move the file, remove it or empty it.
func TestMovedFile(t *testing.T) {
	w, path, _ := opened(t)
	put(t, w, "one")
	later := func() { w.lastNameCheck = time.Now().Add(-nameCheckInterval) }
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	later()
	put(t, w, "two")
	if got := read(t, path); got != "two\n" || read(t, path+".moved") != "one\n" {
		t.Errorf("the new file has %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	later()
	put(t, w, "three")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	later()
	put(t, w, strings.Repeat("4", 90))
	if got := read(t, path); got != strings.Repeat("4", 90)+"\n" {
		t.Errorf("after it was emptied it has %q", got)
	}
}

// A crash leaves a part of a line. Later lines are whole.
func TestCrash(t *testing.T) {
	for before, want := range map[string]string{
		"":                           "",
		jsonPrefix + "one\n":         "one\n",
		jsonPrefix + "one\ntw":       "one\n",
		jsonPrefix + "on":            "",
		`{"a`:                        "",
		jsonPrefix + "one\n\x00\x00": "one\n",
	} {
		w, path, _ := opened(t)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		put(t, w, "next")
		if got := read(t, path); got != want+"next\n" {
			t.Errorf("%q became %q", before, got)
		}
	}
}

// A part of a line that is longer than any line is not removed, unless lines are before it.
func TestLongPartOfLine(t *testing.T) {
	long := jsonPrefix + strings.Repeat("x", maxLineBytes-len(jsonPrefix))
	for name, tt := range map[string]struct {
		text string
		want int
	}{
		"as long as a line may be": {long, 0},
		"longer":                   {long + "x", maxLineBytes + 1},
		"after a line":             {jsonPrefix + "one\n" + long[:maxLineBytes-1], len(jsonPrefix) + 4},
		"longer, after a line":     {jsonPrefix + "one\n" + long, len(jsonPrefix) + 4 + maxLineBytes},
	} {
		path := filepath.Join(t.TempDir(), "audit")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := newFileSink(path, 100, 2, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := w.f.Stat(); err != nil || info.Size() != int64(tt.want) || w.size != int64(tt.want) {
			t.Errorf("%s: %v, %d bytes of %d are left, and %d count; want %d", name, err, info.Size(), len(tt.text), w.size, tt.want)
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that is no audit log stays as it is, whether it has the name of the log or of an old one.
func TestOtherFile(t *testing.T) {
	for _, other := range []string{"a line without an end", "a line\nand a part", "{}", "\x00", strings.Repeat("x", maxLineBytes+1), zooKeeperTimeLayout + " WARN something: x\n"} {
		path := filepath.Join(t.TempDir(), "precious")
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(Config{Settings: Settings{Enable: true, File: path}})
		if l != nil {
			l.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "something else than an audit log") || read(t, path) != other {
			t.Errorf("%.30q: %v, and the file has %.30q", other, err, read(t, path))
		}
	}
	for _, format := range []string{"json", "zookeeper"} {
		path := filepath.Join(t.TempDir(), "audit")
		settings := Settings{Enable: true, File: path, ZooKeeperFormat: format == "zookeeper"}
		for range 2 {
			l, err := Open(Config{Settings: settings})
			if err != nil {
				t.Fatalf("%s: its own file: %v", format, err)
			}
			l.Start()
			l.Add(Event{Operation: "create", Path: "/a"})
			l.Close()
		}
		if n := strings.Count(read(t, path), "\n"); n != 6 { // serverStart, create and serverStop of each
			t.Errorf("%s: %d lines", format, n)
		}
	}
	w, path, warnings := opened(t)
	if err := os.WriteFile(path+".2", []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		put(t, w, fmt.Sprintf("%032d", i))
	}
	if got := read(t, path+".2"); got != "precious" || !strings.Contains(warnings.String(), "is not rotated") {
		t.Errorf("the other file has %q; warnings: %s", got, warnings)
	}
}

// If the disk takes only a part of what is written, nothing of it stays.
func TestShortWrite(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	w, path, _ := opened(t)
	put(t, w, "one")
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 10, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	err := w.write([]byte("a line that is too long\n"))
	if e := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); e != nil {
		t.Fatal(e)
	}
	if err == nil || read(t, path) != "one\n" {
		t.Errorf("%v; the file has %q", err, read(t, path))
	}
	put(t, w, "two")
	if got := read(t, path); got != "one\ntwo\n" {
		t.Errorf("the file has %q", got)
	}
}

// A file that cannot be written is an error that names the remedy.
func TestOpenFails(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, dir + "/none/audit", "/dev/null"} {
		l, err := Open(Config{Settings: Settings{Enable: true, File: path}})
		if err == nil || l != nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "set audit.file to a path") {
			t.Errorf("%s: %v", path, err)
		}
	}
	l, err := Open(Config{Settings: Settings{Enable: true, File: dir + "/audit"}})
	if err != nil {
		t.Fatal(err)
	}
	l.Close() // it was never started
	if err := os.Remove(dir + "/audit"); err != nil {
		t.Error(err)
	}
}
