package lock

import (
	"context"

	"rollcall/client"
	"rollcall/client/internal/contender"
)

// Mutex is a lock that one client holds at a time. It is not re-entrant. It keeps no state, so two Mutexes with the
// same parent are the same lock. It is safe for concurrent use.
type Mutex struct {
	c   *client.Client
	cfg contender.Config
}

// NewMutex returns the mutex whose contenders are children of parent. It sends no request.
func NewMutex(c *client.Client, parent string, cfg Config) *Mutex {
	return &Mutex{c: c, cfg: cfg.contenderConfig(parent, 0, contender.CuratorLock, contender.KazooLock)}
}

// Lock waits for the lock, until ctx ends, and returns the right to it. Clients get it in the order of their calls.
func (m *Mutex) Lock(ctx context.Context) (*client.Right, error) { return m.acquire(ctx, waits) }

// TryLock returns the right to the lock if it is free. Otherwise the error is ErrBusy. It waits for the replies of the
// servers, until ctx ends.
func (m *Mutex) TryLock(ctx context.Context) (*client.Right, error) { return m.acquire(ctx, givesUp) }

func (m *Mutex) acquire(ctx context.Context, p patience) (*client.Right, error) {
	_, right, err := acquire(ctx, m.c, m.cfg, contender.Exclusive, p)
	return right, err
}
