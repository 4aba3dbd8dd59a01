package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// closePatience limits the time that Keep waits for the ensemble to end the session: long enough for a round trip,
// and short enough for a program that is about to end.
const closePatience = 2 * time.Second

// keepPauseDivisor makes the longest pause before the next session an eighth of the timeout of the last one. The pause
// is random, so that many clients whose sessions ended together do not come back together.
const keepPauseDivisor = 8

// Keep runs f with a Client, and runs it again with a new Client each time the session has ended without Close. So
// what f does outlives sessions: f makes its ephemeral nodes, watches and rights anew with each Client.
//
// Keep dials as Dial does, until ctx ends. The context that f gets ends with ctx, and when the session has ended; then
// its cause is the reason, such as ErrExpired. f must return soon after that: Keep does not run f again before.
//
// If f returns while its session lives, Keep closes the session and returns f's error. If f has ended the Client
// itself, with Close, Abandon or HandOver, Keep returns f's error too. If f returns because its session has expired,
// its error is dropped. Keep returns ErrAuthFailed if the login or an identity is rejected.
//
// A session can outlive what f does with it: a pause of the process ends f's rights a little before the session. So
// Keep also closes the session and runs f again if f returns ErrNotHeld, or any error while the Client may not act on
// its session. A function that works under a Right returns ErrNotHeld if that is not held any more. While it is held, a
// call that returned ErrConnectionLost can be tried again: as an error of f it ends Keep.
//
// If cfg resumes a session that is gone, Keep begins with a new one.
func Keep(ctx context.Context, servers string, cfg Config, f func(ctx context.Context, c *Client) error) error {
	for {
		timeout, again, err := keepOnce(ctx, servers, cfg, f)
		if !again {
			return err
		}
		cfg.Resume = nil
		select {
		case <-time.After(rand.N(timeout/keepPauseDivisor + 1)):
		case <-ctx.Done():
			return fmt.Errorf("client: keep: %w; the last session ended: %w", context.Cause(ctx), err)
		}
	}
}

// keepOnce runs f with one session. again reports whether f must run with another one; err is then the reason.
func keepOnce(ctx context.Context, servers string, cfg Config, f func(context.Context, *Client) error) (
	timeout time.Duration, again bool, err error,
) {
	sessionCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c, err := dialSession(ctx, servers, cfg, func(last StateChange) {
		if last.State == Closed {
			last.Err = ErrClosed
		}
		cancel(last.Err)
	})
	if err != nil {
		return 0, cfg.Resume != nil && errors.Is(err, ErrExpired), err
	}
	err = f(sessionCtx, c)
	lost := err != nil && (errors.Is(err, ErrNotHeld) || !c.Held())
	_, timeout = c.Session()
	ended, stopNow := context.WithCancel(ctx)
	stopNow()
	if errors.Is(c.AwaitConnected(ended), ErrExpired) { // calls may say so before the state does
		c.Abandon() // returns when the state is final
	}
	switch last := c.State(); last.State {
	case Expired:
		return timeout, true, last.Err
	case AuthFailed:
		return 0, false, last.Err
	case Closed:
		return 0, false, err
	}
	closeCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
	defer stop()
	if closeErr := c.Close(closeCtx); err == nil && ctx.Err() == nil {
		err = closeErr
	}
	return timeout, lost && ctx.Err() == nil, err
}
