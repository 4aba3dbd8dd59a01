package contender

import (
	"context"
	"time"
)

// mostShortTurns is the number of limits after which a contender is passed over in any case. Nobody waits for longer where nothing moves,
// however many contenders have stopped, or left persistent nodes.
const mostShortTurns = 8

// AwaitShortTurn is AwaitTurn for contenders that exclude nobody: they only keep out of each other's way. It lists the
// contenders once, and returns when the one before has left, although more may be before that one.
//
// Turns must be short. If nobody before a contender leaves for longer than limit, such as because processes are stopped, the one
// with the turn is passed over: the next one deletes its node after one limit. If the next one is stopped, too, the one behind it
// deletes that node after two, and so on, up to mostShortTurns. waited reports whether another contender came before.
func (x *Contender) AwaitShortTurn(ctx context.Context, limit time.Duration) (waited bool, err error) {
	ahead, predecessor := 0, Name{} // at the last look
	for limits := 0; ; limits++ {
		now, err := x.readPosition(ctx)
		if err != nil || now.ahead == 0 {
			return waited, err
		}
		if waited = true; now.ahead != ahead || now.predecessor != predecessor {
			ahead, predecessor, limits = now.ahead, now.predecessor, 0
		}
		if limits >= min(ahead, mostShortTurns) {
			err := x.deleteNode(ctx, predecessor.Text)
			if err != nil {
				x.Abandon()
			}
			return waited, err
		}
		left, err := x.awaitPredecessor(ctx, predecessor, limit)
		switch {
		case err != nil:
			x.Abandon()
			return waited, err
		case left:
			return waited, nil
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
