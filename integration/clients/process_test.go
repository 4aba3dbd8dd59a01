package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"rollcall/lab/process"
)

// dialogue is a process that gets commands as lines on its standard input and replies with lines on its output. One
// goroutine may use it.
type dialogue struct {
	*process.Process
	stdin io.WriteCloser
	out   transcript
	said  int // lines printed before the last say
	read  int // lines that next has returned
}

// talk starts cmd as a dialogue. The caller must call stop.
func talk(name string, cmd *exec.Cmd) (*dialogue, error) {
	d := &dialogue{}
	d.out.more = make(chan struct{})
	cmd.Stdout, cmd.Stderr = &stream{to: &d.out}, &stream{to: &d.out}
	var err error
	if d.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d.Process, err = process.Launch(name, cmd)
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
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		ended := !d.IsRunning()
		lines, more := d.out.since(d.said)
		if i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, want) }); i >= 0 {
			return lines[i], nil
		}
		if ended {
			return "", d.failed(fmt.Errorf("%v without %q", d.Cmd.ProcessState, want))
		}
		select {
		case <-more:
		case <-d.Done(): // its last output has been read by now
		case <-ctx.Done():
			return "", d.failed(fmt.Errorf("no %q: %w", want, ctx.Err()))
		}
	}
}

// next waits for the next line and returns it.
func (d *dialogue) next(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, process.Patience)
	defer cancel()
	for {
		ended := !d.IsRunning()
		lines, more := d.out.since(d.read)
		if len(lines) > 0 {
			d.read++
			return lines[0], nil
		}
		if ended {
			return "", d.failed(fmt.Errorf("%v", d.Cmd.ProcessState))
		}
		select {
		case <-more:
		case <-d.Done():
		case <-ctx.Done():
			return "", d.failed(fmt.Errorf("prints nothing: %w", ctx.Err()))
		}
	}
}

// sendLine sends line and expects every one of wants, in any order.
func (d *dialogue) sendLine(ctx context.Context, line string, wants ...string) error {
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
	status, err := d.ExitStatus(ctx)
	if err != nil {
		return d.failed(err)
	}
	if status != want {
		return d.failed(fmt.Errorf("exit status %d, want %d", status, want))
	}
	return nil
}

// stop makes sure that the process is gone.
func (d *dialogue) stop() {
	_ = d.stdin.Close()
	d.Kill()
}

func (d *dialogue) failed(err error) error {
	return fmt.Errorf("%s: %w; it printed:\n%s", d.Name, err, d.out.text())
}

// transcript is the output of a process. Safe for concurrent use.
type transcript struct {
	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced when there are more
}

func (tr *transcript) add(line string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.lines = append(tr.lines, line)
	close(tr.more)
	tr.more = make(chan struct{})
}

// since returns the lines after the first n, and a channel that is closed when more arrive.
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

// stream splits one output of a process into lines.
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
