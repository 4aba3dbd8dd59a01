package lock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
	"rollcall/client/recipe"
)

// SemaphoreConfig has the settings of a Semaphore.
type SemaphoreConfig struct {
	// Permits is the number of clients that hold the semaphore at the same time. All clients must give the same number.
	// It must be positive, unless PermitsPath is set.
	Permits int

	// PermitsPath is the path of a node with the number of permits, as Curator's SharedCount writes it: four bytes, big
	// endian. When it becomes smaller, the holders keep their permits, and others wait until there are fewer.
	// "": Permits is the number.
	PermitsPath string

	Data []byte // of the nodes of permits

	// ACL is that of the clients' nodes. All clients of the semaphore must be able to read them. nil: everyone has every
	// permission.
	ACL []client.ACL
}

// Semaphore is a lock that a limited number of clients hold at the same time. It is Curator's
// InterProcessSemaphoreV2. A client that holds a permit and acquires another one gets a second permit. Clients get
// permits in the order of their calls. It has no state of its own, and is safe for concurrent use.
type Semaphore struct {
	c           *client.Client
	queue       *Mutex // only its holder waits for a permit: so each release wakes one client
	leaseConfig contender.Config
	permits     int
	permitsPath string // of the node with the number of permits; "" for none
}

// NewSemaphore returns the semaphore with its nodes below parent. It sends no request.
func NewSemaphore(c *client.Client, parent string, cfg SemaphoreConfig) (*Semaphore, error) {
	if cfg.PermitsPath == "" && cfg.Permits <= 0 {
		return nil, fmt.Errorf("lock: semaphore %s: Permits %d must be positive, or PermitsPath set", parent, cfg.Permits)
	}
	leases := contender.Config{
		Parent: recipe.PathOf(parent, "leases"), Layout: contender.CuratorLease, Data: cfg.Data, ACL: cfg.ACL,
	}
	return &Semaphore{
		c: c, queue: NewMutex(c, recipe.PathOf(parent, "locks"), Config{ACL: cfg.ACL}),
		leaseConfig: leases, permits: cfg.Permits, permitsPath: cfg.PermitsPath,
	}, nil
}

// Acquire waits for a permit, until ctx ends, and returns the right to it. Tokens of permits do not exclude each other.
func (s *Semaphore) Acquire(ctx context.Context) (*client.Right, error) {
	place, turn, err := acquireTurn(ctx, s.c, s.queue.cfg, waits)
	if err != nil {
		return nil, err
	}
	defer func() { _ = turn.Release(ctx) }() // at the latest the session's end deletes the node
	cfg := s.leaseConfig
	cfg.ID = place.ID() // TryAcquire sees by it which client in the queue has a lease
	x, err := contender.Enter(ctx, s.c, cfg)
	if err == nil {
		err = s.awaitPermit(ctx, x)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: semaphore %s: %w", cfg.Parent, err)
	}
	return contenderRight(ctx, x)
}

// awaitPermit waits until fewer clients than there are permits are before x. If it returns an error, x has left.
func (s *Semaphore) awaitPermit(ctx context.Context, x *contender.Contender) error {
	permits, err := s.readPermits(ctx)
	if err != nil {
		x.Abandon()
		return err
	}
	// No watch is set for a permit that is free: servers would notify its holder of a later release.
	ahead, err := x.CountAhead(ctx)
	if err != nil || ahead < permits {
		return err
	}
	for {
		ok, err := s.awaitRelease(ctx, x)
		if err != nil {
			x.Abandon()
		}
		if ok || err != nil {
			return err
		}
	}
}

// awaitRelease reports whether there is a permit for x. If not, it first waits until that may have changed.
func (s *Semaphore) awaitRelease(ctx context.Context, x *contender.Contender) (ok bool, err error) {
	permits := s.permits
	var changed <-chan client.Event
	if s.permitsPath != "" {
		var watch *client.OnceWatch
		if permits, watch, err = s.watchPermits(ctx); err != nil {
			return false, err
		}
		defer watch.Stop()
		changed = watch.Fired
	}
	ahead, watch, err := x.CountAheadWatch(ctx)
	if err != nil {
		return false, err
	}
	defer watch.Stop()
	if ahead < permits {
		return true, nil
	}
	var event client.Event
	select {
	case event = <-watch.Fired:
	case event = <-changed:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	return false, reconnect.EventError(event)
}

// readPermits returns the number of permits.
func (s *Semaphore) readPermits(ctx context.Context) (int, error) {
	if s.permitsPath == "" {
		return s.permits, nil
	}
	permits, watch, err := s.watchPermits(ctx)
	if err == nil {
		watch.Stop()
	}
	return permits, err
}

// watchPermits returns the number of permits that the node at path has, and watches the node.
func (s *Semaphore) watchPermits(ctx context.Context) (int, *client.OnceWatch, error) {
	data, _, watch, err := reconnect.Watch(ctx, s.c, s.permitsPath, (*client.Client).GetWatch)
	switch {
	case errors.Is(err, client.ErrNoNode):
		return 0, nil, fmt.Errorf("%w. Create it with the number of permits as four bytes, big endian", err)
	case err != nil:
		return 0, nil, err
	case len(data) != permitsLength:
		watch.Stop()
		return 0, nil, fmt.Errorf("the number of permits in %s has %d bytes; it must have %d, big endian", s.permitsPath,
			len(data), permitsLength)
	}
	return int(int32(binary.BigEndian.Uint32(data))), watch, nil
}

// permitsLength is the length of the number of permits in its node.
const permitsLength = 4
