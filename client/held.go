package client

import (
	"context"
	"time"
)

// Held reports whether the Client may act on its session at this moment: see Rights in the package's comment.
func (c *Client) Held() bool { return c.Remaining() > 0 }

// Remaining returns for how long the Client may still act on its session if it hears nothing more from the
// ensemble. It is at most the timeout, and 0 if it may not.
func (c *Client) Remaining() time.Duration { return c.session.Right().Remaining() }

// proveRight is recipe.Prove.
func proveRight(ctx context.Context, c *Client) error {
	if c.session.Right().IsProven() {
		return nil
	}
	return c.Sync(ctx)
}

// AfterRight arranges that f is called once, in a goroutine of its own, when the Client's right to act on its session
// has ended: because nothing was heard from the ensemble in time, or because the session has ended. stop cancels
// that, and reports whether it did so before the call. If the right has already ended, f is called at once.
//
// The call can come late: while a process is stopped, so are its timers. Held is exact.
func (c *Client) AfterRight(f func()) (stop func() bool) {
	return c.session.Right().AfterEnd(func() { go f() })
}
