package barrier

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/reconnect"
)

// Barrier holds clients back while its node exists. It is safe for concurrent use.
type Barrier struct {
	c    *client.Client
	path string
}

// New returns the Barrier in the node with this path. It does not use the network.
func New(c *client.Client, path string) *Barrier { return &Barrier{c: c, path: path} }

// Set sets the barrier up. It is no error if it is up. If the reply is lost, Set sets it again, so another client's
// Remove during the call of Set may have no effect.
func (b *Barrier) Set(ctx context.Context) error {
	err := reconnect.RetryCreate(ctx, b.c, b.path, func() error {
		_, _, err := b.c.Create(ctx, b.path, nil, client.Persistent)
		return err
	})
	if errors.Is(err, client.ErrNodeExists) {
		return nil
	}
	return wrapError("set", b.path, err)
}

// Remove removes the barrier. It is no error if it is not up. If the reply is lost, Remove removes it again, so another
// client's Set during the call of Remove may have no effect.
func (b *Barrier) Remove(ctx context.Context) error {
	err := reconnect.Retry(ctx, b.c, func() error { return b.c.Delete(ctx, b.path, client.AnyVersion) })
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return wrapError("remove", b.path, err)
}

// Wait waits until the barrier is not up, until ctx ends, or until the session has ended. It returns at once if the
// barrier is not up.
func (b *Barrier) Wait(ctx context.Context) error {
	err := client.CheckPath(b.path)
	if err == nil {
		err = reconnect.Settle(ctx, b.c) // a server that lags may not know the barrier yet
	}
	for err == nil {
		var watch *client.OnceWatch
		watch, err = reconnect.WatchNode(ctx, b.c, b.path)
		if err == nil && watch == nil {
			return nil
		}
		if err == nil {
			err = reconnect.AwaitEvent(ctx, watch)
		}
	}
	return wrapError("wait for", b.path, err)
}

// wrapError returns the error of a method, or nil if err is.
func wrapError(what, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("barrier: %s %s: %w", what, path, err)
}
