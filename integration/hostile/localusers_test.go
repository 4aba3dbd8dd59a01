package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/lab/process"
)

const (
	// otherUser is a user who is neither root nor the one of the tests.
	otherUser = 65534
	// upFirst and upLast are the ports among which the ensemble of rollcall up takes its own. They are below those that the kernel gives
	// to programs that connect somewhere, so that the members find them free again.
	upFirst, upLast = 10_000, 28_000
	upSize          = 3
	// refusedStatus is the exit status of a command that does not trust the process that replies.
	refusedStatus = 4
	preciousText  = "precious"
)

// upHome is a directory in which rollcall up has run, and what another user of the machine tries with it.
type upHome struct {
	t        *testing.T
	dir      string
	port     int    // of the first member for clients
	precious string // a file of the user, which links name
	log      string
}

// newUpHome returns one whose ports are free.
func newUpHome(t *testing.T) *upHome {
	t.Helper()
	h := &upHome{t: t, dir: filepath.Join(t.TempDir(), "up"), precious: filepath.Join(t.TempDir(), "precious"), log: filepath.Join(t.TempDir(), "log")}
	h.write(h.precious, preciousText)
	for h.port = upFirst + os.Getpid()*10%(upLast-upFirst); !h.free(); {
		if h.port += 10; h.port > upLast {
			t.Fatalf("no free ports from %d to %d", upFirst, upLast)
		}
	}
	return h
}

// free reports whether all ports of the members are free.
func (h *upHome) free() bool {
	for i := range upSize {
		for _, above := range []int{0, 1000, 2000, 3000} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", h.port+above+i))
			if err != nil {
				return false
			}
			_ = l.Close()
		}
	}
	return true
}

func (h *upHome) write(path, text string) {
	h.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (h *upHome) file(name string) string { return filepath.Join(h.dir, name) }

// operators returns the address of a member for operators.
func (h *upHome) operators(member int) string {
	return fmt.Sprintf("127.0.0.1:%d", h.port+3000+member-1)
}

func (h *upHome) up(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, rollcall, "up", "--data", h.dir, "--port", fmt.Sprint(h.port), "--members", fmt.Sprint(upSize))
}

// start runs all members, and returns when they serve.
func (h *upHome) start() *process.Process {
	h.t.Helper()
	log, err := os.Create(h.log)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = log.Close() }() // the process has a descriptor of its own
	text := func() string {
		printed, err := os.ReadFile(h.log)
		if err != nil {
			return err.Error()
		}
		return string(printed)
	}
	cmd := h.up(context.WithoutCancel(h.t.Context()))
	cmd.Stdout, cmd.Stderr = log, log
	p := process.Start(h.t, "rollcall up", cmd, text)
	ready := func() bool { return !p.IsRunning() || strings.Contains(text(), "ready: connect to") }
	if err := process.Until(h.t.Context(), "rollcall up is ready", ready); err != nil || !p.IsRunning() {
		h.t.Fatalf("%v\n%s", err, text())
	}
	return p
}

// refuses starts the members, or one of them by rollcall serve. The start must end with an error that contains words. No
// file of the user may have changed.
func (h *upHome) refuses(cmd func(ctx context.Context) *exec.Cmd, words string) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), process.Patience)
	defer stop()
	text, err := cmd(ctx).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() < 1 || !strings.Contains(string(text), words) {
		h.t.Fatalf("it must end with %q: %v\n%s", words, err, text)
	}
	h.keeps()
}

// keeps checks the file that links name.
func (h *upHome) keeps() {
	h.t.Helper()
	if text, err := os.ReadFile(h.precious); err != nil || string(text) != preciousText {
		h.t.Errorf("the user's file has %q, %v", text, err)
	}
}

// serve runs the first member alone.
func (h *upHome) serve(ctx context.Context) *exec.Cmd {
	return exec.CommandContext(ctx, rollcall, "serve", "--myid", "1", h.file("1/zoo.cfg"))
}

// command changes the log level of a member at an address, and returns the command's output and its exit status.
func (h *upHome) command(at string) (text string, status int) {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), rollcall, "log-level", "info", "--token-file", h.file("token"), "--admin", at)
	all, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return string(all), cmd.ProcessState.ExitCode()
}

// reaches sends a command to each member, at its port and at its socket.
func (h *upHome) reaches() {
	h.t.Helper()
	for member := 1; member <= upSize; member++ {
		for _, at := range []string{"http://" + h.operators(member), "unix:" + h.file(fmt.Sprint(member, "/admin.sock"))} {
			if text, status := h.command(at); status != 0 {
				h.t.Errorf("%s: exit status %d\n%s", at, status, text)
			}
		}
	}
}

// squatter is a program of another user that listens in the place of a member. It keeps the bytes that it reads, and
// replies to each connection as if all were well.
type squatter struct {
	net.Listener
	mu    sync.Mutex
	got   bytes.Buffer
	conns sync.WaitGroup
}

func (h *upHome) squat(addr string) *squatter {
	h.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &squatter{Listener: l}
	s.conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Go(func() { s.answer(c) })
		}
	})
	h.t.Cleanup(s.leave)
	return s
}

func (s *squatter) answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(process.Patience))
	part := make([]byte, 64<<10)
	n, _ := c.Read(part)
	s.mu.Lock()
	s.got.Write(part[:n])
	s.mu.Unlock()
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
}

// leave ends the program. It may be called more than once.
func (s *squatter) leave() {
	_ = s.Close()
	s.conns.Wait()
}

// All members are killed, and another user of the machine takes a port of theirs for operators before they start again. They do not
// start beside him, and he reads no token. After he has left they start, and commands reach each of them.
func TestPortIsTakenAtRestart(t *testing.T) {
	needs.Check(t, needs.Nightly)
	h := newUpHome(t)
	members := h.start()
	h.reaches()
	members.Kill()
	token, err := os.ReadFile(h.file("token"))
	if err != nil {
		t.Fatal(err)
	}
	for member := 1; member <= upSize; member += 2 {
		s := h.squat(h.operators(member))
		h.refuses(h.up, "another program, perhaps of another user")
		if text, status := h.command("http://" + h.operators(member)); status != refusedStatus ||
			!strings.Contains(text, "does not prove that it has the token") {
			t.Errorf("exit status %d\n%s", status, text)
		}
		if text, status := h.command("unix:" + h.file(fmt.Sprint(member, "/admin.sock"))); status == 0 {
			t.Errorf("a socket that its member has left:\n%s", text)
		}
		s.leave()
		if s.got.Len() == 0 || bytes.Contains(s.got.Bytes(), bytes.TrimSpace(token)) {
			t.Errorf("the program in the place of member %d has read %q", member, s.got.Bytes())
		}
	}
	h.start()
	h.reaches()
}

// All members are killed, and before they start again another user has prepared their directory, or owns a file with a secret.
// They do not start with it, and write through no link.
func TestDirectoryIsPreparedAtRestart(t *testing.T) {
	needs.Check(t, needs.Nightly)
	h := newUpHome(t)
	h.start().Kill()
	for _, tt := range []struct {
		words         string
		prepare, undo func() error
	}{
		{"may write in the directory", func() error { return os.Chmod(h.dir, 0o777) }, func() error { return os.Chmod(h.dir, 0o700) }},
		{"may write in the directory", func() error { return os.Chmod(filepath.Dir(h.dir), 0o777) }, func() error { return os.Chmod(filepath.Dir(h.dir), 0o700) }},
		{"token in ", func() error { return h.link("token") }, func() error { return h.unlink("token") }},
		{"secret in ", func() error { return h.link("secret") }, func() error { return h.unlink("secret") }},
		{"2 in ", func() error { return h.link("2") }, func() error { return h.unlink("2") }},
	} {
		if err := tt.prepare(); err != nil {
			t.Fatal(err)
		}
		h.refuses(h.up, tt.words)
		if err := tt.undo(); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 { // only root can give files away
		for _, name := range []string{"token", "secret"} {
			if err := os.Chown(h.file(name), otherUser, otherUser); err != nil {
				t.Fatal(err)
			}
			h.refuses(h.up, "belongs to the user 65534")
			h.refuses(h.serve, "belongs to the user 65534")
			if err := os.Chown(h.file(name), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.link("1/zoo.cfg"); err != nil { // it is written again at each start
		t.Fatal(err)
	}
	h.start()
	h.keeps()
	h.reaches()
}

// link gives a name in the directory to a link to the user's file. unlink undoes that.
func (h *upHome) link(name string) error {
	return errors.Join(os.Rename(h.file(name), h.file(name+".away")), os.Symlink(h.precious, h.file(name)))
}

func (h *upHome) unlink(name string) error {
	return errors.Join(os.Remove(h.file(name)), os.Rename(h.file(name+".away"), h.file(name)))
}
