package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"rollcall/lab/child"
)

// Step is one action that undoes something. It is plain data, so that another process can do it, and it may be done
// more than once. Exactly one of Signal, Run, Thaw, Unmount and Remove is set.
type Step struct {
	// Signal is sent to the process Pid that started at Started, unless that has ended: another process may have its
	// number now.
	Signal  syscall.Signal `json:"signal,omitempty"`
	Pid     int            `json:"pid,omitempty"`
	Started string         `json:"started,omitempty"` // as startOf returns it

	Run     []string      `json:"run,omitempty"`     // a program and its arguments
	Env     []string      `json:"env,omitempty"`     // of Run, besides the variables of this process
	Unset   []string      `json:"unset,omitempty"`   // variables of this process that Run does not get
	Dir     string        `json:"dir,omitempty"`     // the working directory of Run; "": that of this process
	Timeout time.Duration `json:"timeout,omitempty"` // of Run; 0: stepTimeout
	Needs   string        `json:"needs,omitempty"`   // of Run: without this path there is nothing to do

	Thaw    string `json:"thaw,omitempty"`    // a mounted file system
	Unmount string `json:"unmount,omitempty"` // a mounted file system

	// Remove is a file, or a directory with the file drillMark in it, in which Mark is.
	Remove string `json:"remove,omitempty"`
	Mark   string `json:"mark,omitempty"`
}

const (
	// stepTimeout is the limit of a command that changes the network of this machine, which takes milliseconds.
	stepTimeout = 20 * time.Second
	// drillMark is a file in each directory that a drill has made, so that no other one is ever removed.
	drillMark = ".rollcall-drill"
	// maxOutput limits the part of a command's output that an error shows, in bytes.
	maxOutput = 2 << 10
)

// runSteps does all steps in order, and returns the first error.
func runSteps(ctx context.Context, steps []Step) error {
	for _, s := range steps {
		if err := s.execute(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s Step) execute(ctx context.Context) error {
	switch {
	case s.Signal != 0:
		return s.sendSignal()
	case len(s.Run) > 0:
		return s.runProgram(ctx)
	case s.Thaw != "":
		return thawWrites(s.Thaw)
	case s.Unmount != "":
		return unmountLazily(s.Unmount)
	case s.Remove != "":
		return s.removeFiles()
	}
	return errors.New("the journal has a step of an unknown kind: another version of rollcall wrote it; heal with that " +
		"one")
}

func (s Step) sendSignal() error {
	started, err := startOf(s.Pid)
	switch {
	case err != nil:
		return err
	case started == "" || started != s.Started:
		return nil // it has ended
	}
	if err := syscall.Kill(s.Pid, s.Signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("%v to process %d: %w", s.Signal, s.Pid, err)
	}
	return nil
}

// runProgram runs a program until it ends, for at most Timeout. Its error has the end of what the program printed. At the limit
// the program and its children are killed.
func (s Step) runProgram(ctx context.Context) error {
	if s.Needs != "" {
		if _, err := os.Lstat(s.Needs); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	limit := cmp.Or(s.Timeout, stepTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it took longer than its limit of %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Run[0], s.Run[1:]...)
	cmd.Env, cmd.Dir = s.runEnvironment(), s.Dir
	cmd.SysProcAttr = child.Attributes() // a Ctrl-C at the terminal does not end a repair
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // a child of it may have left the group and still hold its output
	out := &lastBytes{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	if err == nil {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, exec.ErrWaitDelay): // it has ended with 0
		err = errors.New("it left a process that still has its output, and that will fail to print: redirect the output of that " +
			"process (>log 2>&1)")
	}
	return fmt.Errorf("%s: %w%s", strings.Join(s.Run, " "), err, out)
}

// runEnvironment returns the variables of Run.
func (s Step) runEnvironment() []string {
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(s.Unset, name)
	})
	return append(env, s.Env...)
}

// runCommand runs a program as a Step does.
func runCommand(ctx context.Context, limit time.Duration, env []string, argv ...string) error {
	return Step{Run: argv, Env: env, Timeout: limit}.runProgram(ctx)
}

func (s Step) removeFiles() error {
	info, err := os.Lstat(s.Remove)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return os.Remove(s.Remove)
	}
	if os.Remove(s.Remove) == nil {
		return nil // it was empty, because the drill ended before it wrote the mark
	}
	mark, err := os.ReadFile(filepath.Join(s.Remove, drillMark))
	if err != nil || s.Mark == "" || string(mark) != s.Mark {
		return fmt.Errorf("%s is not the directory that a drill made, so it is not removed: %w", s.Remove,
			errors.Join(err, errors.New("its file "+drillMark+" is not the drill's")))
	}
	return os.RemoveAll(s.Remove)
}

// lastBytes keeps the last maxOutput bytes that were written to it.
type lastBytes struct{ kept []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-maxOutput):]
	return len(p), nil
}

// String returns the output, for the end of an error.
func (l *lastBytes) String() string {
	text := strings.TrimSpace(string(l.kept))
	if text == "" {
		return "; it printed nothing"
	}
	return "; it printed: " + text
}
