package bench

import (
	"fmt"
	"math/rand/v2"

	"rollcall/client"
	"rollcall/zk/jute"
)

// makers creates the nodes that a load needs, and returns a function that returns the maker of each
// connection.
func (r *run) makers() (func(conn int) maker, error) {
	switch r.p.Case {
	case "create":
		return r.creates()
	case "children":
		return r.listings()
	}
	f, err := r.tree.directory(r.ctx, r.control, "nodes")
	if err != nil {
		return nil, err
	}
	if err := f.fill(r.ctx, r.control, int64(r.p.Nodes), filler(r.p.Size)); err != nil {
		return nil, fmt.Errorf("create %d nodes: %w", r.p.Nodes, err)
	}
	paths := make([][]byte, r.p.Nodes)
	for i := range paths {
		paths[i] = f.node(nil, int64(i))
	}
	return func(conn int) maker {
		// Each connection visits the nodes in a random order of its own, the same in every run.
		rng := rand.New(rand.NewPCG(uint64(conn), 1))
		pick := func() []byte { return paths[rng.IntN(len(paths))] }
		get, set := r.gets(pick), r.sets(pick)
		switch r.p.Case {
		case "get":
			return get
		case "set":
			return set
		case "multi":
			return r.multis(pick)
		}
		return func() (jute.Op, client.Record) {
			if rng.IntN(100) < r.p.Reads {
				return get()
			}
			return set()
		}
	}, nil
}

// filler returns data that cannot be compressed.
func filler(size int) []byte {
	b := make([]byte, size)
	rng := rand.New(rand.NewPCG(uint64(size), 2))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func (r *run) gets(pick func() []byte) maker {
	rec := &jute.GetDataRequest{}
	return func() (jute.Op, client.Record) {
		rec.Path = pick()
		return jute.OpGetData, rec
	}
}

func (r *run) sets(pick func() []byte) maker {
	rec := &jute.SetDataRequest{Data: filler(r.p.Size), Version: -1}
	return func() (jute.Op, client.Record) {
		rec.Path = pick()
		return jute.OpSetData, rec
	}
}

// multis returns transactions that set Ops nodes. They cannot fail: the nodes exist, and any
// version matches.
func (r *run) multis(pick func() []byte) maker {
	rec := make(client.MultiRequest, r.p.Ops)
	for i := range rec {
		rec[i] = jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Data: filler(r.p.Size), Version: -1}}
	}
	return func() (jute.Op, client.Record) {
		for i := range rec {
			rec[i].SetData.Path = pick()
		}
		return jute.OpMulti, rec
	}
}

// creates lets each connection create nodes in a directory of its own.
func (r *run) creates() (func(conn int) maker, error) {
	directories := make([]*directory, r.p.Conns)
	for i := range directories {
		var err error
		if directories[i], err = r.tree.directory(r.ctx, r.control, fmt.Sprint("creates-", i)); err != nil {
			return nil, err
		}
	}
	data := filler(r.p.Size)
	return func(conn int) maker {
		f := directories[conn]
		rec := &jute.CreateRequest{Data: data, ACL: jute.OpenACL}
		var path []byte
		return func() (jute.Op, client.Record) {
			path = f.node(path[:0], f.nodes)
			f.nodes++
			rec.Path = path
			return jute.OpCreate, rec
		}
	}, nil
}

func (r *run) listings() (func(conn int) maker, error) {
	f, err := r.tree.directory(r.ctx, r.control, "parent")
	if err != nil {
		return nil, err
	}
	if err := f.fill(r.ctx, r.control, int64(r.p.Children), nil); err != nil {
		return nil, fmt.Errorf("create %d children: %w", r.p.Children, err)
	}
	return func(int) maker {
		rec := &jute.GetChildrenRequest{Path: []byte(f.path)}
		return func() (jute.Op, client.Record) { return jute.OpGetChildren, rec }
	}, nil
}
