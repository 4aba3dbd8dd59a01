package election

import (
	"context"
	"errors"

	"rollcall/client"
)

// Keep takes part in the election under parent until ctx ends, and calls lead each time this program leads. It
// campaigns again after the end of a session, as client.Keep does, and after a leadership that has ended by itself.
//
// The context of lead ends with ctx, with the session, and when the leadership ends; lead must return then: see
// Election.Run. If lead returns while it leads, Keep resigns, closes the session, and returns lead's error, which may
// be nil. Otherwise the error is that of client.Keep, or of the campaign.
func Keep(ctx context.Context, servers string, session client.Config, parent string, cfg Config,
	lead func(ctx context.Context, l *Leadership) error,
) error {
	return client.Keep(ctx, servers, session, func(ctx context.Context, c *client.Client) error {
		e := New(c, parent, cfg)
		for {
			var ended bool // the leadership, before lead returned
			err := e.Run(ctx, func(leading context.Context, l *Leadership) error {
				err := lead(leading, l)
				ended = leading.Err() != nil
				return err
			})
			if ctx.Err() != nil || !ended || !errors.Is(err, client.ErrNotHeld) {
				return err
			}
		}
	})
}
