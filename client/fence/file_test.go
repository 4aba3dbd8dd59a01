//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"rollcall/client"
	"rollcall/client/fence"
)

func contentOf(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestFileRejectsSmallerTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f, ctx := fence.File{Path: path}, t.Context()
	for _, w := range []struct {
		token client.Token
		text  string
	}{{7, "a"}, {7, "b"}, {900719925474099, "c"}} {
		if err := f.Write(ctx, w.token, []byte(w.text), 0o640); err != nil || contentOf(t, path) != w.text {
			t.Fatalf("token %d: %v, the file has %q", w.token, err, contentOf(t, path))
		}
	}
	wantStale(t, fence.File{Path: path}.Write(ctx, 8, []byte("d"), 0o640), 8, 900719925474099)
	if err := f.Write(ctx, 0, nil, 0o640); !errors.Is(err, fence.ErrInvalidToken) {
		t.Errorf("token 0: %v", err)
	}
	if got := contentOf(t, path); got != "c" {
		t.Errorf("the file has %q", got)
	}
	if got, want := contentOf(t, path+".fence"), "00000900719925474099 "; len(got) != 30 || got[:21] != want {
		t.Errorf("the file with the token has %q", got)
	}
	if info, err := os.Stat(path + ".fence"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token is %v, want mode 0600: %v", info, err)
	}
}

// A token that no server gives is rejected before anything is written.
func TestFileInvalidToken(t *testing.T) {
	for _, token := range []client.Token{0, -1} {
		parent := t.TempDir()
		err := fence.File{Path: filepath.Join(parent, "state")}.Do(t.Context(), token, func() error { t.Error("the act has run"); return nil })
		if !errors.Is(err, fence.ErrInvalidToken) {
			t.Errorf("token %d: %v", token, err)
		}
		if names, err := os.ReadDir(parent); err != nil || len(names) > 0 {
			t.Errorf("token %d left files: %v, %v", token, names, err)
		}
	}
}

// A token is stored once: acts with the same one do not write it again.
func TestFileStoresTokenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := fence.File{Path: path}
	act := func(token client.Token) {
		t.Helper()
		if err := f.Do(t.Context(), token, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	act(7)
	then := time.Unix(1e9, 0)
	if err := os.Chtimes(path+".fence", then, then); err != nil {
		t.Fatal(err)
	}
	isWritten := func() bool {
		info, err := os.Stat(path + ".fence")
		return err == nil && !info.ModTime().Equal(then)
	}
	act(7)
	if isWritten() {
		t.Error("the same token is stored again")
	}
	act(8)
	if !isWritten() {
		t.Error("a greater token is not stored")
	}
}

// A damaged file with the token rejects every token. An empty one is a new one.
func TestFileDamaged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	f := fence.File{Path: path}
	if err := f.Do(t.Context(), 5, nothing); err != nil {
		t.Fatal(err)
	}
	good := contentOf(t, path+".fence")
	for _, content := range []string{good[:29], good + "x", "1" + good[1:], "x", good[:28] + "x\n"} {
		if err := os.WriteFile(path+".fence", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Do(t.Context(), 6, nothing); !errors.Is(err, fence.ErrDamaged) {
			t.Errorf("%q: %v", content, err)
		}
	}
	if err := os.Truncate(path+".fence", 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Do(t.Context(), 1, nothing); err != nil {
		t.Error(err)
	}
	if err := (fence.File{Path: filepath.Join(path, "no", "directory")}).Do(t.Context(), 1, nothing); err == nil {
		t.Error("a file without a directory was accepted")
	}
}

// holdFile makes the test's own binary hold a file with token 5 until its standard input ends.
const holdFile = "ROLLCALL_TEST_HOLD_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdFile); path != "" {
		err := fence.File{Path: path}.Do(context.Background(), 5, func() error {
			_, _ = os.Stdout.WriteString("held\n")
			_, err := io.ReadAll(os.Stdin)
			return err
		})
		if err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// While the act of another process runs, a greater token waits, until ctx ends. A process that is killed lets it go.
func TestFileExcludesOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), holdFile+"="+path)
	stdin, err := other.StdinPipe() // keeps the process waiting
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stdin.Close() }()
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held\n" {
		t.Fatalf("the process says %q, %v", line, err)
	}
	f := fence.File{Path: path}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err = f.Do(ctx, 6, func() error { t.Error("two processes act"); return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	wantStale(t, f.Do(t.Context(), 4, nothing), 4, 5)
	if err := f.Do(t.Context(), 6, nothing); err != nil {
		t.Error(err)
	}
}
