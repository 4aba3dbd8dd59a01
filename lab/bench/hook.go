package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	maxHookOutput = 64 << 10
	hookWait      = time.Second // for processes that a hook leaves running
)

// runHook runs a shell command and returns its output. Processes that the command started may outlive it. The
// end of ctx kills the command.
func runHook(ctx context.Context, command string) (string, error) {
	out, err := os.CreateTemp("", "rollcall-bench-hook")
	if err != nil {
		return "", fmt.Errorf("bench: output of hook: %w", err)
	}
	defer func() { _ = errors.Join(out.Close(), os.Remove(out.Name())) }() // it has been read
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	// a file, so that nothing waits for processes that hold it open
	cmd.Stdout, cmd.Stderr = out, &cappedWriter{buffer: &said, remaining: maxHookOutput}
	cmd.WaitDelay = hookWait
	err = cmd.Run()
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return "", fmt.Errorf("bench: hook %q: %w: %s", command, err, strings.TrimSpace(said.String()))
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("bench: output of hook: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(out, maxHookOutput))
	if err != nil {
		return "", fmt.Errorf("bench: output of hook: %w", err)
	}
	return string(text), nil
}

// runHookWhenDue runs the hook after a quarter of the measured time, which begins at from, and returns its output. Without a hook it
// returns at once.
func (r *caseRun) runHookWhenDue(ctx context.Context, from time.Time) (string, error) {
	if r.params.Hook == "" {
		return "", nil
	}
	if err := sleepUntil(ctx, from.Add(r.params.Duration/4)); err != nil {
		return "", err
	}
	return runHook(ctx, r.params.Hook)
}

// cappedWriter drops output beyond its limit.
type cappedWriter struct {
	buffer    *bytes.Buffer
	remaining int
}

func (l *cappedWriter) Write(b []byte) (int, error) {
	n := min(len(b), l.remaining)
	l.remaining -= n
	l.buffer.Write(b[:n])
	return len(b), nil
}
