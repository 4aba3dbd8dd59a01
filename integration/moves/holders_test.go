package moves

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"rollcall/lab/process"
)

// holders is a process with clients of kazoo, python/holders.py, that hold ephemeral nodes and locks.
type holders struct {
	t     *testing.T
	p     *process.Process
	in    io.Writer
	lines chan string // what it prints
	said  []string
}

// python is Debian's, which has Debian's kazoo.
const python = "/usr/bin/python3"

// startHolders connects clients to a site, and lets them take what they hold.
func startHolders(t *testing.T, s *site, clients int) *holders {
	t.Helper()
	cmd := exec.Command(python, "-B", "python/holders.py", s.hosts(), fmt.Sprint(clients))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, printed := io.Pipe()
	var errs bytes.Buffer // read it when the process has ended
	cmd.Stdout, cmd.Stderr = printed, &errs
	h := &holders{t: t, in: in, lines: make(chan string, 1<<10)}
	h.p = process.Start(t, "holders", cmd, func() string { return strings.Join(h.said, "\n") + "\n" + errs.String() })
	go func() { // ends with the process
		<-h.p.Done()
		_ = printed.Close()
	}()
	go func() { // ends when the pipe is closed
		defer close(h.lines)
		for text := bufio.NewScanner(out); text.Scan(); {
			h.lines <- text.Text()
		}
	}()
	h.sendCommand("hold", fmt.Sprintf("held %d", clients))
	return h
}

// sendCommand sends a command to the clients, and waits for the reply.
func (h *holders) sendCommand(word, want string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, word+"\n"); err != nil {
		h.t.Fatal(err)
	}
	late := time.After(patience)
	for {
		select {
		case line, ok := <-h.lines:
			if !ok {
				h.t.Fatalf("the clients ended instead of %q:\n%s", want, strings.Join(h.said, "\n"))
			}
			if h.said = append(h.said, line); line == want {
				return
			}
		case <-late:
			h.t.Fatalf("after %q, no %q:\n%s", word, want, strings.Join(h.said, "\n"))
		}
	}
}

// patience is more than twenty clients need for all of their commands, on a busy machine.
const patience = 90 * time.Second

// fine checks that every client has its session, its nodes and its locks, and that no session was ever lost.
func (h *holders) fine() {
	h.t.Helper()
	h.sendCommand("check", "fine")
	for _, line := range h.said {
		if strings.HasPrefix(line, "state ") && strings.HasSuffix(line, " LOST") {
			h.t.Errorf("a session was lost: %q", line)
		}
	}
}

// broken counts how often a client has lost its connection.
func (h *holders) broken() (n int) {
	for _, line := range h.said {
		if strings.HasSuffix(line, " SUSPENDED") {
			n++
		}
	}
	return n
}

// leave closes all sessions.
func (h *holders) leave() {
	h.t.Helper()
	h.sendCommand("leave", "left")
	if status, err := h.p.ExitStatus(h.t.Context()); err != nil || status != 0 {
		h.t.Errorf("exit status %d, %v", status, err)
	}
}
