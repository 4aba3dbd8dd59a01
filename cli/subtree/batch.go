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
	// maxBatch and maxBatchBytes bound a step of a load. The servers carry out no other write meanwhile, and
	// accept requests of up to 1 MiB by default. A node with more data is a step of its own.
	maxBatch      = 256
	maxBatchBytes = 512 << 10
	// perNode is about how many bytes a node takes in a request besides its path, data and list.
	perNode = 64

	anyVersion = -1
)

// loader is one load.
type loader struct {
	space      Space
	ctx        context.Context
	how        Loading
	from, into string
	fresh      bool // there was no top
	batch      []Record
	size       int // bytes of batch, about
	done       Loaded
	rest       *remover
}

// add takes a node of the dump, in order.
func (l *loader) add(r *Record) error {
	if r.Owner != "" {
		l.done.Skipped++
		return nil
	}
	own := *r
	own.Path = l.target(r.Path)
	if l.how.ACL != nil {
		own.ACL = l.how.ACL
	}
	size := perNode + len(own.Path) + len(own.Data)
	for _, a := range own.ACL {
		size += perNode + len(a.ID.ID)
	}
	if len(l.batch) == maxBatch || len(l.batch) > 0 && l.size+size > maxBatchBytes {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.batch, l.size = append(l.batch, own), l.size+size
	return nil
}

// flush brings the nodes of the batch about. The first try of a load into nothing creates them unseen.
// Otherwise, and after a try whose outcome is not known, it looks at what is there first.
func (l *loader) flush() error {
	unseen := l.fresh && l.how.Mode == Refuse
	for try := 1; len(l.batch) > 0; try++ {
		steps, err := l.plan(unseen)
		if err == nil && !l.how.DryRun {
			err = l.carryOut(steps)
		}
		switch {
		case err == nil:
			l.count(steps)
			clear(l.batch) // the data are not needed any more
			l.batch, l.size = l.batch[:0], 0
		case try == maxTries && errors.Is(err, client.ErrConnectionLost):
			return fmt.Errorf("the connection broke at each of %d tries; a request of %d bytes may be longer than the servers accept (jute.maxbuffer): %w", try, l.size, err)
		case try == maxTries || !errors.Is(err, client.ErrConnectionLost) && !l.moved(unseen, err):
			return err
		}
		unseen = false
	}
	return nil
}

// moved reports whether err means that the nodes were changed by others between the look and the change, so
// that another look helps.
func (l *loader) moved(unseen bool, err error) bool {
	return !unseen && (errors.Is(err, jute.NodeExists) || errors.Is(err, jute.NoNode))
}

// step is what a load does about one node.
type step struct {
	record *Record
	create bool
	set    bool
	acl    bool
	leave  bool // an ephemeral node of a living session
}

// plan returns a step for each node of the batch.
func (l *loader) plan(unseen bool) ([]step, error) {
	steps := make([]step, len(l.batch))
	g, ctx := errgroup.WithContext(l.ctx)
	g.SetLimit(maxFetches)
	for i := range l.batch {
		steps[i].record = &l.batch[i]
		if unseen {
			steps[i].create = true
			continue
		}
		g.Go(func() error { return l.look(ctx, &steps[i]) })
	}
	return steps, g.Wait()
}

// look compares a node with what is there.
func (l *loader) look(ctx context.Context, s *step) error {
	data, stat, err := l.space.Get(ctx, s.record.Path)
	switch {
	case errors.Is(err, jute.NoNode):
		s.create = true
		return nil
	case err != nil:
		return err
	case stat.EphemeralOwner != 0:
		s.leave = true
		return nil
	}
	list, err := l.space.ACL(ctx, s.record.Path)
	if err != nil {
		return err
	}
	s.set = !bytes.Equal(data, s.record.Data) || (data == nil) != (s.record.Data == nil)
	s.acl = !sameACL(list, s.record.ACL)
	return nil
}

// carryOut creates and sets in one transaction, and then changes lists, which cannot be in it.
func (l *loader) carryOut(steps []step) error {
	var ops []jute.MultiOp
	for _, s := range steps {
		path := []byte(l.space.Full(s.record.Path))
		switch {
		case s.create:
			ops = append(ops, s.record.creation(path))
		case s.set:
			ops = append(ops, jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: path, Data: s.record.Data, Version: anyVersion}})
		}
	}
	if len(ops) > 0 {
		err := l.space.Write(l.ctx, func(ctx context.Context) error {
			_, err := l.space.nodes().Multi(ctx, ops)
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, s := range steps {
		if s.acl {
			err := l.space.Write(l.ctx, func(ctx context.Context) error {
				_, err := l.space.nodes().SetACL(ctx, l.space.Full(s.record.Path), s.record.ACL, anyVersion)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// creation returns the operation that creates the node at a path.
func (r *Record) creation(path []byte) jute.MultiOp {
	op := jute.MultiOp{Op: jute.OpCreate, Create: jute.CreateRequest{Path: path, Data: r.Data, ACL: r.ACL}}
	switch {
	case r.Container:
		op.Op, op.Create.Flags = jute.OpCreateContainer, jute.Container
	case r.TTL != 0:
		op.Op, op.Create.Flags, op.TTL = jute.OpCreateTTL, jute.PersistentWithTTL, r.TTL
	}
	return op
}

// count adds up and tells what the steps have done.
func (l *loader) count(steps []step) {
	for _, s := range steps {
		l.done.Nodes++
		l.done.Bytes += int64(len(s.record.Data))
		did := []struct {
			is     bool
			action string
			count  *int
			bytes  int
		}{
			{s.create, "create", &l.done.Created, len(s.record.Data)},
			{s.set, "set", &l.done.Set, len(s.record.Data)},
			{s.acl, "acl", &l.done.ACLs, 0},
			{s.leave, "leave", &l.done.Left, 0},
			{s == step{record: s.record}, "same", new(int), 0},
		}
		for _, d := range did {
			if d.is {
				*d.count++
				l.how.Each(Change{d.action, s.record.Path, d.bytes})
			}
		}
	}
}
