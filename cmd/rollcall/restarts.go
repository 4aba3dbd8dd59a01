package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"rollcall/member"
)

// A member may start again in this process maxRestarts times within restartWindow. One start corrects each error that allows it, and
// a few changes of the list in a row need one each. A member that needs more is in a loop, in which each start may copy a snapshot
// from the leader. Then the process ends with the error, so that a supervisor paces the next start and an operator sees it.
const (
	maxRestarts   = 5
	restartWindow = 10 * time.Minute
)

// runWithRestarts calls run until ctx ends, or run ends without an error or with one that another start in this process does not correct, or
// there were too many starts, or changed returns keys of the configuration: only another process starts with their new values. It
// returns what run has returned last.
func runWithRestarts(ctx context.Context, logger *slog.Logger, run func(context.Context) error, changed func() []string) error {
	var restarts []time.Time // those in the window
	for {
		err := run(ctx)
		if !member.CanRestart(err) || ctx.Err() != nil {
			return err
		}
		restarts = slices.DeleteFunc(restarts, func(t time.Time) bool { return time.Since(t) >= restartWindow })
		if len(restarts) >= maxRestarts {
			return fmt.Errorf("%w; this process has started the member again %d times within %v, so it ends", err, maxRestarts, restartWindow)
		}
		if keys := changed(); len(keys) > 0 {
			logger.Warn("the configuration has changed, so this process ends; start the member again with the new one", "keys", strings.Join(keys, ", "))
			return err
		}
		restarts = append(restarts, time.Now())
		logger.Warn("this member starts again in the same process", "reason", err, "restarts", len(restarts), "most", maxRestarts)
	}
}
