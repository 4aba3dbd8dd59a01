package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
)

// revokeRequest is the data that other clients set on a holder's node. It is Curator's.
var revokeRequest = []byte("__REVOKE__")

// Revocable is a Mutex whose holder is notified when another client wants the lock. It excludes Mutexes with the same
// parent, and Curator's. It is safe for concurrent use.
type Revocable struct{ mutex *Mutex }

// NewRevocable returns the revocable mutex whose contenders are children of parent. It sends no request.
func NewRevocable(c *client.Client, parent string, cfg Config) *Revocable {
	return &Revocable{NewMutex(c, parent, cfg)}
}

// RevocableRight is a right that another client can request its holder to release.
type RevocableRight struct {
	*client.Right
	revoked chan struct{}
}

// Revoked returns a channel that is closed when another client requests the lock by Revoke. The right is still held
// then: the holder decides when it releases it. The channel stays open if the right ends without a request.
func (r *RevocableRight) Revoked() <-chan struct{} { return r.revoked }

// Lock waits for the lock as Mutex.Lock does.
func (r *Revocable) Lock(ctx context.Context) (*RevocableRight, error) {
	return r.acquireRight(ctx, waits)
}

// TryLock returns the right to the lock if it is free, as Mutex.TryLock does.
func (r *Revocable) TryLock(ctx context.Context) (*RevocableRight, error) {
	return r.acquireRight(ctx, givesUp)
}

func (r *Revocable) acquireRight(ctx context.Context, p patience) (*RevocableRight, error) {
	right, err := r.mutex.acquireRight(ctx, p)
	if err != nil {
		return nil, err
	}
	revocable := &RevocableRight{Right: right, revoked: make(chan struct{})}
	held, cancel := right.Context(context.Background())
	go func() { // ends with the right
		defer cancel()
		revocable.awaitRequest(held, r.mutex.c)
	}()
	return revocable, nil
}

// awaitRequest closes the channel revoked when the node has a request. It returns then, or with ctx.
func (r *RevocableRight) awaitRequest(ctx context.Context, c *client.Client) {
	for {
		data, _, watch, err := reconnect.Watch(ctx, c, r.Path(), (*client.Client).GetWatch)
		if err != nil {
			return
		}
		if bytes.Equal(data, revokeRequest) {
			watch.Stop()
			close(r.revoked)
			return
		}
		if reconnect.AwaitEvent(ctx, watch) != nil {
			return
		}
	}
}

// Revoke requests that the present holder releases the lock. It replaces the data of the holder's node. It does not
// wait for the release: a caller that wants the lock calls Lock. If no client holds the lock, it does nothing.
func (r *Revocable) Revoke(ctx context.Context) error {
	c, cfg := r.mutex.c, r.mutex.cfg
	err := reconnect.Retry(ctx, c, func() error {
		names, err := contender.List(ctx, c, cfg.Parent, cfg.Layout)
		if err == nil && len(names) > 0 {
			_, err = c.Set(ctx, cfg.PathOf(names[0].Text), revokeRequest, client.AnyVersion)
		}
		return err
	})
	if err != nil && !errors.Is(err, client.ErrNoNode) { // the holder has released the lock meanwhile
		return fmt.Errorf("lock: revoke %s: %w", cfg.Parent, err)
	}
	return nil
}
