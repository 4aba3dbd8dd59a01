package client_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"
	"time"

	"rollcall/client"
)

// A program whose ephemeral node comes back when its session has ended.
func ExampleKeep() {
	run := func(ctx context.Context, servers string) error {
		return client.Keep(ctx, servers, client.Config{}, func(ctx context.Context, c *client.Client) error {
			if _, _, err := c.Create(ctx, "/workers/7", nil, client.Ephemeral); err != nil {
				return err
			}
			<-ctx.Done() // the program has been told to end, or the session has ended
			return ctx.Err()
		})
	}
	_ = run
}

// A process continues the session of its predecessor, if that has left one.
func ExampleReadHandover() {
	dial := func(ctx context.Context, servers string) (*client.Client, []*client.Right, error) {
		h, err := client.ReadHandover("/run/app/session")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, client.ErrHandoverStale) {
			c, err := client.Dial(ctx, servers, client.Config{})
			return c, nil, err
		}
		if err != nil {
			return nil, nil, err
		}
		c, err := client.Dial(ctx, servers, client.Config{Resume: &h})
		if err != nil {
			return nil, nil, err
		}
		rights, err := h.Rights(ctx, c)
		return c, rights, err
	}
	_ = dial
}

// Keep returns at once what no attempt can mend.
func TestKeepBadServers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := client.Keep(ctx, "h:no-port", client.Config{}, func(context.Context, *client.Client) error {
		t.Error("it was called")
		return nil
	})
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}
