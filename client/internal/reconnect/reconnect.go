// Package reconnect has functions for recipes whose connection breaks: they repeat harmless requests, and they find out
// whether a write was carried out.
package reconnect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
	"rollcall/client/recipe"
)

// Retry calls do again while it fails because there is no connection, whatever Config.WhileSuspended of the Client is.
// do must be harmless when it is repeated. Each try waits for a connection. The end of ctx or of the session ends the
// tries.
func Retry(ctx context.Context, c *client.Client, do func() error) error {
	return retry(do, func() error { return c.AwaitConnected(ctx) })
}

// RetrySettled is Retry, but it calls Settle before it calls do again. So do may begin with a read that shows whether
// its last write was carried out.
func RetrySettled(ctx context.Context, c *client.Client, do func() error) error {
	return retry(do, func() error { return Settle(ctx, c) })
}

func retry(do, await func() error) error {
	for {
		err := do()
		if !errors.Is(err, client.ErrConnectionLost) && !errors.Is(err, client.ErrSuspended) {
			return err
		}
		if err := await(); err != nil {
			return err
		}
	}
}

// Read calls a read of a node, such as (*client.Client).Get, as Retry does.
func Read[A, B any](ctx context.Context, c *client.Client, path string,
	read func(*client.Client, context.Context, string) (A, B, error),
) (a A, b B, err error) {
	err = Retry(ctx, c, func() (err error) {
		a, b, err = read(c, ctx, path)
		return err
	})
	return a, b, err
}

// Watch calls a read of a node that sets a watch, such as (*client.Client).GetWatch, as Retry does.
func Watch[A, B any](ctx context.Context, c *client.Client, path string,
	read func(*client.Client, context.Context, string) (A, B, *client.OnceWatch, error),
) (a A, b B, watch *client.OnceWatch, err error) {
	err = Retry(ctx, c, func() (err error) {
		a, b, watch, err = read(c, ctx, path)
		return err
	})
	return a, b, watch, err
}

// WatchNode returns a watch that fires when a node is set or deleted, or nil if there is no node. Unlike an exists, it
// leaves no watch if there is none.
func WatchNode(ctx context.Context, c *client.Client, path string) (*client.OnceWatch, error) {
	_, _, watch, err := Watch(ctx, c, path, (*client.Client).GetWatch)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return watch, err
}

// Children returns the names of the children of parent, or none if it does not exist.
func Children(ctx context.Context, c *client.Client, parent string) ([]string, error) {
	names, _, err := Read(ctx, c, parent, (*client.Client).Children)
	if errors.Is(err, client.ErrNoNode) {
		return nil, nil
	}
	return names, err
}

// Settle waits until the outcome of every earlier write of the Client is decided: a read then sees the write, or the
// write will never be carried out. The servers reject a session's writes that arrive from an earlier connection, and
// the sync makes the present server apply those that were accepted.
func Settle(ctx context.Context, c *client.Client) error {
	return Retry(ctx, c, func() error {
		if err := c.AwaitConnected(ctx); err != nil {
			return err
		}
		return c.Sync(ctx)
	})
}

// maxParentTries limits the attempts to create the parent for one node. The servers delete an empty container at most
// once in a check of all containers, so a second attempt nearly always succeeds.
const maxParentTries = 10

// RetryWithParent calls create, which creates a node under parent, as Retry does. If there is no parent, it creates it
// as a container, with those on the way to it, and calls create again.
func RetryWithParent(ctx context.Context, c *client.Client, parent string, create func() error) error {
	return retryWithParent(ctx, c, parent, create, func() error { return c.CreateAll(ctx, parent, client.Container) })
}

// RetryWithSharedParent is RetryWithParent for a parent that many clients may find missing at once. Before it creates
// the parent, it reads whether another client has created it.
func RetryWithSharedParent(ctx context.Context, c *client.Client, parent string, create func() error) error {
	return retryWithParent(ctx, c, parent, create, func() error {
		_, exists, err := c.Exists(ctx, parent)
		if err != nil || exists {
			return err
		}
		return c.CreateAll(ctx, parent, client.Container)
	})
}

func retryWithParent(ctx context.Context, c *client.Client, parent string, create, createParent func() error) error {
	for tries := 0; ; tries++ {
		err := Retry(ctx, c, create)
		if !errors.Is(err, client.ErrNoNode) || tries == maxParentTries || parent == "" {
			return err
		}
		err = Retry(ctx, c, createParent)
		if err != nil && !errors.Is(err, client.ErrNoNode) { // a container on the way was deleted: begin again
			return err
		}
	}
}

// RetryCreate is RetryWithParent for the node at path. A node below the root has no parent to create.
func RetryCreate(ctx context.Context, c *client.Client, path string, create func() error) error {
	parent, _ := nodepath.SplitLast(path)
	return RetryWithParent(ctx, c, parent, create)
}

// CreateOwn creates a node whose name no other node can have, and returns its Stat. If it returns an error, no node
// stays: it may be deleted in the background. If another client has deleted the node already, the error is
// client.ErrNoNode.
func CreateOwn(ctx context.Context, c *client.Client, parent, name string, data []byte, mode client.Mode) (
	client.Stat, error,
) {
	path := recipe.PathOf(parent, name)
	var stat client.Stat
	err := RetryWithParent(ctx, c, parent, func() (err error) {
		_, stat, err = c.Create(ctx, path, data, mode)
		return err
	})
	if errors.Is(err, client.ErrNodeExists) { // an earlier try created it
		var exists bool
		stat, exists, err = Read(ctx, c, path, (*client.Client).Exists)
		if err == nil && !exists {
			err = client.ErrNoNode
		}
	}
	if err != nil {
		DeleteInBackground(c, path)
		return client.Stat{}, err
	}
	return stat, nil
}

// DeleteInBackground deletes a node of the session. Its goroutine ends when the node is gone or the session has ended.
func DeleteInBackground(c *client.Client, path string) {
	go func() {
		_ = Delete(context.Background(), c, path) // the session's end ends all calls, and deletes the node
	}()
}

// Delete deletes a node at a path that no other node can have. Unlike Retry, it also waits for a server that can write,
// because other clients may wait for the deletion.
func Delete(ctx context.Context, c *client.Client, path string) error {
	for {
		err := Retry(ctx, c, func() error { return c.Delete(ctx, path, client.AnyVersion) })
		if !errors.Is(err, client.ErrReadOnly) {
			return err
		}
		if err := recipe.AwaitWritable(ctx, c); err != nil {
			return err
		}
	}
}

// Follow returns what read returns, and again after each change that its watch reports, unless isSame. When ctx or the
// session ends, or a read fails, the last pair has the error that wrap makes of the reason.
func Follow[T any](ctx context.Context, read func(context.Context) (T, *client.OnceWatch, error),
	isSame func(before, now T) bool, wrap func(error) error,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var last *T
		for {
			now, watch, err := read(ctx)
			if err == nil && (last == nil || !isSame(*last, now)) {
				if last = &now; !yield(now, nil) {
					watch.Stop()
					return
				}
			}
			if err == nil {
				err = AwaitEvent(ctx, watch)
			}
			if err != nil {
				var none T
				yield(none, wrap(err))
				return
			}
		}
	}
}

// Finish runs do, which ends with the session at the latest, and returns its error. If ctx ends first, do continues.
func Finish(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w; it is tried again until the session ends", ctx.Err())
	}
}

// EventError returns nil for an event of a node, and the reason of the end for an event that ends the session.
func EventError(event client.Event) error {
	if event.Type != client.SessionEnded {
		return nil
	}
	return cmp.Or(event.Err, client.ErrClosed)
}

// AwaitEvent waits until a watch fires, and returns the reason if that was the end of the session. If ctx ends first,
// it stops the watch and returns ctx's error. If watch is nil, it returns nil at once.
func AwaitEvent(ctx context.Context, watch *client.OnceWatch) error {
	if watch == nil {
		return nil
	}
	select {
	case event := <-watch.Fired:
		return EventError(event)
	case <-ctx.Done():
		watch.Stop()
		return ctx.Err()
	}
}
