// Package chroot removes the nodes below which drills and recorded programs work.
package chroot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rollcall/client"
)

// maxDeletes limits the deletes that wait for their replies together. A million nodes are a thousand waits of two entries each, and
// with disks that take 20 ms for a sync these end within a minute.
const maxDeletes = 1000

// Remove removes a node and everything below it. A node that is gone already is no error. Each wait for replies takes at
// most within. There is one for each node with children, and for each maxDeletes others, so removal takes the longer the
// more nodes there are.
func Remove(ctx context.Context, c *client.Client, path string, within time.Duration) error {
	r := remover{c, within}
	return r.remove(ctx, path)
}

type remover struct {
	c      *client.Client
	within time.Duration
}

func (r remover) remove(ctx context.Context, path string) error {
	limited, stopListing := context.WithTimeout(ctx, r.within)
	names, _, err := r.c.Children(limited, path)
	stopListing()
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	for some := range slices.Chunk(names, maxDeletes) {
		left, err := r.deleteTogether(ctx, path, some)
		if err != nil {
			return err
		}
		for _, child := range left {
			if err := r.remove(ctx, child); err != nil {
				return err
			}
		}
	}
	ctx, stop := context.WithTimeout(ctx, r.within)
	defer stop()
	err = r.c.Delete(ctx, path, client.AnyVersion)
	if errors.Is(err, client.ErrNoNode) {
		return nil
	}
	return err
}

// deleteTogether sends the deletes of some children of a node, and then waits for the replies. It returns the paths of
// the children that are left, such as those with children of their own.
func (r remover) deleteTogether(ctx context.Context, parent string, names []string) (left []string, err error) {
	type reply struct {
		path string
		err  error
	}
	ctx, stop := context.WithTimeout(ctx, r.within)
	defer stop()
	replies := make(chan reply, len(names)) // late ones find room, too
	for _, name := range names {
		path := parent + "/" + name
		done := func(err error) { replies <- reply{path, err} }
		if err := r.c.Pipeline().Delete(ctx, path, client.AnyVersion, done); err != nil {
			done(err) // it was not sent
		}
	}
	for range names {
		select {
		case r := <-replies:
			if r.err != nil && !errors.Is(r.err, client.ErrNoNode) {
				left = append(left, r.path)
			}
		case <-ctx.Done():
			return left, fmt.Errorf("delete below %s: %w", parent, ctx.Err())
		}
	}
	return left, nil
}
