package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// ErrInCallback means that a call was made by Config.OnEvent or Config.OnPong. It would wait for the goroutine that it
// blocks. Nothing was sent.
var ErrInCallback = errors.New("client: OnEvent and OnPong must not call the Client; use a goroutine, or a Pipeline")

// maxWaitingStates limits the changes that wait while OnState runs. A session changes its state twice for each
// connection that breaks, so OnState is then 32 connections behind.
const maxWaitingStates = 64

// callbacks calls the functions of a Config.
//
// OnState runs on a goroutine of its own, which there is while changes wait. So it may call the Client, and may block.
// OnEvent and OnPong run on the reader, which alone knows the order of events and replies. While one of them runs, the
// reader's goroutine is known by its name, and its calls are rejected.
type callbacks struct {
	onState func(StateChange) // nil: none
	onEvent func(Event)       // nil: none

	reader   string      // the name of the reader's goroutine; set by the reader before it sets inReader
	inReader atomic.Bool // OnEvent or OnPong runs

	mu      sync.Mutex
	waiting []StateChange // for OnState, at most maxWaitingStates
	idle    chan struct{} // closed when OnState has returned and nothing waits; nil: it is so
	runner  string        // the name of the goroutine that runs OnState
}

// reportState has OnState called with a change. If too many wait, the oldest one is dropped.
func (b *callbacks) reportState(change StateChange) {
	if b.onState == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == maxWaitingStates {
		b.waiting = b.waiting[1:]
	}
	b.waiting = append(b.waiting, change)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.runOnState()
	}
}

// runOnState calls OnState until no change waits.
func (b *callbacks) runOnState() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runner = goroutineName()
	for len(b.waiting) > 0 {
		change := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		b.onState(change)
		b.mu.Lock()
	}
	close(b.idle)
	b.waiting, b.idle, b.runner = nil, nil, ""
}

// awaitOnState waits until OnState has returned and no change waits, or until ctx ends. OnState itself does not wait.
func (b *callbacks) awaitOnState(ctx context.Context) error {
	b.mu.Lock()
	idle, runner := b.idle, b.runner
	b.mu.Unlock()
	if idle == nil || runner != "" && runner == goroutineName() {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("client: the session has ended, but OnState has not returned: %w", ctx.Err())
	}
}

// callOnReader calls OnEvent or OnPong, on the reader. If callback is nil, it does nothing.
func callOnReader[T any](b *callbacks, callback func(T), with T) {
	if callback == nil {
		return
	}
	if b.reader == "" {
		b.reader = goroutineName()
	}
	b.inReader.Store(true)
	defer b.inReader.Store(false)
	callback(with)
}

// checkNotInCallback returns ErrInCallback if the caller is OnEvent or OnPong. It costs one load while neither runs.
func (b *callbacks) checkNotInCallback() error {
	if b.inReader.Load() && b.reader == goroutineName() {
		return ErrInCallback
	}
	return nil
}

// goroutineName returns the beginning of the caller's stack trace, such as "goroutine 7": the runtime names a goroutine
// nowhere else, and gives no other one that name.
func goroutineName() string {
	var trace [64]byte
	name, _, _ := bytes.Cut(trace[:runtime.Stack(trace[:], false)], []byte(" ["))
	return string(name)
}
