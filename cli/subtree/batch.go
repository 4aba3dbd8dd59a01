package subtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"rollcall/client"
	"rollcall/zk/jute"
)

const (
	// maxBatchNodes and maxBatchBytes bound a step of a load. The servers carry out no other write meanwhile, and
	// accept requests of up to 1 MiB by default. A node with more data is a step of its own.
	maxBatchNodes = 256
	maxBatchBytes = 512 << 10
	// nodeOverhead is about how many bytes a node takes in a request besides its path, data and list.
	nodeOverhead = 64

	anyVersion = -1
)

// loader is one load.
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

// addRecord takes a node of the dump, in order.
func (l *loader) addRecord(r *Record) error {
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

// flushBatch brings the nodes of the batch about. The first try of a load into nothing creates them unseen.
// Otherwise, and after a try whose outcome is not known, it looks at what is there first.
func (l *loader) flushBatch() error {
	unseen := l.isNewTop && l.options.Mode == FailIfExists
	for try := 1; len(l.batch) > 0; try++ {
		steps, err := l.planSteps(unseen)
		if err == nil && !l.options.DryRun {
			err = l.applySteps(steps)
		}
		switch {
		case err == nil:
			l.countSteps(steps)
			clear(l.batch) // the data are not needed any more
			l.batch, l.batchBytes = l.batch[:0], 0
		case try == maxTries && errors.Is(err, client.ErrConnectionLost):
			return fmt.Errorf("the connection broke at each of %d tries; a request of %d bytes may be longer than the servers accept (jute.maxbuffer): %w", try, l.batchBytes, err)
		case try == maxTries || !errors.Is(err, client.ErrConnectionLost) && !l.changedMeanwhile(unseen, err):
			return err
		}
		unseen = false
	}
	return nil
}

// changedMeanwhile reports whether err means that the nodes were changed by others between the look and the change, so
// that another look helps.
func (l *loader) changedMeanwhile(unseen bool, err error) bool {
	return !unseen && (errors.Is(err, jute.NodeExists) || errors.Is(err, jute.NoNode))
}

// loadStep is what a load does about one node.
type loadStep struct {
	record     *Record
	createNode bool
	setData    bool
	setACL     bool
	leaveAlone bool // an ephemeral node of a living session
}

// planSteps returns a step for each node of the batch.
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

// compareNode compares a node with what is there.
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
	s.setACL = !sameACL(list, s.record.ACL)
	return nil
}

// applySteps creates and sets in one transaction, and then changes lists, which cannot be in it.
func (l *loader) applySteps(steps []loadStep) error {
	var ops []jute.MultiOp
	for _, s := range steps {
		path := []byte(l.space.FullPath(s.record.Path))
		switch {
		case s.createNode:
			ops = append(ops, s.record.createOp(path))
		case s.setData:
			ops = append(ops, jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: path, Data: s.record.Data, Version: anyVersion}})
		}
	}
	if len(ops) > 0 {
		err := l.space.Write(l.ctx, func(ctx context.Context) error {
			_, err := l.space.nodeClient().Multi(ctx, ops)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, s := range steps {
		if s.setACL {
			err := l.space.Write(l.ctx, func(ctx context.Context) error {
				_, err := l.space.nodeClient().SetACL(ctx, l.space.FullPath(s.record.Path), s.record.ACL, anyVersion)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// createOp returns the operation that creates the node at a path.
func (r *Record) createOp(path []byte) jute.MultiOp {
	op := jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path, Data: r.Data, ACL: r.ACL}}
	switch {
	case r.Container:
		op.Op, op.Create.Flags = jute.OpCreateContainer, jute.Container
	case r.TTL != 0:
		op.Op, op.Create.Flags, op.TTL = jute.OpCreateTTL, jute.PersistentWithTTL, r.TTL
	}
	return op
}

// countSteps adds up and tells what the steps have done.
func (l *loader) countSteps(steps []loadStep) {
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
