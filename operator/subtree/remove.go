package subtree

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rollcall/zk/jute"
)

// maxDeletes bounds the deletes in flight. Servers process them in order, so children go first.
const maxDeletes = 256

// RemoveOptions select the nodes that Remove deletes.
type RemoveOptions struct {
	// leaves ephemeral nodes, which belong to living sessions, and the nodes above them
	KeepEphemerals bool
	DryRun         bool // deletes nothing
	// is called with each node that is deleted, or would be, and each that is left
	OnNode func(path string, deleted bool)
}

// RemoveResult counts the nodes of Remove.
type RemoveResult struct {
	Nodes     int
	LeftAlone int // nodes with children that it left, or that others made meanwhile
}

// Remove deletes the subtree at top, children first. It can be repeated after an error. The error is
// jute.NoNode if there is no top, jute.NoAuth if a node may not be read or deleted, or one of the NodeClient.
func (s Space) Remove(ctx context.Context, top string, how RemoveOptions) (RemoveResult, error) {
	r := &remover{space: s, ctx: ctx, options: how}
	err := r.queueSubtree(top)
	if err == nil {
		err = r.flushDeletes()
	}
	return r.result, err
}

func (r *remover) queueSubtree(top string) error {
	var way []string // the nodes whose children are being visited
	leave := func(next string) error {
		for len(way) > 0 && !IsAtOrBelow(next, way[len(way)-1]) {
			if err := r.queuePath(way[len(way)-1]); err != nil {
				return err
			}
			way = way[:len(way)-1]
		}
		return nil
	}
	for n, err := range r.space.Walk(r.ctx, top, WalkOptions{}) {
		if err == nil {
			err = n.Err
		}
		if err == nil {
			err = leave(n.Path)
		}
		switch {
		case err != nil:
			return err
		case r.options.KeepEphemerals && n.Stat.EphemeralOwner != 0:
			r.countLeftAlone(n.Path)
		default:
			way = append(way, n.Path)
		}
	}
	return leave("")
}

type remover struct {
	space        Space
	ctx          context.Context
	options      RemoveOptions
	pendingPaths []string
	result       RemoveResult
}

func (r *remover) queuePath(path string) error {
	if r.pendingPaths = append(r.pendingPaths, path); len(r.pendingPaths) < maxDeletes {
		return nil
	}
	return r.flushDeletes()
}

func (r *remover) countLeftAlone(path string) {
	r.result.LeftAlone++
	r.options.OnNode(path, false)
}

func (r *remover) flushDeletes() error {
	paths := r.pendingPaths
	r.pendingPaths = r.pendingPaths[:0]
	errs := make([]error, len(paths))
	if !r.options.DryRun && len(paths) > 0 {
		if err := r.space.deleteAll(r.ctx, paths, errs); err != nil {
			return err
		}
	}
	for i, err := range errs {
		switch {
		case err == nil:
			r.result.Nodes++
			r.options.OnNode(paths[i], true)
		case errors.Is(err, jute.NoNode):
		case errors.Is(err, jute.NotEmpty):
			r.countLeftAlone(paths[i])
		default:
			return err
		}
	}
	return nil
}

// deleteAll deletes nodes in order, and sets errs to their errors. It resends deletes that a broken
// connection interrupts; NoNode may then be caused by the first try.
func (s Space) deleteAll(ctx context.Context, paths []string, errs []error) error {
	left := make([]int, len(paths)) // indexes of what must be sent
	for i := range paths {
		left[i] = i
	}
	for range maxTries {
		err := s.withTimeout(ctx, func(ctx context.Context) error {
			if err := s.Nodes.AwaitConnected(ctx); err != nil {
				return err
			}
			return s.sendDeletes(ctx, paths, left, errs)
		})
		if err != nil {
			return err
		}
		var again []int
		for _, i := range left {
			if errors.Is(errs[i], jute.ConnectionLoss) {
				again = append(again, i)
			}
		}
		if left = again; len(left) == 0 {
			return nil
		}
	}
	return fmt.Errorf("delete %s: the connection broke at each of %d tries: %w", paths[left[0]], maxTries,
		errs[left[0]])
}

// sendDeletes pipelines the deletes at indexes, and sets errs when all replies have arrived.
func (s Space) sendDeletes(ctx context.Context, paths []string, indexes []int, errs []error) error {
	answers := make([]error, len(paths)) // not errs: replies may arrive after ctx has ended
	var pending sync.WaitGroup
	for _, i := range indexes {
		pending.Add(1)
		err := s.Nodes.SendDelete(ctx, s.FullPath(paths[i]), func(err error) {
			answers[i] = err
			pending.Done()
		})
		if err != nil {
			answers[i] = err
			pending.Done()
		}
	}
	all := make(chan struct{})
	go func() {
		pending.Wait()
		close(all)
	}()
	select {
	case <-all:
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, i := range indexes {
		errs[i] = answers[i]
	}
	return nil
}
