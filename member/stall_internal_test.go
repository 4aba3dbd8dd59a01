package member

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quorumwire "rollcall/quorum/wire"
)

// What only one check finds may have been under way when this process was paused, and disturbs no client. What two find hangs.
func TestOneCheckIsNoStall(t *testing.T) {
	for inRow, hangs := range map[int64]bool{1: false, 2: true} {
		synctest.Test(t, func(t *testing.T) {
			three := lines(t, serverOne, serverTwo, serverThree)
			u := newUnstarted(t, three, withData(t, three, quorumwire.EnsembleID{1}))
			serveUnstarted(t, u)
			var logged bytes.Buffer
			var checks atomic.Int64
			h := &health{cfg: &Config{}, server: u.server, terms: &terms{}, log: slog.New(slog.NewTextHandler(&logged, nil))}
			h.cfg.StoreStallLimit = 3 * time.Second
			h.hangError = func() error {
				if n := checks.Add(1); n > 10 && n <= 10+inRow {
					return errors.New("the log hangs")
				}
				return nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			if err := h.stallLoop(ctx); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(logged.String(), "gives up leading"); got != hangs || checks.Load() < 15 {
				t.Errorf("%d checks in a row: a stall %t, want %t: %s", inRow, got, hangs, logged.String())
			}
		})
	}
}
