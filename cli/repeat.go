package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"
)

const (
	// defaultWatchInterval is the time between two lists of --watch, and leastEvery the shortest that may be asked
	// for: each list asks all members.
	defaultWatchInterval = 2 * time.Second
	minWatchInterval     = 200 * time.Millisecond
	// homeAndClear goes to the top of the screen and empties it from there.
	homeAndClear = "\x1b[H\x1b[J"
)

// printRepeatedly calls print again and again until ctx ends, which is no error. On a terminal each call replaces what
// the one before printed, and lines is how many rows fit. Elsewhere the outputs follow each other, with an
// empty line between them, and lines is 0.
func printRepeatedly(ctx context.Context, w IOStreams, every time.Duration, print func(w IOStreams, lines int) error) error {
	if every < minWatchInterval {
		return WithStatus(UsageError, fmt.Errorf("--every %v: allowed is %v or longer", every, minWatchInterval))
	}
	for first := true; ; first = false {
		text, lines, separator := new(bytes.Buffer), 0, ""
		screen := w
		screen.Out = text
		switch {
		case w.TerminalSize != nil:
			_, height := w.TerminalSize()
			lines, separator = max(1, height-2), homeAndClear // the head of the table, and the cursor's line
		case !first:
			separator = "\n"
		}
		if err := print(screen, lines); err != nil {
			return ignoreCanceled(ctx, err)
		}
		if _, err := io.WriteString(w.Out, separator+text.String()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
