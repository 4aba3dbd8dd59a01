package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
)

// TryAcquire returns the right to a permit if one is free that no other client waits for. Otherwise the error is
// ErrBusy. It waits for the replies of the servers, until ctx ends, but for no other client.
//
// A client that is about to get a permit waits for it. Clients of Curator count as waiting until they have left the
// queue.
func (s *Semaphore) TryAcquire(ctx context.Context) (*client.Right, error) {
	x, err := s.enterIfFree(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: semaphore %s: %w", s.leaseConfig.Parent, err)
	}
	return contenderRight(ctx, x)
}

// enterIfFree returns a contender that has a permit. It creates a node only if a permit is free. It does not enter the
// queue, where it would have to wait for clients that are about to get other permits: a lease has a permit if there are
// fewer leases before it than permits.
func (s *Semaphore) enterIfFree(ctx context.Context) (*contender.Contender, error) {
	err := s.checkAnyFree(ctx)
	if errors.Is(err, ErrBusy) { // the server may lag
		if err = reconnect.Settle(ctx, s.c); err == nil {
			err = s.checkAnyFree(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	x, err := contender.Enter(ctx, s.c, s.leaseConfig)
	if err != nil {
		return nil, err
	}
	ahead, err := x.ListAhead(ctx)
	if err != nil {
		return nil, err
	}
	switch err := s.checkFreeAfter(ctx, ahead); {
	case errors.Is(err, ErrBusy):
		return nil, errors.Join(err, x.Leave(ctx))
	case err != nil:
		x.Abandon()
		return nil, err
	}
	return x, nil
}

// checkAnyFree returns ErrBusy if there is no permit for a client that comes now.
func (s *Semaphore) checkAnyFree(ctx context.Context) error {
	leases, err := contender.List(ctx, s.c, s.leaseConfig.Parent, s.leaseConfig.Layout)
	if err != nil {
		return err
	}
	return s.checkFreeAfter(ctx, leases)
}

// checkFreeAfter returns ErrBusy if there is no permit for a client that comes after these leases and after the clients
// in the queue that have none of them.
func (s *Semaphore) checkFreeAfter(ctx context.Context, leases []contender.Name) error {
	permits, err := s.readPermits(ctx)
	if err != nil {
		return err
	}
	if len(leases) >= permits {
		return ErrBusy
	}
	queue, err := contender.List(ctx, s.c, s.queue.cfg.Parent, s.queue.cfg.Layout)
	if err != nil {
		return err
	}
	before := len(leases)
	for _, waiting := range queue {
		if !slices.ContainsFunc(leases, func(lease contender.Name) bool { return lease.ID == waiting.ID }) {
			before++
		}
	}
	if before >= permits {
		return ErrBusy
	}
	return nil
}
