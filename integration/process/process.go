// Package process runs Rollcall's binary, and other programs, as processes of this machine
// for tests: they end with the test that started them, even when go test ends the test
// binary at its time limit. An Ensemble is members that are processes of their own.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// Patience is the limit for anything that must happen: far more than it takes.
	Patience = 30 * time.Second
	// look is how often a condition outside this process is looked at.
	look = 20 * time.Millisecond
	// lastWords is how much of a log is printed when its test fails.
	lastWords = 64 << 10
)

// Process is a child of this test. It is gone when the test ends, even when go test
// ends the test binary at its time limit.
type Process struct {
	Name string
	Cmd  *exec.Cmd
	told atomic.Bool   // to end, by a signal or in its own language
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Start runs cmd. That it ends before it was told to is a failure; so is what it leaves
// in printed, then shown. It may be called by the test's own goroutine only.
func Start(t *testing.T, name string, cmd *exec.Cmd, printed func() string) *Process {
	t.Helper()
	p, err := Launch(name, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-p.done:
			if !p.told.Load() {
				t.Errorf("%s ended by itself: %v", name, p.err)
			}
		default:
			p.Kill()
		}
		if t.Failed() {
			t.Logf("%s (pid %d) printed:\n%s", name, cmd.Process.Pid, printed())
		}
	})
	return p
}

// Launch runs cmd. Nobody but the caller ends it, unless the test binary ends.
func Launch(name string, cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // a script's own child may still hold its output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{Name: name, Cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Tell notes that the process has been told to end, unless it has ended before.
func (p *Process) Tell() {
	if p.Running() {
		p.told.Store(true)
	}
}

// Forgive notes that it was right for the process to end by itself.
func (p *Process) Forgive() { p.told.Store(true) }

// Kill ends the process and what it started by SIGKILL, and waits until it is gone.
func (p *Process) Kill() {
	p.Tell()
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) // fails if it has ended meanwhile
	<-p.done
}

// Signal asks the process to end.
func (p *Process) Signal(sig os.Signal) error {
	p.Tell()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Status waits until the process, which has been told to end, is gone. It returns its
// exit status, -1 after a signal.
func (p *Process) Status(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	p.Tell()
	select {
	case <-p.done:
		if exit := (*exec.ExitError)(nil); p.err != nil && !errors.As(p.err, &exit) {
			return 0, fmt.Errorf("%s: %w", p.Name, p.err)
		}
		return p.Cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not end: %w", p.Name, ctx.Err())
	}
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Until looks at a condition until it holds; what names it in the error.
func Until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		}
	}
	return nil
}

// tail returns the end of a file.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-lastWords):])
}
