package znode

import (
	"slices"

	"rollcall/zk/jute"
)

// keepOps is how many operations' memory is kept from one multi to the next. A frame full of the
// smallest operations would otherwise leave 20 MB allocated.
const keepOps = 1024

// runMulti runs all of a multi's operations, or none. A malformed multi still takes a zxid, as in
// ZooKeeper, unless an ACL list in it is null.
func (t *transaction) runMulti() {
	if cap(t.ops) > keepOps {
		t.ops, t.results = nil, nil
	}
	n := jute.CountMulti(t.txn.GetBody()) // growing the slice step by step took four fifths of a large multi's time
	t.ops, t.results = slices.Grow(t.ops[:0], n), slices.Grow(t.results[:0], n)
	t.nodes.start(n)
	d := jute.NewDecoder(t.txn.GetBody())
	var err error
	t.ops, err = jute.DecodeMulti(&d, t.ops)
	for i := range t.ops {
		op := &t.ops[i]
		if op.Op.Creates() && op.Op != jute.OpCreateTTL && op.Create.ACL == nil {
			t.result.Code = jute.MarshallingError
			return
		}
	}
	t.take()
	if err != nil || !runnable(t.ops) {
		t.result.Code = jute.MarshallingError
		return
	}
	t.results = t.results[:0]
	code, failed := t.refuse(), 0
	switch {
	case code == jute.SessionMoved || code != jute.OK && len(t.ops) == 0:
		t.result.Code = code // for a dead session, the first operation carries the code
		return
	case code == jute.OK:
		failed, code = t.runOps()
	}
	if code == jute.MarshallingError { // a null in an ACL, which no operation's result can report
		t.result.Code = code
		return
	}
	if code != jute.OK {
		t.results = t.results[:0]
		for i := range t.ops {
			result := OpResult{Op: jute.OpError}
			switch {
			case i == failed:
				result.Code = code
			case i > failed:
				result.Code = jute.RuntimeInconsistency
			}
			t.results = append(t.results, result)
		}
	}
	t.result.Multi = t.results
}

// runnable reports whether a multi may hold these operations.
func runnable(ops []jute.MultiOp) bool {
	for i := range ops {
		op := &ops[i]
		if !op.Op.IsWrite() || op.Path() == nil {
			return false
		}
		m := op.Create.Flags // zero, and so known, for other operations
		if !m.Known() || m.IsTTL() && op.Op != jute.OpCreateTTL {
			return false
		}
	}
	return true
}

// runOps runs s.ops and fills s.results. If an operation fails, runOps returns its number and its
// code and undoes the others; no watcher has been told yet.
func (t *transaction) runOps() (failed int, code jute.Code) {
	if t.state.term.EnforceQuota {
		before := t.state.tree.copy()
		if t.quotas.before = &before; before.quotas.n > 0 {
			t.gen.Add(1) // the copy must stay as it is
		}
		defer func() { t.quotas.before = nil }()
	}
	for i := range t.ops {
		op := &t.ops[i]
		t.nodes.recording = i+1 < len(t.ops) // an operation that fails changes nothing, so the last one never needs an undo
		result := OpResult{Op: op.Op}
		var n *node
		switch op.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			if n, code = t.createIn(op); code == jute.OK {
				result = OpResult{Op: resultOf(op), Path: n.path, Stat: n.stat()}
			}
		case jute.OpDelete:
			code = t.deleteNode(&op.Delete)
		case jute.OpSetData:
			if n, code = t.setData(&op.SetData); code == jute.OK {
				result.Stat = n.stat()
			}
		case jute.OpCheck:
			code = t.check(&op.Check)
		}
		if code != jute.OK {
			t.discard()
			failed = i
			break
		}
		t.results = append(t.results, result)
	}
	t.nodes.stop()
	return failed, code
}

// createIn runs a create within a multi. There, as in ZooKeeper, the flags alone decide the kind of
// node.
func (t *transaction) createIn(op *jute.MultiOp) (*node, jute.Code) {
	mode := op.Create.Flags
	switch {
	case mode.IsTTL() && !t.state.term.TTLNodes:
		return nil, jute.Unimplemented
	case mode.IsTTL() && (op.TTL <= 0 || op.TTL > jute.MaxTTL):
		return nil, jute.BadArguments
	case mode.IsTTL():
		return t.createNode(&op.Create, life{ttl: op.TTL})
	case mode.IsContainer() || op.Op == jute.OpCreateContainer:
		return t.createNode(&op.Create, life{container: true})
	case mode.IsEphemeral():
		return t.createNode(&op.Create, life{owner: jute.SessionID(t.txn.GetSession())})
	}
	return t.createNode(&op.Create, life{})
}

// resultOf returns the type of a create's result, which is either that of create or that of
// create2.
func resultOf(op *jute.MultiOp) jute.Op {
	mode := op.Create.Flags
	if op.Op == jute.OpCreate && !mode.IsContainer() || op.Op == jute.OpCreateTTL && !mode.IsTTL() && !mode.IsContainer() {
		return jute.OpCreate
	}
	return jute.OpCreate2
}

// discard undoes what the running multi has changed, and forgets what it would have reported.
func (t *transaction) discard() {
	t.nodes.rollBack()
	t.removed.forget()
	t.watches.discard()
	t.quotas.discard()
}
