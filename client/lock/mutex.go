// Package lock has locks that an ensemble gives to one client at a time, or to a limited number: Mutex, RWMutex,
// Semaphore, Multi for several mutexes, and Revocable.
//
//	mutex := lock.NewMutex(c, "/jobs/nightly", lock.Config{})
//	right, err := mutex.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer right.Release(ctx)
//	_, err = right.Guard(ctx, client.SetOp("/jobs/nightly-state", state, client.AnyVersion))
//
// # What holds
//
// A lock is a right of the Client's session. From the moment Lock returns, no other client gets the lock until the
// right is released, another client deletes its node, or the session ends. Waiting clients get the lock in the order in
// which their nodes were created.
//
// The ensemble ends the session of a client that it has not heard for the session's timeout. The client may be paused
// meanwhile, or its packets may be lost, so it can learn of that late. These are the ways to be safe, from weak to
// strong:
//
//   - Right.Lost and Right.Context end the work. They may come late, after a pause of the process.
//   - Right.Held is exact at the moment of the call, by a clock that runs during a suspend. The holder can still be
//     paused between the call and the act.
//   - Right.Guard makes the writes part of a transaction that the ensemble rejects once the right has ended.
//   - Right.Token is greater than those of all earlier holders. A store outside of the ensemble that rejects smaller
//     tokens than it has seen is safe: see package fence.
//
// A lost connection alone ends no right: the Client connects again and keeps the session. A wall clock that steps has
// no effect.
//
// # What does not hold
//
// No lock is re-entrant: a Client that holds a lock and calls Lock again waits for itself. Each call contends by
// itself, so the goroutines of a process exclude each other as other processes do.
//
// The holders of read locks and of permits of a semaphore hold them at the same time. Their tokens order them by the
// times at which they entered, but do not exclude each other.
//
// # Errors
//
// A call that returns an error leaves no node. If ctx ends or the connection is lost, the node is deleted in the
// background: at the latest the end of the session deletes it. While there is no connection, the calls wait for one
// until ctx ends, whatever WhileSuspended of client.Config is.
//
// A parent belongs to one lock. A call that finds other children there returns a *ForeignError: their creators may not
// respect the lock. It cannot see nodes that are created after it has returned.
//
// # Nodes
//
// The default layout is Curator's. Config.Layout selects kazoo's.
//
//	Mutex, Multi, Revocable   parent/_c_<uuid>-lock-<number>
//	RWMutex                   parent/_c_<uuid>-__READ__<number> and parent/_c_<uuid>-__WRIT__<number>
//	Semaphore                 parent/locks is a Mutex; parent/leases/_c_<uuid>-lease-<number>
//
// A parent and its missing ancestors are created as containers. Servers delete a container some time after its last
// child has left. The servers number at most 2^31 - 1 contenders under a parent. If the parent is never empty for so
// long, the calls return ErrNumbersUsedUp, and do not let two clients hold the lock, unless the servers of Rollcall are
// configured to go on (longSequentialNames).
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
func (m *Mutex) Lock(ctx context.Context) (*client.Right, error) { return m.acquireRight(ctx, waits) }

// TryLock returns the right to the lock if it is free. Otherwise the error is ErrBusy. It waits for the replies of the
// servers, until ctx ends.
func (m *Mutex) TryLock(ctx context.Context) (*client.Right, error) {
	return m.acquireRight(ctx, givesUp)
}

func (m *Mutex) acquireRight(ctx context.Context, p patience) (*client.Right, error) {
	_, right, err := acquireTurn(ctx, m.c, m.cfg, p)
	return right, err
}
