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

// contenderConfig returns the configuration of a contender. Its layout is one of two, as cfg selects.
func (cfg *Config) contenderConfig(parent string, kind contender.Kind, curator, kazoo contender.Layout) contender.Config {
	layout := curator
	if cfg.Layout == Kazoo {
		layout = kazoo
	}
	return contender.Config{Parent: parent, Layout: layout, Kind: kind, Data: cfg.Data, ACL: cfg.ACL}
}

// patience is whether a client waits for a lock that is not free.
type patience bool

const (
	waits   patience = true
	givesUp patience = false // with ErrBusy
)

// acquireTurn creates a contender, and returns its right when it has its turn.
func acquireTurn(ctx context.Context, c *client.Client, cfg contender.Config, p patience) (
	*contender.Contender, *client.Right, error,
) {
	x, err := contender.Enter(ctx, c, cfg)
	hasTurn := true
	switch {
	case err != nil:
	case p == waits:
		err = x.AwaitTurn(ctx)
	default:
		hasTurn, err = x.HasTurn(ctx)
	}
	if err == nil && !hasTurn {
		err = errors.Join(ErrBusy, x.Leave(ctx))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("lock: %s: %w", cfg.Parent, err)
	}
	right, err := contenderRight(ctx, x)
	return x, right, err
}

// contenderRight returns the right of a contender that has its turn.
func contenderRight(ctx context.Context, x *contender.Contender) (*client.Right, error) {
	right, err := x.Right(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	return right, nil
}
