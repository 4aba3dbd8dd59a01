package kills

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// judge pauses the load and checks the members, through clients and by their directories.
func (r *run) judge(ctx context.Context) {
	r.t.Helper()
	r.paused(ctx, r.judgeDirectories)
}

// judgeTrees pauses the load and checks the members by what clients see.
func (r *run) judgeTrees(ctx context.Context) {
	r.t.Helper()
	r.paused(ctx, func(seen tree) error {
		for _, w := range r.writers {
			if err := w.check(nil, seen); err != nil {
				return err
			}
		}
		return nil
	})
}

// paused pauses the load, walks all members' trees, which must be equal, and calls the function with what it saw.
func (r *run) paused(ctx context.Context, judge func(tree) error) {
	r.t.Helper()
	r.visitors.mu.Lock()
	defer r.visitors.mu.Unlock()
	for _, w := range r.writers {
		defer w.resume()
		if err := w.pause(); err != nil {
			r.t.Error(err)
		}
	}
	if r.t.Failed() {
		return
	}
	r.awaitAllServing() // a member that lagged may have ended meanwhile
	seen, err := walkAll(ctx, r.Members)
	if err != nil {
		r.t.Error(err)
		return
	}
	for attempt := 1; ; attempt++ { // sessions that expire meanwhile may be in some directories and not in others
		err := judge(seen)
		if err == nil {
			return
		}
		if !errors.Is(err, errApart) || attempt == 5 {
			r.t.Error(err)
			return
		}
	}
}

// judgeDirectories compares the members' directories with what their clients saw and what was acknowledged.
func (r *run) judgeDirectories(seen tree) error {
	dir, err := os.MkdirTemp(r.t.TempDir(), "frozen-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := freeze(r.Members, dir); err != nil {
		return err
	}
	var dirs []string
	for _, m := range r.Members {
		dirs = append(dirs, directory(dir, m))
	}
	state, shortened, err := compare(dirs)
	if err != nil {
		return err
	}
	stored := treeOf(state)
	seen["/zookeeper/config"] = stored["/zookeeper/config"] // the member's own, which is in no directory
	if d := seen.diff(stored); d != "" {
		return fmt.Errorf("the directories differ from what clients see: %s", d)
	}
	for _, w := range r.writers {
		if err := w.check(state, stored); err != nil {
			return err
		}
	}
	r.sum.mu.Lock()
	defer r.sum.mu.Unlock()
	r.sum.comparisons++
	r.sum.shortened += shortened
	r.sum.nodes += len(stored)
	return r.visitors.check(state)
}
