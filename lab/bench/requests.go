package bench

import (
	"context"
	"fmt"
	"math/rand/v2"

	"rollcall/client"
)

// prepareLoad creates the nodes of a load, and returns a function that returns the requestSender of a
// connection.
func (r *caseRun) prepareLoad() (func(conn int) requestSender, error) {
	switch r.params.Case {
	case "create":
		return r.prepareCreates()
	case "children":
		return r.prepareLists()
	}
	p, err := r.tree.createParent(r.ctx, r.controlClient, "nodes")
	if err != nil {
		return nil, err
	}
	if err := p.createNodes(r.ctx, r.controlClient, int64(r.params.Nodes), randomData(r.params.Size)); err != nil {
		return nil, fmt.Errorf("create %d nodes: %w", r.params.Nodes, err)
	}
	paths := make([]string, r.params.Nodes)
	for i := range paths {
		paths[i] = string(p.appendNodePath(nil, int64(i)))
	}
	return func(conn int) requestSender {
		// Each connection has a random order of its own, the same in every run.
		rng := rand.New(rand.NewPCG(uint64(conn), 1))
		pick := func() string { return paths[rng.IntN(len(paths))] }
		get, set := getSender(pick), r.setSender(pick)
		switch r.params.Case {
		case "get":
			return get
		case "set":
			return set
		case "multi":
			return r.multiSender(pick)
		}
		return func(ctx context.Context, p client.Pipeline, to *onReply) error {
			if rng.IntN(100) < r.params.Reads {
				return get(ctx, p, to)
			}
			return set(ctx, p, to)
		}
	}, nil
}

// randomData returns data that cannot be compressed.
func randomData(size int) []byte {
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(uint64(size), 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func getSender(pick func() string) requestSender {
	return func(ctx context.Context, p client.Pipeline, to *onReply) error { return p.Get(ctx, pick(), to.onData) }
}

func (r *caseRun) setSender(pick func() string) requestSender {
	data := randomData(r.params.Size)
	return func(ctx context.Context, p client.Pipeline, to *onReply) error {
		return p.Set(ctx, pick(), data, client.AnyVersion, to.onStat)
	}
}

// multiSender sends transactions that set Ops nodes. They cannot fail: the nodes exist, and any version matches.
func (r *caseRun) multiSender(pick func() string) requestSender {
	data := randomData(r.params.Size)
	return func(ctx context.Context, p client.Pipeline, to *onReply) error {
		to.ops = to.ops[:0] // the slot's last request has been answered
		for range r.params.Ops {
			to.ops = append(to.ops, client.SetOp(pick(), data, client.AnyVersion))
		}
		return p.Multi(ctx, to.ops, to.onResults)
	}
}

// prepareCreates lets each connection create nodes below a parent of its own.
func (r *caseRun) prepareCreates() (func(conn int) requestSender, error) {
	directories := make([]*parent, r.params.Conns)
	for i := range directories {
		var err error
		if directories[i], err = r.tree.createParent(r.ctx, r.controlClient, fmt.Sprint("creates-", i)); err != nil {
			return nil, err
		}
	}
	data := randomData(r.params.Size)
	return func(conn int) requestSender {
		parent := directories[conn]
		var path []byte
		return func(ctx context.Context, p client.Pipeline, to *onReply) error {
			path = parent.appendNodePath(path[:0], parent.nodeCount)
			parent.nodeCount++
			return p.Create(ctx, string(path), data, client.Persistent, to.onCreated)
		}
	}, nil
}

func (r *caseRun) prepareLists() (func(conn int) requestSender, error) {
	p, err := r.tree.createParent(r.ctx, r.controlClient, "parent")
	if err != nil {
		return nil, err
	}
	if err := p.createNodes(r.ctx, r.controlClient, int64(r.params.Children), nil); err != nil {
		return nil, fmt.Errorf("create %d children: %w", r.params.Children, err)
	}
	return func(int) requestSender {
		path := p.path
		return func(ctx context.Context, p client.Pipeline, to *onReply) error {
			return p.EachChild(ctx, path, to.onChildren)
		}
	}, nil
}
