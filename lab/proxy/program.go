package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Pauser stops and continues a program as a whole.
type Pauser interface {
	Stop() error
	Continue() error
}

// Process is a program that runs.
type Process interface {
	Pauser
	// Wait blocks until the program has ended. The error is nil if the program succeeded. It is called once.
	Wait() error
	// Kill ends the program at once, also if it is stopped.
	Kill()
}

// Program starts the user's program.
type Program interface {
	// Start starts the program, which connects to an ensemble with this connect string and writes its output to out. The
	// error means that it cannot run at all.
	Start(ctx context.Context, connect string, out io.Writer) (Process, error)
}

const (
	// ConnectVariable is the environment variable that has the connect string.
	ConnectVariable = "ROLLCALL_CONNECT"
	// ConnectWord is replaced by the connect string in the arguments of a command.
	ConnectWord = "{connect}"
)

// Command is a program that is a command line. It runs in a process group of its own, so that a fault stops and ends its
// children too, except those that leave the group.
type Command []string

// Start implements Program.
func (c Command) Start(_ context.Context, connect string, out io.Writer) (Process, error) {
	args := make([]string, len(c))
	for i, arg := range c {
		args[i] = strings.ReplaceAll(arg, ConnectWord, connect)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), ConnectVariable+"="+connect)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// A child that outlives the command may keep its output open.
	cmd.WaitDelay = outputDelay
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c[0], err)
	}
	return &groupProcess{cmd: cmd}, nil
}

// outputDelay limits the wait for output after a command has ended.
const outputDelay = time.Second

// groupProcess is a command that runs, with its process group.
type groupProcess struct{ cmd *exec.Cmd }

// Wait implements Process.
func (p *groupProcess) Wait() error {
	err := p.cmd.Wait()
	p.Kill() // what the command has left in its group
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // it exited with 0
	}
	return err
}

// Stop implements Pauser.
func (p *groupProcess) Stop() error { return p.signalGroup("stop", syscall.SIGSTOP) }

// Continue implements Pauser.
func (p *groupProcess) Continue() error { return p.signalGroup("continue", syscall.SIGCONT) }

// Kill implements Process.
func (p *groupProcess) Kill() { _ = p.signalGroup("kill", syscall.SIGKILL) } // if it fails, there is nothing to kill

// signalGroup sends a signal to the process group.
func (p *groupProcess) signalGroup(what string, signal syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, signal); err != nil {
		return fmt.Errorf("%s the program: %w", what, err)
	}
	return nil
}

// lastLines keeps the end of a program's output. It is safe for concurrent use.
type lastLines struct {
	mu   sync.Mutex
	kept []byte
}

// maxOutput limits the bytes that are kept of the output of one run. They are the last ones.
const maxOutput = 64 << 10

// Write implements io.Writer. It never fails.
func (t *lastLines) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if len(t.kept) > 2*maxOutput {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-maxOutput:]...)
	}
	return len(b), nil
}

// lastOf returns the last n lines.
func (t *lastLines) lastOf(n int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.ToValidUTF8(strings.TrimSpace(string(t.kept)), "?")
	if text == "" {
		return nil
	}
	all := strings.Split(text, "\n")
	return all[max(0, len(all)-n):]
}
