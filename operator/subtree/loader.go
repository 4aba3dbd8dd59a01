package subtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"rollcall/zk/jute"
)

const (
	// maxBatchNodes and maxBatchBytes bound one multi. Servers process no other write meanwhile, and accept
	// requests of 1 MiB by default. A larger node gets a multi of its own.
	maxBatchNodes = 256
	maxBatchBytes = 512 << 10
	// nodeOverhead estimates the bytes of a node in a request besides its path, data and list.
	nodeOverhead = 64
)

type loader struct {
	space        Space
	ctx          context.Context
	options      LoadOptions
	from, into   string
	isNewTop     bool // there was no top
	batch        []Record
	batchBytes   int // bytes of batch, about
	result       LoadResult
	extraRemover *remover
}

func (l *loader) queueRecord(r *Record) error {
	if r.Owner != "" {
		l.result.Skipped++
		return nil
	}
	own := *r
	own.Path = l.targetPath(r.Path)
	if l.options.ACL != nil {
		own.ACL = l.options.ACL
	}
	size := nodeOverhead + len(own.Path) + len(own.Data)
	for _, a := range own.ACL {
		size += nodeOverhead + len(a.ID.ID)
	}
	if len(l.batch) == maxBatchNodes || len(l.batch) > 0 && l.batchBytes+size > maxBatchBytes {
		if err := l.flushBatch(); err != nil {
			return err
		}
	}
	l.batch, l.batchBytes = append(l.batch, own), l.batchBytes+size
	return nil
}

// flushBatch applies the batch. The first try of a load without an existing top creates the nodes unseen.
// Otherwise, and after a try with an unknown outcome, it compares the existing nodes first.
func (l *loader) flushBatch() error {
	unseen := l.isNewTop && l.options.Mode == FailIfExists
	for try := 1; len(l.batch) > 0; try++ {
		steps, err := l.planSteps(unseen)
		if err == nil && !l.options.DryRun {
			err = l.applySteps(steps)
		}
		switch {
		case err == nil:
			l.countAndReport(steps)
			clear(l.batch) // the data are not needed any more
			l.batch, l.batchBytes = l.batch[:0], 0
		case try == maxTries && errors.Is(err, jute.ConnectionLoss):
			return fmt.Errorf("the connection broke at each of %d tries; a request of %d bytes may be longer than the "+
				"servers accept (jute.maxbuffer): %w", try, l.batchBytes, err)
		case try == maxTries || !errors.Is(err, jute.ConnectionLoss) && !l.changedMeanwhile(unseen, err):
			return err
		}
		unseen = false
	}
	return nil
}

// changedMeanwhile reports whether others changed the nodes after the comparison, so that another one helps.
func (l *loader) changedMeanwhile(unseen bool, err error) bool {
	return !unseen && (errors.Is(err, jute.NodeExists) || errors.Is(err, jute.NoNode))
}

type loadStep struct {
	record     *Record
	createNode bool
	setData    bool
	setACL     bool
	leaveAlone bool // an ephemeral node of a living session
}

func (l *loader) planSteps(unseen bool) ([]loadStep, error) {
	steps := make([]loadStep, len(l.batch))
	g, ctx := errgroup.WithContext(l.ctx)
	g.SetLimit(maxFetches)
	for i := range l.batch {
		steps[i].record = &l.batch[i]
		if unseen {
			steps[i].createNode = true
			continue
		}
		g.Go(func() error { return l.compareNode(ctx, &steps[i]) })
	}
	return steps, g.Wait()
}

func (l *loader) compareNode(ctx context.Context, s *loadStep) error {
	data, stat, err := l.space.Get(ctx, s.record.Path)
	switch {
	case errors.Is(err, jute.NoNode):
		s.createNode = true
		return nil
	case err != nil:
		return err
	case stat.EphemeralOwner != 0:
		s.leaveAlone = true
		return nil
	}
	list, err := l.space.ACL(ctx, s.record.Path)
	if err != nil {
		return err
	}
	s.setData = !bytes.Equal(data, s.record.Data) || (data == nil) != (s.record.Data == nil)
	s.setACL = !jute.EqualACLs(list, s.record.ACL)
	return nil
}

// applySteps creates and sets nodes in one multi. Lists cannot be part of it, and follow.
func (l *loader) applySteps(steps []loadStep) error {
	var writes []NodeWrite
	for _, s := range steps {
		if s.createNode || s.setData {
			own := *s.record
			own.Path = l.space.FullPath(own.Path)
			writes = append(writes, NodeWrite{Record: own, NodeExists: s.setData})
		}
	}
	if len(writes) > 0 {
		if err := l.space.writeAll(l.ctx, writes); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if s.setACL {
			if _, err := l.space.SetACL(l.ctx, s.record.Path, s.record.ACL, AnyVersion); err != nil {
				return err
			}
		}
	}
	return nil
}

// countAndReport counts and reports the finished steps.
func (l *loader) countAndReport(steps []loadStep) {
	for _, s := range steps {
		l.result.Nodes++
		l.result.Bytes += int64(len(s.record.Data))
		did := []struct {
			is     bool
			action string
			count  *int
			bytes  int
		}{
			{s.createNode, "create", &l.result.Created, len(s.record.Data)},
			{s.setData, "set", &l.result.Set, len(s.record.Data)},
			{s.setACL, "acl", &l.result.ACLs, 0},
			{s.leaveAlone, "leave", &l.result.LeftAlone, 0},
			{s == loadStep{record: s.record}, "same", new(int), 0},
		}
		for _, d := range did {
			if d.is {
				*d.count++
				l.options.OnChange(Change{d.action, s.record.Path, d.bytes})
			}
		}
	}
}

// deleteExtras deletes the nodes below the top that are not in the dump. The dump and the walk have the same
// order, so each is read once.
func (l *loader) deleteExtras(read func(func(*Record) error) error) error {
	var readErr error
	next, stop := iter.Pull(func(yield func(string) bool) {
		readErr = read(func(r *Record) error {
			if r.Owner == "" && !yield(l.targetPath(r.Path)) {
				return errStopped
			}
			return nil
		})
	})
	defer stop()
	wanted, more := next()
	gone := "" // a node that is deleted with all below it
	for n, err := range l.space.Walk(l.ctx, l.into, WalkOptions{Skip: l.space.IsServersNode}) {
		if err != nil {
			return l.ignoreMissingTop(err)
		}
		for more && comparePaths(wanted, n.Path) < 0 {
			wanted, more = next()
		}
		switch {
		case readErr != nil:
			return readErr
		case more && wanted == n.Path || gone != "" && IsAtOrBelow(n.Path, gone):
		default:
			gone = n.Path
			if err := l.queueExtraDelete(n); err != nil {
				return err
			}
		}
	}
	return l.extraRemover.flushDeletes()
}

var errStopped = errors.New("stopped")

// ignoreMissingTop ignores NoNode in a dry run that would have created the top.
func (l *loader) ignoreMissingTop(err error) error {
	if l.options.DryRun && l.isNewTop && errors.Is(err, jute.NoNode) {
		return nil
	}
	return err
}

// queueExtraDelete deletes a node and its subtree, except for ephemeral nodes.
func (l *loader) queueExtraDelete(n *Node) error {
	switch {
	case n.Stat.EphemeralOwner != 0:
		l.extraRemover.countLeftAlone(n.Path)
		return nil
	case n.Err == nil && n.Stat.NumChildren == 0:
		return l.extraRemover.queuePath(n.Path)
	}
	err := l.extraRemover.queueSubtree(n.Path)
	if errors.Is(err, jute.NoNode) {
		return nil // others have deleted it
	}
	return err
}

func (l *loader) countRemoved(path string, deleted bool) {
	if deleted {
		l.result.Deleted++
		l.options.OnChange(Change{Action: "delete", Path: path})
		return
	}
	l.result.LeftAlone++
	l.options.OnChange(Change{Action: "leave", Path: path})
}
