package election

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"rollcall/client"
	"rollcall/client/internal/contender"
	"rollcall/client/internal/reconnect"
)

// Observe returns the candidate that leads, and then each change of the leader or of its data, until ctx ends. A
// Candidate without a Path means that there is no leader. An observer that is slower than the changes misses some of
// them, but always gets the latest one. Other candidates do not wake observers. When ctx or the session ends, or a read
// fails, the last pair has the error.
//
// A candidate leads from the end of its predecessor's leadership, and its Token is greater than all earlier ones. It
// may have stopped leading before the observer sees its successor.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Candidate, error] {
	return func(yield func(Candidate, error) bool) {
		var last *Candidate
		for {
			leader, watch, err := e.leaderWatch(ctx)
			if err == nil && (last == nil || last.Path != leader.Path || !bytes.Equal(last.Data, leader.Data)) {
				if last = &leader; !yield(leader, nil) {
					watch.Stop()
					return
				}
			}
			if err == nil {
				err = reconnect.AwaitEvent(ctx, watch)
			}
			if err != nil {
				yield(Candidate{}, fmt.Errorf("election: observe %s: %w", e.parent, err))
				return
			}
		}
	}
}

// leaderWatch returns the leader, and a watch that fires when it changes.
func (e *Election) leaderWatch(ctx context.Context) (leader Candidate, watch *client.OnceWatch, err error) {
	for {
		names, err := contender.List(ctx, e.c, e.parent, e.layout)
		if err != nil {
			return Candidate{}, nil, err
		}
		if len(names) == 0 {
			if watch, err = e.watchEmpty(ctx); watch != nil || err != nil {
				return Candidate{}, watch, err
			}
			continue
		}
		path := e.pathOf(names[0])
		err = reconnect.Retry(ctx, e.c, func() (err error) {
			var stat client.Stat
			var data []byte
			data, stat, watch, err = e.c.GetWatch(ctx, path)
			leader = newCandidate(path, data, stat)
			return err
		})
		if !errors.Is(err, client.ErrNoNode) { // the candidate has left since: list again
			return leader, watch, err
		}
	}
}

// watchEmpty returns a watch that fires when the parent gets a candidate, or when the parent is created or deleted. It
// returns nil if there is a candidate already, or if the parent was created meanwhile.
func (e *Election) watchEmpty(ctx context.Context) (watch *client.OnceWatch, err error) {
	occupied := false
	err = reconnect.Retry(ctx, e.c, func() (err error) {
		var names []string
		names, _, watch, err = e.c.ChildrenWatch(ctx, e.parent)
		occupied = len(names) > 0
		return err
	})
	if errors.Is(err, client.ErrNoNode) {
		err = reconnect.Retry(ctx, e.c, func() (err error) {
			_, occupied, watch, err = e.c.ExistsWatch(ctx, e.parent)
			return err
		})
	}
	if err == nil && occupied {
		watch.Stop()
		return nil, nil
	}
	return watch, err
}
