package localsocket

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// stranger is a user who is neither root nor the one of the tests.
const stranger = 65534

// serve sends each connection the remote address that it has.
func serve(t *testing.T, l net.Listener) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, c.RemoteAddr().String())
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-ended })
}

// A command reaches the member of its directory, whatever the length of the path, and each side knows the user at the
// other end. Only the user of the member may connect. At the end the socket is gone.
func TestSocket(t *testing.T) {
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), strings.Repeat("long", 40))} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, SocketName)
		if err := os.WriteFile(path, []byte("of a crash"), 0o600); err != nil { // what was there is replaced
			t.Fatal(err)
		}
		l, err := Listen(dir)
		if err != nil {
			t.Fatal(err)
		}
		serve(t, l)
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != os.ModeSocket|0o600 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		c, err := Dial(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(c)
		if want := PeerPrefix + strconv.Itoa(os.Getuid()); err != nil || string(text) != want {
			t.Errorf("the member sees %q, %v, want %q", text, err, want)
		}
		if err := errors.Join(c.Close(), l.Close()); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
}

// A member that ends removes its own socket alone.
func TestSocketOfTheNext(t *testing.T) {
	dir := t.TempDir()
	first, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, second)
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	c, err := Dial(t.Context(), filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// A member does not listen where others could replace its socket, and a command does not connect there.
func TestSocketWhereOthersWrite(t *testing.T) {
	dir := t.TempDir()
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	const want = "other users may write in the directory"
	if _, err := Dial(t.Context(), filepath.Join(dir, SocketName)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("dial: %v", err)
	}
	if _, err := Listen(dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("listen: %v", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), filepath.Join(dir, "file")); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("a file: %v", err)
	}
}

// TestMain connects to a socket, or listens on one until its input ends, if another test runs it for that.
func TestMain(m *testing.M) {
	if path := os.Getenv("LOCALSOCKET_DIAL"); path != "" {
		if _, err := Dial(context.Background(), path); err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	path := os.Getenv("LOCALSOCKET_LISTEN")
	if path == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		os.Exit(1)
	}
	if _, err := os.Stdout.WriteString("listens\n"); err != nil {
		os.Exit(1)
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = l.Close()
}

// asStranger returns a command that runs this binary as another user, with a variable.
func asStranger(t *testing.T, variable string) *exec.Cmd {
	t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	exe := filepath.Join(t.TempDir(), "stranger") // go test keeps the binary where others cannot read it
	if err := errors.Join(os.WriteFile(exe, binary, 0o755), os.Chmod(filepath.Dir(exe), 0o755), os.Chmod(filepath.Dir(filepath.Dir(exe)), 0o755)); err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), exe)
	other.Env = []string{variable}
	other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
	return other
}

// Every user believes root, whose members may run here, and no user gets to a socket that is not open to him.
func TestSocketOfRoot(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can run a process as another user
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	path := filepath.Join(dir, SocketName)
	if text, err := asStranger(t, "LOCALSOCKET_DIAL="+path).Output(); err == nil || !strings.Contains(string(text), "permission denied") {
		t.Errorf("another user: %v, %s", err, text)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if text, err := asStranger(t, "LOCALSOCKET_DIAL="+path).Output(); err != nil {
		t.Errorf("root listens: %v, %s", err, text)
	}
}

// A command sends nothing to a socket of another user, also if its file was given to this user: the listener
// counts, too.
func TestSocketOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		return // only root can run a process as another user
	}
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SocketName)
	other := asStranger(t, "LOCALSOCKET_LISTEN="+path)
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line := make([]byte, 8); true {
		if _, err := io.ReadFull(out, line); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "belongs to the user 65534") {
		t.Errorf("the directory of another: %v", err)
	}
	if c, err := Dial(t.Context(), path, stranger); err != nil {
		t.Errorf("the owner of the token: %v", err)
	} else {
		_ = c.Close()
	}
	if err := os.Chown(dir, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "admin.sock belongs to the user 65534") {
		t.Errorf("the socket of another: %v", err)
	}
	if err := os.Chown(path, 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Dial(t.Context(), path); err == nil || !strings.Contains(err.Error(), "the user 65534 listens on") {
		t.Errorf("another listens: %v", err)
	}
	if err := errors.Join(in.Close(), other.Wait()); err != nil {
		t.Error(err)
	}
}
