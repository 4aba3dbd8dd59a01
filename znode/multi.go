package znode

import (
	"slices"

	"rollcall/zk/jute"
)

// keptMultiOps limits the operations whose memory is reused by the next multi. A frame full of the smallest
// operations would otherwise leave 20 MB allocated.
const keptMultiOps = 1024

// runMulti runs all of a multi's operations, or none. A malformed multi still takes a zxid, as in ZooKeeper,
// unless an ACL list in it is null.
func (t *transaction) runMulti() {
	if cap(t.multiOps) > keptMultiOps {
		t.multiOps, t.multiResults = nil, nil
	}
	n := jute.CountMultiOps(t.txn.GetBody()) // growing the slice step by step took four fifths of a large multi's time
	t.multiOps, t.multiResults = slices.Grow(t.multiOps[:0], n), slices.Grow(t.multiResults[:0], n)
	t.editor.reserveUndo(n)
	d := jute.NewDecoder(t.txn.GetBody())
	var err error
	t.multiOps, err = jute.DecodeMulti(&d, t.multiOps)
	defer func() { t.multiOps = jute.ForgetMulti(t.multiOps) }()
	for i := range t.multiOps {
		op := &t.multiOps[i]
		if op.Op.IsCreate() && op.Op != jute.OpCreateTTL && op.Create.ACL == nil {
			t.result.Code = jute.MarshallingError
			return
		}
	}
	t.takeZxid()
	if err != nil || !validMulti(t.multiOps) {
		t.result.Code = jute.MarshallingError
		return
	}
	t.multiResults = t.multiResults[:0]
	code, failed := t.checkOwnerLoadIdentities(), 0
	switch {
	case code == jute.SessionMoved || code != jute.OK && len(t.multiOps) == 0:
		t.result.Code = code // for a dead session, the first operation carries the code
		return
	case code == jute.OK:
		left := multiStepsLeft(t.multiOps, len(t.acls.client.identities()), t.state.tree.quotaRoots.length > 0)
		if left < 0 {
			code = jute.BadArguments // the first operation carries it
		} else {
			t.watches.entrySteps += max(0, maxFireSteps-minFireSteps-left)
			failed, code = t.runMultiOps()
		}
	}
	if code == jute.MarshallingError { // a null in an ACL, which no operation's result can report
		t.result.Code = code
		return
	}
	if code != jute.OK {
		t.multiResults = t.multiResults[:0]
		for i := range t.multiOps {
			result := OpResult{Op: jute.OpError}
			switch {
			case i == failed:
				result.Code = code
			case i > failed:
				result.Code = jute.RuntimeInconsistency
			}
			t.multiResults = append(t.multiResults, result)
		}
	}
	t.result.Multi = t.multiResults
}

func validMulti(ops []jute.MultiOp) bool {
	for i := range ops {
		op := &ops[i]
		if !op.Op.IsWrite() || op.Path() == nil {
			return false
		}
		m := op.Create.Flags // zero, and so known, for other operations
		if !m.IsKnown() || m.IsTTL() && op.Op != jute.OpCreateTTL {
			return false
		}
	}
	return true
}

// runMultiOps runs t.multiOps and fills t.multiResults. If an operation fails, it returns its number and its
// code and undoes the others. No watcher has been notified yet.
func (t *transaction) runMultiOps() (failed int, code jute.Code) {
	if t.state.term.EnforceQuota {
		before := t.state.tree.copy()
		if t.quotas.beforeMulti = &before; before.quotaRoots.length > 0 {
			t.gen.Add(1) // the copy must stay as it is
		}
		defer func() { t.quotas.beforeMulti = nil }()
	}
	for i := range t.multiOps {
		op := &t.multiOps[i]
		t.editor.recordsUndo = i+1 < len(t.multiOps) // the last one needs no undo, because a failing one changes nothing
		result := OpResult{Op: op.Op}
		var n *node
		switch op.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			if n, code = t.createInMulti(op); code == jute.OK {
				result = OpResult{Op: createResultOp(op), Path: n.path, Stat: n.stat()}
			}
		case jute.OpDelete:
			code = t.deleteNode(&op.Delete)
		case jute.OpSetData:
			if n, code = t.setData(&op.SetData); code == jute.OK {
				result.Stat = n.stat()
			}
		case jute.OpCheck:
			code = t.checkVersion(&op.Check)
		}
		if code != jute.OK {
			t.rollBack()
			failed = i
			break
		}
		t.multiResults = append(t.multiResults, result)
	}
	t.editor.discardUndo()
	return failed, code
}

// createInMulti runs a create within a multi. There, as in ZooKeeper, the flags alone decide the kind of
// node.
func (t *transaction) createInMulti(op *jute.MultiOp) (*node, jute.Code) {
	mode := op.Create.Flags
	switch {
	case mode.IsTTL() && !t.state.term.TTLNodes:
		return nil, jute.Unimplemented
	case mode.IsTTL() && (op.TTL <= 0 || op.TTL > jute.MaxTTL):
		return nil, jute.BadArguments
	case mode.IsTTL():
		return t.createNode(&op.Create, lifetime{ttlMs: op.TTL})
	case mode.IsContainer() || op.Op == jute.OpCreateContainer:
		return t.createNode(&op.Create, lifetime{isContainer: true})
	case mode.IsEphemeral():
		return t.createNode(&op.Create, lifetime{owner: jute.SessionID(t.txn.GetSession())})
	}
	return t.createNode(&op.Create, lifetime{})
}

// createResultOp returns OpCreate or OpCreate2, the type of a create's result.
func createResultOp(op *jute.MultiOp) jute.Op {
	mode := op.Create.Flags
	if op.Op == jute.OpCreate && !mode.IsContainer() || op.Op == jute.OpCreateTTL && !mode.IsTTL() && !mode.IsContainer() {
		return jute.OpCreate
	}
	return jute.OpCreate2
}

// rollBack undoes the changes of the running multi, and drops its pending reports.
func (t *transaction) rollBack() {
	t.editor.rollBack()
	t.removals.dropPending()
	t.watches.dropPending()
	t.changes.dropPending()
	t.quotas.dropExceeded()
}
