package bench

import (
	"fmt"
	"math/rand/v2"

	client "rollcall/client/before"
	"rollcall/zk/jute"
)

// prepareLoad creates the nodes of a load, and returns a function that returns the requestMaker of a
// connection.
func (r *caseRun) prepareLoad() (func(conn int) requestMaker, error) {
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
	paths := make([][]byte, r.params.Nodes)
	for i := range paths {
		paths[i] = p.appendNodePath(nil, int64(i))
	}
	return func(conn int) requestMaker {
		// Each connection has a random order of its own, the same in every run.
		rng := rand.New(rand.NewPCG(uint64(conn), 1))
		pick := func() []byte { return paths[rng.IntN(len(paths))] }
		get, set := r.getMaker(pick), r.setMaker(pick)
		switch r.params.Case {
		case "get":
			return get
		case "set":
			return set
		case "multi":
			return r.multiMaker(pick)
		}
		return func() (jute.Op, client.Record) {
			if rng.IntN(100) < r.params.Reads {
				return get()
			}
			return set()
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

func (r *caseRun) getMaker(pick func() []byte) requestMaker {
	rec := &jute.GetDataRequest{}
	return func() (jute.Op, client.Record) {
		rec.Path = pick()
		return jute.OpGetData, rec
	}
}

func (r *caseRun) setMaker(pick func() []byte) requestMaker {
	rec := &jute.SetDataRequest{Data: randomData(r.params.Size), Version: -1}
	return func() (jute.Op, client.Record) {
		rec.Path = pick()
		return jute.OpSetData, rec
	}
}

// multiMaker returns transactions that set Ops nodes. They cannot fail: the nodes exist, and any version
// matches.
func (r *caseRun) multiMaker(pick func() []byte) requestMaker {
	rec := make(client.MultiRequest, r.params.Ops)
	for i := range rec {
		rec[i] = jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Data: randomData(r.params.Size), Version: -1}}
	}
	return func() (jute.Op, client.Record) {
		for i := range rec {
			rec[i].SetData.Path = pick()
		}
		return jute.OpMulti, rec
	}
}

// prepareCreates lets each connection create nodes below a parent of its own.
func (r *caseRun) prepareCreates() (func(conn int) requestMaker, error) {
	directories := make([]*parent, r.params.Conns)
	for i := range directories {
		var err error
		if directories[i], err = r.tree.createParent(r.ctx, r.controlClient, fmt.Sprint("creates-", i)); err != nil {
			return nil, err
		}
	}
	data := randomData(r.params.Size)
	return func(conn int) requestMaker {
		p := directories[conn]
		rec := &jute.CreateRequest{Data: data, ACL: jute.OpenACL}
		var path []byte
		return func() (jute.Op, client.Record) {
			path = p.appendNodePath(path[:0], p.nodeCount)
			p.nodeCount++
			rec.Path = path
			return jute.OpCreate, rec
		}
	}, nil
}

func (r *caseRun) prepareLists() (func(conn int) requestMaker, error) {
	p, err := r.tree.createParent(r.ctx, r.controlClient, "parent")
	if err != nil {
		return nil, err
	}
	if err := p.createNodes(r.ctx, r.controlClient, int64(r.params.Children), nil); err != nil {
		return nil, fmt.Errorf("create %d children: %w", r.params.Children, err)
	}
	return func(int) requestMaker {
		rec := &jute.GetChildrenRequest{Path: []byte(p.path)}
		return func() (jute.Op, client.Record) { return jute.OpGetChildren, rec }
	}, nil
}
