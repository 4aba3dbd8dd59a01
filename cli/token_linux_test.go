package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal returns the end of a pseudo-terminal where a person types, and the path of the other one.
func openTerminal(t *testing.T) (keys *os.File, path string) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	path = fmt.Sprint("/dev/pts/", n)
	held, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) // without it, the terminal is reset whenever the command closes its file
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	return keys, path
}

// isEchoed reports whether a terminal shows what is typed.
func isEchoed(t *testing.T, keys *os.File) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(keys.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// A token that is pasted at the terminal is not echoed, and is asked for once.
func TestTypedTokenIsNotEchoed(t *testing.T) {
	const token = "0123456789abcdef-pasted"
	keys, path := openTerminal(t)
	l := linkOf(t, nil, "--token-file", path)
	var prompts bytes.Buffer
	l.streams.Err = &prompts
	var typing sync.WaitGroup
	typing.Go(func() {
		for deadline := time.Now().Add(time.Minute); isEchoed(t, keys); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Error("the terminal still echoes when the token is read")
				break
			}
		}
		_, _ = io.WriteString(keys, token+"\n")
	})
	for range 2 {
		if auth, err := l.readAuthorization(); err != nil || auth != "Bearer "+token {
			t.Fatalf("%q, %v", auth, err)
		}
	}
	typing.Wait()
	if !isEchoed(t, keys) {
		t.Error("the terminal does not echo any more after the token")
	}
	if got := prompts.String(); got != "Token: \n" {
		t.Errorf("prompted %q, want once", got)
	}
	if _, err := io.WriteString(keys, "end\n"); err != nil {
		t.Fatal(err)
	}
	shown := make([]byte, 1024)
	n, err := keys.Read(shown)
	if text := string(shown[:n]); err != nil || strings.Contains(text, token) || !strings.Contains(text, "end") {
		t.Errorf("the terminal shows %q, %v", text, err)
	}
}

// A token that comes through a pipe is read once.
func TestPipedToken(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	_, _ = io.WriteString(w, "0123456789abcdef-piped\n")
	_ = w.Close()
	l := linkOf(t, nil, "--token-file", fmt.Sprint("/dev/fd/", r.Fd()))
	for range 2 {
		if auth, err := l.readAuthorization(); err != nil || auth != "Bearer 0123456789abcdef-piped" {
			t.Fatalf("%q, %v", auth, err)
		}
	}
}
