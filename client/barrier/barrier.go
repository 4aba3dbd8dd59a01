// Package barrier has a barrier that holds clients back until it is removed, and a double barrier, at which clients
// begin and end a computation together.
//
// # Barrier
//
// A Barrier is up while its node exists. Wait returns when the node did not exist at a time between the call and its
// return. All waiting clients continue at once: each has a watch on the node, and its removal wakes all of them. The
// barrier does not belong to a session. It stays up when the client that has set it ends.
//
// # Double barrier
//
// Clients enter a DoubleBarrier, and each waits until DoubleConfig.Count of them have entered: that is a round. They
// leave it, and each waits until all have left. Then the next round can begin.
//
//   - When Enter returns a Member, at least Count members had entered at one moment. Some may have ended since.
//   - When Leave returns without an error, every member of the round has left or has ended.
//   - A member ends when its session ends, because its node is deleted then. The others do not wait for it. Its Member
//     reports that, as a client.Right does. A member that was paused for longer than its timeout can find that the
//     others have left.
//   - A client that comes during a round waits for the next one. A round whose members have all ended is cleared by the
//     clients that wait or come.
//   - A lost connection changes nothing as long as the session lives.
//
// If ctx ends while Enter waits, the client's node is deleted, in the background if necessary. Other clients may have
// counted it before that. To them it is a member that has ended.
//
// The barrier is full with one wake for each member. While members leave, the one with the first name in the order of
// text is woken by each of the others at most, and each of the others once.
//
// # Layout
//
// The layout is that of Curator's DistributedBarrier and DistributedDoubleBarrier, and both can take part. A Barrier is
// a persistent node. A DoubleBarrier is a parent (a container), with one ephemeral node for each member and the
// persistent node ready during a round. A member belongs to the round if its node is older than ready. Other children
// of the parent count as members, as they do for Curator.
//
// Clients of Curator that come during a round do not wait for the next one. If the last member of a round is Curator's
// and a next round begins at once, it may take away the next round's node ready.
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
