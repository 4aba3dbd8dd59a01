// Package child runs programs as child processes of a drill or of a test. A child has a process group of its own, so a Ctrl-C at
// the terminal does not reach it. On Linux it is killed when this process ends, however it ends.
package child

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// Process is a child process. Its methods are safe for concurrent use.
type Process struct {
	Name string // for errors
	Cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read it after done
}

// Start starts cmd. The caller must end the process, and nobody but Start calls cmd.Wait.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	return start(name, cmd, Attributes())
}

// StartSession does the same in a session of its own. Linux divides the processors evenly between sessions (sched_autogroup), so
// the number of threads of a process does not count then.
func StartSession(name string, cmd *exec.Cmd) (*Process, error) {
	attributes := Attributes()
	attributes.Setpgid, attributes.Setsid = false, true // which makes a process group, too
	return start(name, cmd, attributes)
}

func start(name string, cmd *exec.Cmd, attributes *syscall.SysProcAttr) (*Process, error) {
	cmd.SysProcAttr = attributes
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start of %s: %w", name, err)
	}
	p := &Process{Name: name, Cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err waits until the process has ended, and returns the error of cmd.Wait.
func (p *Process) Err() error {
	<-p.done
	return p.err
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

// Signal sends the process a signal.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.Cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// KillGroup kills the process and its children with SIGKILL, and waits until the process is gone.
func (p *Process) KillGroup() {
	_ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) // fails if it has ended meanwhile
	<-p.done
}

// Stop stops the process with SIGSTOP, and returns when all its threads have stopped. Until then they may do more: a thread
// stops only after the system call that it is in.
func (p *Process) Stop() error {
	if err := StopPid(p.Cmd.Process.Pid); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	return nil
}

// StopPid does the same with a child whose number is known.
func StopPid(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	return awaitStopped(pid)
}

// Tail returns the last n bytes of a file, or the error of reading it, for the text of an error.
func Tail(path string, n int) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-n):])
}
