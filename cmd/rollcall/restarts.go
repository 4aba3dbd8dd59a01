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

// A member may start maxRestarts more times in this process within restartWindow. One start corrects each
// error that allows it, and a few changes of the list in a row need one each. A member that needs more is in a
// loop, in which each start may copy a snapshot from the leader. The process then ends, so that a supervisor
// paces the next start and an operator sees the error.
const (
	maxRestarts   = 5
	restartWindow = 10 * time.Minute
)

// runWithRestarts calls run again as long as its error allows a restart. It ends with the last error at the
// end of ctx, after too many restarts, or if changed returns keys, because only a new process uses their new
// values.
func runWithRestarts(ctx context.Context, logger *slog.Logger, run func(context.Context) error,
	changed func() []string,
) error {
	var restarts []time.Time // within the window
	for {
		err := run(ctx)
		if !member.CanRestart(err) || ctx.Err() != nil {
			return err
		}
		restarts = slices.DeleteFunc(restarts, func(t time.Time) bool { return time.Since(t) >= restartWindow })
		if len(restarts) >= maxRestarts {
			return fmt.Errorf("%w; this process has started the member again %d times within %v, so it ends", err, maxRestarts,
				restartWindow)
		}
		if keys := changed(); len(keys) > 0 {
			logger.Warn("the configuration has changed, so this process ends; start the member again with the new one", "keys",
				strings.Join(keys, ", "))
			return err
		}
		restarts = append(restarts, time.Now())
		logger.Warn("this member starts again in the same process", "reason", err, "restarts", len(restarts), "most",
			maxRestarts)
	}
}
