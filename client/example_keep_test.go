package client_test

import (
	"context"

	"rollcall/client"
	"rollcall/client/lock"
)

// workAlways works while it holds a lock, with one session after the other, until ctx ends.
func workAlways(ctx context.Context, servers string, work func(context.Context, *client.Right) error) error {
	return client.Keep(ctx, servers, client.Config{}, func(ctx context.Context, c *client.Client) error {
		right, err := lock.NewMutex(c, "/app/lock", lock.Config{}).Lock(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = right.Release(ctx) }()
		working, cancel := right.Context(ctx)
		defer cancel()
		err = work(working, right)
		if !right.Held() {
			return client.ErrNotHeld // the session may live: Keep goes on with a new one
		}
		return err
	})
}

func ExampleKeep_lock() {
	_ = workAlways
}
