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
	isSame := func(a, b Candidate) bool { return a.Path == b.Path && bytes.Equal(a.Data, b.Data) }
	wrap := func(err error) error { return fmt.Errorf("election: observe %s: %w", e.parent, err) }
	return reconnect.Follow(ctx, e.leaderWatch, isSame, wrap)
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
		data, stat, watch, err := reconnect.Watch(ctx, e.c, path, (*client.Client).GetWatch)
		if !errors.Is(err, client.ErrNoNode) { // the candidate has left since: list again
			return newCandidate(path, data, stat), watch, err
		}
	}
}

// watchEmpty returns a watch that fires when the parent gets a candidate, or when the parent is created or deleted. It
// returns nil if there is a candidate already, or if the parent was created meanwhile.
func (e *Election) watchEmpty(ctx context.Context) (watch *client.OnceWatch, err error) {
	names, _, watch, err := reconnect.Watch(ctx, e.c, e.parent, (*client.Client).ChildrenWatch)
	occupied := len(names) > 0
	if errors.Is(err, client.ErrNoNode) {
		_, occupied, watch, err = reconnect.Watch(ctx, e.c, e.parent, (*client.Client).ExistsWatch)
	}
	if err == nil && occupied {
		watch.Stop()
		return nil, nil
	}
	return watch, err
}
