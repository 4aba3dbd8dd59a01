// Package process runs Rollcall's binary, and other programs, as processes for tests. They end with
// the test that started them, even if go test kills the test binary at its time limit. An Ensemble
// is members that run as processes.
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

	"rollcall/lab/child"
)

const (
	// Patience is the limit for anything that must happen. It is far longer than anything takes.
	Patience = 2 * time.Minute
	// pollInterval is the interval at which a condition outside this process is checked.
	pollInterval = 20 * time.Millisecond
	// tailBytes is the number of bytes of a log that are printed when its test fails.
	tailBytes = 64 << 10
)

// Process is a child process of this test. It is gone when the test ends, even if go test kills the
// test binary at its time limit.
type Process struct {
	Name      string // for errors
	Cmd       *exec.Cmd
	child     *child.Process
	toldToEnd atomic.Bool // it is expected to end, after a signal or for another reason
}

// Start runs cmd. The test fails if the process ends unexpectedly: see ExpectEnd and Forgive. A failed
// test logs the result of printed. Call it only from the test's own goroutine.
func Start(t *testing.T, name string, cmd *exec.Cmd, printed func() string) *Process {
	t.Helper()
	p, err := Launch(name, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.IsRunning() {
			p.Kill()
		} else if !p.toldToEnd.Load() {
			t.Errorf("%s ended by itself: %v", name, p.Err())
		}
		if t.Failed() {
			t.Logf("%s (pid %d) printed:\n%s", name, cmd.Process.Pid, printed())
		}
	})
	return p
}

// Launch runs cmd. The caller must end it; otherwise it ends with the test binary.
func Launch(name string, cmd *exec.Cmd) (*Process, error) {
	cmd.WaitDelay = time.Second // a script's child may still hold its output
	c, err := child.Start(name, cmd)
	if err != nil {
		return nil, err
	}
	return &Process{Name: name, Cmd: cmd, child: c}, nil
}

// ExpectEnd records that the process is expected to end from now on, unless it has ended before.
func (p *Process) ExpectEnd() {
	if p.IsRunning() {
		p.toldToEnd.Store(true)
	}
}

// Forgive records that it was right for the process to end by itself.
func (p *Process) Forgive() { p.toldToEnd.Store(true) }

// Kill kills the process and its children with SIGKILL, and waits until it is gone.
func (p *Process) Kill() {
	p.ExpectEnd()
	p.child.KillGroup()
}

// SendSignal sends the process a signal that makes it end.
func (p *Process) SendSignal(sig os.Signal) error {
	p.ExpectEnd()
	return p.child.Signal(sig)
}

// Stop stops the process with SIGSTOP, and returns when all its threads have stopped.
func (p *Process) Stop() error { return p.child.Stop() }

// Continue resumes a process that Stop has stopped.
func (p *Process) Continue() error { return p.child.Signal(syscall.SIGCONT) }

// IsRunning reports whether the process is still running.
func (p *Process) IsRunning() bool { return p.child.IsRunning() }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.child.Done() }

// Err waits until the process has ended, and returns the error of Cmd.Wait.
func (p *Process) Err() error { return p.child.Err() }

// ExitStatus waits until the process, which is expected to end, is gone. It returns the exit status, or
// -1 if a signal ended it.
func (p *Process) ExitStatus(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	p.ExpectEnd()
	select {
	case <-p.Done():
		if exit, err := (*exec.ExitError)(nil), p.Err(); err != nil && !errors.As(err, &exit) {
			return 0, fmt.Errorf("%s: %w", p.Name, err)
		}
		return p.Cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not end: %w", p.Name, ctx.Err())
	}
}

// Until checks a condition until it holds, for as long as Patience. what describes it in the error.
func Until(ctx context.Context, what string, holds func() bool) error {
	return pollWithin(ctx, Patience, what, holds)
}

// pollWithin does the same for as long as limit.
func pollWithin(ctx context.Context, limit time.Duration, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
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
