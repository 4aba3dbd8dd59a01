package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// RequireTime is the longest that a change waits for its line: longer than a write to a disk that works takes, and short enough that clients do
// not give up.
const RequireTime = 2 * time.Second

// errStopped is the error of a line that was not written before the log was closed.
var errStopped = errors.New("the audit log is closed")

// batch is the lines that are written together and that changes wait for.
type batch struct {
	done chan struct{} // closed when the lines are written, or are lost
	err  error         // why they are lost; set before done is closed
}

// Required reports whether there must be no change without a line.
func (l *Log) Required() bool { return l != nil && l.cfg.Required }

// Intend writes that a client is about to make a change, if Required is true. It returns nil when these lines, with the result invoked, are on the disk,
// and an error if the change must be rejected. It waits for longest or RequireTime at most, so the caller must hold no lock.
func (l *Log) Intend(ctx context.Context, longest time.Duration, session jute.SessionID, ids []*proto.Identity, op jute.Op, body []byte) error {
	if !l.Required() {
		return nil
	}
	return l.require(ctx, longest, func() {
		l.intend(&Event{AtMs: time.Now().UnixMilli(), Session: session, Ids: ids, Result: Invoked}, op, body)
	})
}

// Require does the same for an act of an administrator.
func (l *Log) Require(ctx context.Context, e Event) error {
	if !l.Required() {
		return nil
	}
	e.AtMs, e.Result = time.Now().UnixMilli(), Invoked
	return l.require(ctx, RequireTime, func() { l.put(&e) })
}

// require has lines written that add queues under the lock, and waits for them.
func (l *Log) require(ctx context.Context, longest time.Duration, add func()) error {
	b, err := l.enqueue(add)
	if err == nil {
		err = l.await(ctx, b, min(longest, RequireTime))
	}
	if err != nil {
		l.rejected.Add(1)
		l.warnRejected(err)
		return fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return nil
}

// enqueue queues lines, and returns the batch that they are in. It returns an error if the queue has no room for all of them.
func (l *Log) enqueue(add func()) (*batch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.untold
	if add(); l.untold != before {
		return nil, errors.New("too many lines wait for the disk")
	}
	if l.batch == nil {
		l.batch = &batch{done: make(chan struct{})}
	}
	notify(l.wake)
	notify(l.hurry)
	return l.batch, nil
}

// await waits until a batch is written.
func (l *Log) await(ctx context.Context, b *batch, longest time.Duration) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-b.done:
		return b.err
	case <-timer.C:
		return fmt.Errorf("its disk has not taken a line for %v", longest)
	case <-l.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select { // the last lines may have been written
	case <-b.done:
		return b.err
	default:
		return errStopped
	}
}

// finish tells those who wait for a batch what came of its lines. It does nothing if nobody does.
func (b *batch) finish(err error) {
	if b != nil {
		b.err = err
		close(b.done)
	}
}

// warnRejected logs that a change was rejected, unless a line said so lately.
func (l *Log) warnRejected(err error) {
	l.mu.Lock()
	now := time.Now()
	due := l.warnedRejected.IsZero() || now.Sub(l.warnedRejected) >= warnPause
	if due {
		l.warnedRejected = now
	}
	l.mu.Unlock()
	if due {
		l.log.Warn("changes are rejected: their audit lines cannot be written", "err", err)
	}
}

// intend queues the lines of a change that is about to be made. The caller holds the lock.
func (l *Log) intend(e *Event, op jute.Op, body []byte) {
	how := &operations[operationAt(op)]
	e.Operation = how.name
	if op != jute.OpMulti {
		how.describe(e, body)
		l.put(e)
		return
	}
	if l.decodeMulti(body) != nil {
		l.put(e) // apply rejects it
		return
	}
	for i := range l.ops {
		if op := &l.ops[i]; op.Op != jute.OpCheck { // that changes nothing
			e.tellOperation(op)
			l.put(e)
		}
	}
}
