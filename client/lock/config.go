package lock

import (
	"context"
	"errors"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/contender"
)

// ErrBusy means that a lock was not free.
var ErrBusy = errors.New("another client holds the lock, or waits for it")

// These are reasons of errors, for errors.Is.
var (
	ErrForeignContenders = contender.ErrForeignContenders // the parent has children of another recipe or library
	ErrNumbersUsedUp     = contender.ErrNumbersUsedUp     // the parent has had 2^31 contenders
	ErrRemoved           = contender.ErrRemoved           // another client deleted the node of a client that waits
)

// ForeignError means that a parent has children that are not contenders of the lock's layout.
type ForeignError = contender.ForeignError

// Layout selects the names of a lock's nodes. Clients exclude each other only if they use the same layout.
type Layout int

const (
	// Curator is the layout of Curator's locks. go-zookeeper/zk's Lock respects a Mutex with it, and is respected.
	Curator Layout = iota
	// Kazoo is the layout of kazoo's Lock, ReadLock and WriteLock. A Semaphore does not have it.
	Kazoo
)

// Config has the settings of a lock. The zero value is ready for use.
type Config struct {
	Layout Layout
	Data   []byte // of the clients' nodes, for people who read them: such as the address of the holder

	// ACL is that of the clients' nodes. All clients of the lock must be able to read them. nil: everyone has every
	// permission.
	ACL []client.ACL
}

// mutexLayout returns the layout of a mutex.
func (cfg *Config) mutexLayout() contender.Layout {
	if cfg.Layout == Kazoo {
		return contender.KazooLock
	}
	return contender.CuratorLock
}

// readWriteLayout returns the layout of a read-write lock.
func (cfg *Config) readWriteLayout() contender.Layout {
	if cfg.Layout == Kazoo {
		return contender.KazooReadWrite
	}
	return contender.CuratorReadWrite
}

func (cfg *Config) contenderConfig(parent string, layout contender.Layout, kind contender.Kind) contender.Config {
	return contender.Config{Parent: parent, Layout: layout, Kind: kind, Data: cfg.Data, ACL: cfg.ACL}
}

// awaitTurn creates a contender and waits for its turn.
func awaitTurn(
	ctx context.Context, c *client.Client, cfg contender.Config, waitsFor contender.WaitsFor,
) (*contender.Contender, error) {
	x, err := contender.Enter(ctx, c, cfg)
	if err == nil {
		err = x.AwaitTurn(ctx, waitsFor)
	}
	if err != nil {
		return nil, fmt.Errorf("lock: %s: %w", cfg.Parent, err)
	}
	return x, nil
}

// enterIfFree creates a contender. If it does not have its turn at once, it leaves, and the error is ErrBusy.
func enterIfFree(
	ctx context.Context, c *client.Client, cfg contender.Config, waitsFor contender.WaitsFor,
) (*contender.Contender, error) {
	x, err := contender.Enter(ctx, c, cfg)
	if err != nil {
		return nil, fmt.Errorf("lock: %s: %w", cfg.Parent, err)
	}
	ok, err := x.HasTurn(ctx, waitsFor)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock: %s: %w", cfg.Parent, err)
	case !ok:
		return nil, fmt.Errorf("lock: %s: %w", cfg.Parent, errors.Join(ErrBusy, x.Leave(ctx)))
	}
	return x, nil
}

// contenderRight returns the right of a contender that has its turn, or err, the error of the wait for the turn.
func contenderRight(ctx context.Context, x *contender.Contender, err error) (*client.Right, error) {
	if err != nil {
		return nil, err
	}
	right, err := x.Right(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return right, nil
}
