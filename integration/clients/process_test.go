package clients

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is the limit for anything that must happen: far more than it takes.
	patience = 30 * time.Second
	// look is how often a condition outside this process is looked at.
	look = 20 * time.Millisecond
	// lastWords is how much of a log is printed when its test fails.
	lastWords = 64 << 10
)

// process is a child of this test. It is gone when the test ends, even when go test
// ends the test binary at its time limit.
type process struct {
	name string
	cmd  *exec.Cmd
	told atomic.Bool   // to end, by a signal or in its own language
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
}

// start runs cmd. That it ends before it was told to is a failure; so is what it leaves
// in printed, then shown. It may be called by the test's own goroutine only.
func start(t *testing.T, name string, cmd *exec.Cmd, printed func() string) *process {
	t.Helper()
	p, err := launch(name, cmd)
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
			p.kill()
		}
		if t.Failed() {
			t.Logf("%s (pid %d) printed:\n%s", name, cmd.Process.Pid, printed())
		}
	})
	return p
}

func launch(name string, cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second // a script's own child may still hold its output
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// tell notes that the process has been told to end, unless it has ended before.
func (p *process) tell() {
	if p.running() {
		p.told.Store(true)
	}
}

// kill ends the process and what it started by SIGKILL, and waits until it is gone.
func (p *process) kill() {
	p.tell()
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // fails if it has ended meanwhile
	<-p.done
}

// signal asks the process to end.
func (p *process) signal(sig os.Signal) error {
	p.tell()
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	return nil
}

// status waits until the process, which has been told to end, is gone. It returns its
// exit status, -1 after a signal.
func (p *process) status(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p.tell()
	select {
	case <-p.done:
		if exit := (*exec.ExitError)(nil); p.err != nil && !errors.As(p.err, &exit) {
			return 0, fmt.Errorf("%s: %w", p.name, p.err)
		}
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s does not end: %w", p.name, ctx.Err())
	}
}

// running reports whether the process has not ended.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// dialogue is a process that is told what to do by lines on its standard input and
// answers by lines on its output. One goroutine may talk to it.
type dialogue struct {
	*process
	stdin io.WriteCloser
	out   transcript
	said  int // lines printed before the last say
	read  int // lines that next has returned
}

// talk starts cmd as a dialogue. end must be called.
func talk(name string, cmd *exec.Cmd) (*dialogue, error) {
	d := &dialogue{}
	d.out.more = make(chan struct{})
	cmd.Stdout, cmd.Stderr = &stream{to: &d.out}, &stream{to: &d.out}
	var err error
	if d.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d.process, err = launch(name, cmd)
	return d, err
}

// say writes one line.
func (d *dialogue) say(line string) error {
	d.said = d.out.len()
	if _, err := io.WriteString(d.stdin, line+"\n"); err != nil {
		return d.failed(fmt.Errorf("%q: %w", line, err))
	}
	return nil
}

// expect waits for a line with want in it, printed since the last say, and returns it.
func (d *dialogue) expect(ctx context.Context, want string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ended := !d.running()
		lines, more := d.out.since(d.said)
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, want) }); i >= 0 {
			return lines[i], nil
		}
		if ended {
			return "", d.failed(fmt.Errorf("%v without %q", d.cmd.ProcessState, want))
		}
		select {
		case <-more:
		case <-d.done: // what it printed last is there now
		case <-ctx.Done():
			return "", d.failed(fmt.Errorf("no %q: %w", want, ctx.Err()))
		}
	}
}

// next waits for the next line and returns it.
func (d *dialogue) next(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ended := !d.running()
		lines, more := d.out.since(d.read)
		if len(lines) > 0 {
			d.read++
			return lines[0], nil
		}
		if ended {
			return "", d.failed(fmt.Errorf("%v", d.cmd.ProcessState))
		}
		select {
		case <-more:
		case <-d.done:
		case <-ctx.Done():
			return "", d.failed(fmt.Errorf("prints nothing: %w", ctx.Err()))
		}
	}
}

// ask says line and expects every one of wants, in any order.
func (d *dialogue) ask(ctx context.Context, line string, wants ...string) error {
	if err := d.say(line); err != nil {
		return err
	}
	for _, want := range wants {
		if _, err := d.expect(ctx, want); err != nil {
			return fmt.Errorf("after %q: %w", line, err)
		}
	}
	return nil
}

// wantStatus waits for the end of the process and checks its exit status.
func (d *dialogue) wantStatus(ctx context.Context, want int) error {
	status, err := d.status(ctx)
	if err != nil {
		return d.failed(err)
	}
	if status != want {
		return d.failed(fmt.Errorf("exit status %d, want %d", status, want))
	}
	return nil
}

// end makes sure that the process is gone.
func (d *dialogue) end() {
	_ = d.stdin.Close()
	d.kill()
}

func (d *dialogue) failed(err error) error {
	return fmt.Errorf("%s: %w; it printed:\n%s", d.name, err, d.out.text())
}

// transcript is what a process has printed. Safe for concurrent use.
type transcript struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed, and made anew, when there are more
}

func (tr *transcript) add(line string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, line)
	close(tr.more)
	tr.more = make(chan struct{})
}

// since returns the lines behind the first n, and what is closed when more come.
func (tr *transcript) since(n int) ([]string, <-chan struct{}) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.lines[n:]), tr.more
}

func (tr *transcript) len() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(tr.lines)
}

func (tr *transcript) text() string {
	lines, _ := tr.since(0)
	return strings.Join(lines, "\n")
}

// with returns the lines that contain part.
func (tr *transcript) with(part string) []string {
	lines, _ := tr.since(0)
	return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, part) })
}

// stream cuts one output of a process into lines.
type stream struct {
	to   *transcript
	part []byte
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.part = append(s.part, p...)
	for {
		line, rest, ok := bytes.Cut(s.part, []byte("\n"))
		if !ok {
			return len(p), nil
		}
		s.to.add(string(line))
		s.part = rest
	}
}

// until looks at a condition until it holds; what names it in the error.
func until(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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

// requireClient fails the test, never skips it, if a client is not installed.
func requireClient(t *testing.T, program, debianPackage string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%v: sudo apt-get install -y --no-install-recommends %s", err, debianPackage)
	}
}
