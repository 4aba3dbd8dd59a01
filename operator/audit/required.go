package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// RequireTimeout limits the time that a change waits for its line: longer than a write takes, and short enough that
// clients do not give up.
const RequireTimeout = 2 * time.Second

var errStopped = errors.New("the audit log is closed")

// lineBatch is a set of lines that changes wait for and that are written together.
type lineBatch struct {
	finished chan struct{} // closed when the lines are written or lost
	err      error         // the reason of the loss; set before finished is closed
}

// IsRequired reports whether each change needs a line.
func (l *Log) IsRequired() bool { return l != nil && l.cfg.Required }

// WriteChangeIfRequired queues lines with the result invoked about a client's change and waits until they are
// on the disk. It returns an error if the change must be rejected, and nil at once if Required is false. It
// blocks for at most longest and RequireTimeout, so the caller must hold no lock.
func (l *Log) WriteChangeIfRequired(ctx context.Context, longest time.Duration, session jute.SessionID,
	ids []*proto.Identity,
	op jute.Op, body []byte,
) error {
	if !l.IsRequired() {
		return nil
	}
	return l.queueAndWait(ctx, longest, func() {
		l.queueIntended(&Event{AtMs: time.Now().UnixMilli(), Session: session, Ids: ids, Result: Invoked}, op, body)
	})
}

// WriteIfRequired is WriteChangeIfRequired for an administrator's act.
func (l *Log) WriteIfRequired(ctx context.Context, e Event) error {
	if !l.IsRequired() {
		return nil
	}
	e.AtMs, e.Result = time.Now().UnixMilli(), Invoked
	return l.queueAndWait(ctx, RequireTimeout, func() { l.queueLine(&e) })
}

// queueAndWait calls add under the lock, and waits until the lines that it has queued are written.
func (l *Log) queueAndWait(ctx context.Context, longest time.Duration, add func()) error {
	b, err := l.queueIntoBatch(add)
	if err == nil {
		err = l.awaitBatch(ctx, b, min(longest, RequireTimeout))
	}
	if err != nil {
		l.rejectedChanges.Add(1)
		l.warnRejected(err)
		return fmt.Errorf("the audit log cannot be written: %w", err)
	}
	return nil
}

// queueIntoBatch calls add and returns the batch of the lines that it has queued. It returns an error if the
// queue had no room for all of them.
func (l *Log) queueIntoBatch(add func()) (*lineBatch, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.unreportedDrops
	if add(); l.unreportedDrops != before {
		return nil, errors.New("too many lines wait for the disk")
	}
	if l.queueBatch == nil {
		l.queueBatch = &lineBatch{finished: make(chan struct{})}
	}
	sendSignal(l.queueFilled)
	sendSignal(l.queueHalfFull)
	return l.queueBatch, nil
}

// awaitBatch waits until a batch is written.
func (l *Log) awaitBatch(ctx context.Context, b *lineBatch, longest time.Duration) error {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	select {
	case <-b.finished:
		return b.err
	case <-timer.C:
		return fmt.Errorf("its disk has not taken a line for %v", longest)
	case <-l.runEnded:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select { // the last lines may have been written
	case <-b.finished:
		return b.err
	default:
		return errStopped
	}
}

// finishWith ends the waits for a batch, which may be nil.
func (b *lineBatch) finishWith(err error) {
	if b != nil {
		b.err = err
		close(b.finished)
	}
}

// warnRejected logs that a change was rejected, at most once in warnInterval.
func (l *Log) warnRejected(err error) {
	l.mu.Lock()
	now := time.Now()
	due := l.lastRejectedWarning.IsZero() || now.Sub(l.lastRejectedWarning) >= warnInterval
	if due {
		l.lastRejectedWarning = now
	}
	l.mu.Unlock()
	if due {
		l.log.Warn("changes are rejected: their audit lines cannot be written", "err", err)
	}
}

// queueIntended queues the lines of a change that is about to be made. The caller holds the lock.
func (l *Log) queueIntended(e *Event, op jute.Op, body []byte) {
	how := &operations[operationIndex(op)]
	e.Operation = how.name
	if op != jute.OpMulti {
		how.decodeBody(e, body)
		l.queueLine(e)
		return
	}
	defer l.forgetMultiOps()
	if l.decodeMultiOps(body) != nil {
		l.queueLine(e) // apply rejects it
		return
	}
	for i := range l.multiOps {
		if op := &l.multiOps[i]; op.Op != jute.OpCheck { // that changes nothing
			e.setMultiOp(op)
			l.queueLine(e)
		}
	}
}
