package lock

import (
	"context"
	"fmt"

	"rollcall/client"
	"rollcall/client/internal/contender"
)

// RWMutex is a lock that either one writer holds, or any number of readers. It is not re-entrant. Readers and writers
// get it in the order of their calls: a reader waits for the writers that came before it, so neither starves the other.
// It has no state of its own, and is safe for concurrent use.
type RWMutex struct {
	c                       *client.Client
	readConfig, writeConfig contender.Config
}

// NewRWMutex returns the read-write lock whose contenders are children of parent. It sends no request.
func NewRWMutex(c *client.Client, parent string, cfg Config) *RWMutex {
	config := func(kind contender.Kind) contender.Config {
		return cfg.contenderConfig(parent, kind, contender.CuratorReadWrite, contender.KazooReadWrite)
	}
	m := &RWMutex{c: c, readConfig: config(contender.Reader), writeConfig: config(contender.Writer)}
	m.readConfig.WaitsFor = afterWriters
	return m
}

// WriteRight is the right of a writer.
type WriteRight struct {
	*client.Right
	writer     *contender.Contender
	readConfig contender.Config
}

// Lock waits, until ctx ends, for the lock as a writer, and returns the right to it.
func (m *RWMutex) Lock(ctx context.Context) (*WriteRight, error) { return m.acquireRight(ctx, waits) }

// TryLock returns the right of a writer if the lock is free. Otherwise the error is ErrBusy.
func (m *RWMutex) TryLock(ctx context.Context) (*WriteRight, error) {
	return m.acquireRight(ctx, givesUp)
}

func (m *RWMutex) acquireRight(ctx context.Context, p patience) (*WriteRight, error) {
	x, right, err := acquireTurn(ctx, m.c, m.writeConfig, p)
	if err != nil {
		return nil, err
	}
	return &WriteRight{Right: right, writer: x, readConfig: m.readConfig}, nil
}

// RLock waits, until ctx ends, for the lock as a reader, and returns the right to it. A store must not check the tokens
// of readers against each other, because they hold the lock at the same time.
func (m *RWMutex) RLock(ctx context.Context) (*client.Right, error) {
	_, right, err := acquireTurn(ctx, m.c, m.readConfig, waits)
	return right, err
}

// TryRLock returns the right of a reader if no writer holds the lock or waits for it. Otherwise the error is ErrBusy.
func (m *RWMutex) TryRLock(ctx context.Context) (*client.Right, error) {
	_, right, err := acquireTurn(ctx, m.c, m.readConfig, givesUp)
	return right, err
}

// afterWriters is the WaitsFor of a reader: it waits for the last writer before it.
func afterWriters(before contender.Kind) bool { return before == contender.Writer }

// Downgrade makes the writer a reader. No other writer gets the lock in between. The reader has the writer's place in
// the order and its token, so tokens of writers that wait are greater. If Downgrade returns an error, the writer's
// right is as before. If the right has ended, the error is client.ErrNotHeld.
//
// Curator's writers respect the reader. kazoo's may not: its node has the writer's number.
func (w *WriteRight) Downgrade(ctx context.Context) (*client.Right, error) {
	x, err := contender.EnterBeside(ctx, w.writer, w.Right, w.readConfig)
	if err != nil {
		return nil, fmt.Errorf("lock: downgrade: %w", err)
	}
	right, err := contenderRight(ctx, x)
	if err != nil {
		return nil, err
	}
	_ = w.Release(ctx) // at the latest the session's end deletes the node
	return right, nil
}
