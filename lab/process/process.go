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

	"golang.org/x/sys/unix"
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
	Name      string
	Cmd       *exec.Cmd
	toldToEnd atomic.Bool   // it is expected to end, after a signal or for another reason
	done      chan struct{} // closed when it has ended
	err       error         // the error of Wait; read it after done
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Start runs cmd. The test fails if the process ends unexpectedly: see ExpectEnd and Forgive. A failed
// test logs the result of printed. Call it only from the test's own goroutine.
func Start(t *testing.T, name string, cmd *exec.Cmd, printed func() string) *Process {
	t.Helper()
	p, err := Launch(name, cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		select {
		case <-p.done:
			if !p.toldToEnd.Load() {
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

// Launch runs cmd. The caller must end it; otherwise it ends with the test binary.
func Launch(name string, cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // a script's child may still hold its output
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
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) // fails if it has ended meanwhile
	<-p.done
}

// SendSignal sends the process a signal that makes it end.
func (p *Process) SendSignal(sig os.Signal) error {
	p.ExpectEnd()
	if err := p.Cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Stop stops the process with SIGSTOP, and returns when all its threads have stopped. Until then they may do more: a thread
// stops only after the system call that it is in.
func (p *Process) Stop() error {
	pid := p.Cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	for {
		switch err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED, nil); {
		case err == nil:
			return nil
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("wait until %s has stopped: %w", p.Name, err)
		}
	}
}

// Continue resumes a process that Stop has stopped.
func (p *Process) Continue() error {
	if err := syscall.Kill(p.Cmd.Process.Pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("continue %s: %w", p.Name, err)
	}
	return nil
}

// ExitStatus waits until the process, which is expected to end, is gone. It returns the exit status, or
// -1 if a signal ended it.
func (p *Process) ExitStatus(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	p.ExpectEnd()
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

// IsRunning reports whether the process is still running.
func (p *Process) IsRunning() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
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

// tailOfFile returns the end of a file.
func tailOfFile(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-tailBytes):])
}
