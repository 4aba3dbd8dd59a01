package contender

import (
	"context"
	"time"
)

// AwaitShortTurn is AwaitTurn for contenders that exclude nobody: they only keep out of each other's way. It lists the
// contenders once, and returns when the one before has left, although more may be before that one.
//
// Turns must be short. If a contender has the turn for longer than limit, such as one whose process is stopped, the next
// one deletes its node, after two limits at the latest. waited reports whether another contender came before.
func (x *Contender) AwaitShortTurn(ctx context.Context, limit time.Duration) (waited bool, err error) {
	var overdue Name // the contender that had the turn limit ago
	for {
		position, err := x.readPosition(ctx)
		if err != nil || position.ahead == 0 {
			return waited, err
		}
		waited = true
		if position.ahead == 1 && position.predecessor == overdue {
			err := x.deleteNode(ctx, overdue.Text)
			if err != nil {
				x.Abandon()
			}
			return waited, err
		}
		left, err := x.awaitPredecessor(ctx, position.predecessor, limit)
		switch {
		case err != nil:
			x.Abandon()
			return waited, err
		case left:
			return waited, nil
		}
		overdue = Name{}
		if position.ahead == 1 {
			overdue = position.predecessor
		}
	}
}

// awaitPredecessor waits until the predecessor has left, or until limit has passed.
func (x *Contender) awaitPredecessor(ctx context.Context, predecessor Name, limit time.Duration) (left bool, err error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = awaitChange(limited, x.c, x.cfg.PathOf(predecessor.Text))
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return false, nil
	}
	return err == nil, err
}
