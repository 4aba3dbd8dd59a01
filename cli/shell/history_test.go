package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// collectHints returns a function that keeps hints.
func collectHints(to *[]string) func(string) { return func(text string) { *to = append(*to, text) } }

// A shell reaches the lines of former shells, in a file that only its user can read. It has no line
// with a password, and none twice in a row.
func TestHistory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(name, []byte("ls /old\nget \x1b[31m\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var hints []string
	h := openHistory(name, collectHints(&hints))
	for _, line := range []string{"ls /", "ls /", "", "  ", "addauth digest u:secret", ` "addauth" digest u:secret`, "get /a"} {
		h.Add(line)
	}
	h.close()
	text, err := os.ReadFile(name)
	if err != nil || string(text) != "ls /old\nget \x1b[31m\nls /\nget /a\n" {
		t.Errorf("%v: %q", err, text)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v: %v", err, info.Mode())
	}
	h = openHistory(name, collectHints(&hints))
	defer h.close()
	var got []string
	for i := range h.Len() {
		got = append(got, h.At(i))
	}
	if want := []string{"get /a", "ls /", "ls /old"}; !slices.Equal(got, want) || len(hints) > 0 {
		t.Errorf("%q, want %q; hints %q", got, want, hints)
	}
}

// The file and the memory of the history are bounded.
func TestHistoryIsBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	for _, text := range []string{
		strings.Repeat("ls /a\nls /b\n", maxHistory+1),
		strings.Repeat("x", maxHistoryFile) + "\nls /a\nls /b\n",
		strings.Repeat("\n", maxHistoryFile+1),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h := openHistory(name, func(text string) { t.Error(text) })
		if h.Len() > maxHistory {
			t.Errorf("%d lines", h.Len())
		}
		for i := range maxHistory + 1 {
			h.Add(fmt.Sprint("ls /", i))
		}
		h.close()
		info, err := os.Stat(name)
		if err != nil || h.Len() != maxHistory || info.Size() > 40*maxHistory {
			t.Errorf("%v: %d lines, %d bytes", err, h.Len(), info.Size())
		}
	}
}

// A line with a password is kept neither in the file nor for the arrow keys, also if addauth is mistyped.
func TestHistoryHasNoPasswords(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := openHistory(name, func(text string) { t.Error(text) })
	defer h.close()
	for _, line := range []string{
		"addauth digest u:secret", "  addauth digest u:secret", "addAuth digest u:secret", "ADDAUTH digest u:secret", "addauh digset u:secret", "adauth x:secret", "adduath x:secret",
		"addaut x:secret", "addauthh x:secret", "addauthdigest u:secret", "addauthx: u:secret", "add auth digest u:secret", "authadd u:secret", "auth u:secret", "'addauth digest u:secret",
		"ddauth secret", "x addauth secret", "ad dauth Digest u:secret", "addäuth secret", "add-auth x:secret",
	} {
		h.Add(line)
	}
	kept := []string{"addWatch /a", "addwatch -m PERSISTENT /a", "getAcl /auth", "ls /addauth", "set /a author", "add", "setAcl /a world:anyone:r"}
	for _, line := range kept {
		h.Add(line)
	}
	text, err := os.ReadFile(name)
	if want := strings.Join(kept, "\n") + "\n"; err != nil || string(text) != want || !slices.Equal(h.lines, kept) {
		t.Errorf("%v: the file has %q, the keys reach %q, want %q", err, text, h.lines, want)
	}
}

// The shell does not write through a symbolic link, which another user may have put there.
func TestHistoryFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	name, target := filepath.Join(dir, "history"), filepath.Join(dir, "target")
	for _, there := range []bool{false, true} {
		if there {
			if err := os.WriteFile(target, []byte("mine\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
		var hints []string
		h := openHistory(name, collectHints(&hints))
		h.Add("ls /")
		if len(hints) != 1 || !strings.Contains(hints[0], name+" is a symbolic link, which is not followed") || h.file != nil {
			t.Errorf("hints %q", hints)
		}
		text, err := os.ReadFile(target)
		if there && string(text) != "mine\n" || !there && !os.IsNotExist(err) {
			t.Errorf("the target has %q, %v", text, err)
		}
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v: the target's mode has changed to %v", err, info.Mode())
	}
}

// The file does not grow beyond its bound while one shell runs, and ends in the last line.
func TestHistoryIsBoundedWhileItRuns(t *testing.T) {
	name := filepath.Join(t.TempDir(), "history")
	h := openHistory(name, func(text string) { t.Error(text) })
	defer h.close()
	long := strings.Repeat("x", 16<<10)
	for i := range 2 * maxHistoryFile / len(long) {
		h.Add(fmt.Sprint("set /a ", long, i))
		if info, err := os.Stat(name); err != nil || info.Size() > maxHistoryFile {
			t.Fatalf("%v: %d bytes after %d lines", err, info.Size(), i+1)
		}
	}
	text, err := os.ReadFile(name)
	if last := h.At(0); err != nil || !strings.HasSuffix(string(text), "\n"+last+"\n") || !strings.HasPrefix(string(text), "set /a x") {
		t.Errorf("%v: the file begins with %.20q and does not end in the last line", err, text)
	}
}

// Without a usable file, a shell has a history of its own, and reports the reason.
func TestHistoryWithoutFile(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Join(dir, "none", "history"), os.DevNull} {
		var hints []string
		h := openHistory(name, collectHints(&hints))
		h.Add("ls /")
		if h.Len() != 1 || h.file != nil || len(hints) != 1 || !strings.HasPrefix(hints[0], "The history is not kept: ") {
			t.Errorf("%s: %d lines, hints %q", name, h.Len(), hints)
		}
	}
	h := openHistory("", nil)
	h.Add("ls /")
	if h.Len() != 1 {
		t.Error("no history without a file")
	}
}
