package member

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"rollcall/follower"
)

// A member ends although one of its goroutines hangs in a disk, and says why it ended.
func TestEndDoesNotWaitForADisk(t *testing.T) {
	broken := errors.New("input/output error")
	for _, tt := range []struct {
		name   string
		hangs  time.Duration // how long one goroutine goes on after the end
		failed error         // why another one ended; nil: the member is told to end
		want   error
	}{
		{"told to end", time.Hour, nil, errNotEnded},
		{"something failed", time.Hour, broken, broken},
		{"the disk responds again", endTimeout - time.Second, broken, broken},
		{"it has to start again", time.Hour, follower.ErrAddedAgain, errNotEnded},
		{"it has to start again, and the disk responds", endTimeout - time.Second, follower.ErrAddedAgain, follower.ErrAddedAgain},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				g, inner := errgroup.WithContext(ctx)
				g.Go(func() error {
					<-inner.Done()
					time.Sleep(tt.hangs)
					return nil
				})
				g.Go(func() error {
					if tt.failed == nil {
						stop()
					}
					return tt.failed
				})
				begun := time.Now()
				err := awaitEnd(inner, g)
				if took := time.Since(begun); !errors.Is(err, tt.want) || took != min(tt.hangs, endTimeout) {
					t.Errorf("%v after %v, want %v after %v", err, took, tt.want, min(tt.hangs, endTimeout))
				}
				if again := CanRestart(err); again != errors.Is(tt.want, follower.ErrAddedAgain) {
					t.Errorf("after %v this process may start another one: %t", err, again)
				}
				time.Sleep(tt.hangs) // the bubble waits for it
			})
		})
	}
}
