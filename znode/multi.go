package znode

import (
	"slices"

	"rollcall/jute"
	"rollcall/proto"
)

// keepOps is how many operations' memory is kept from one multi to the next. A frame full of the
// smallest operations would otherwise leave 20 MB allocated.
const keepOps = 1024

// runMulti runs all of a multi's operations, or none. A malformed multi still takes a zxid, as in
// ZooKeeper, unless an ACL list in it is null.
func (s *State) runMulti(txn *proto.Txn, r *Result) {
	if cap(s.ops) > keepOps {
		s.ops, s.results, s.undo = nil, nil, nil
	}
	n := jute.CountMulti(txn.GetBody()) // growing the slice step by step took four fifths of a large multi's time
	s.ops, s.results, s.undo = slices.Grow(s.ops[:0], n), slices.Grow(s.results[:0], n), slices.Grow(s.undo[:0], n)
	d := jute.NewDecoder(txn.GetBody())
	var err error
	s.ops, err = jute.DecodeMulti(&d, s.ops)
	for i := range s.ops {
		op := &s.ops[i]
		if op.Op.Creates() && op.Op != jute.OpCreateTTL && op.Create.ACL == nil {
			r.Code = jute.MarshallingError
			return
		}
	}
	s.take()
	if err != nil || !runnable(s.ops) {
		r.Code = jute.MarshallingError
		return
	}
	s.results = s.results[:0]
	code, failed := s.refuse(txn), 0
	switch {
	case code == jute.SessionMoved || code != jute.OK && len(s.ops) == 0:
		r.Code = code // for a dead session, the first operation carries the code
		return
	case code == jute.OK:
		failed, code = s.runOps(txn)
	}
	if code == jute.MarshallingError { // a null in an ACL, which no operation's result can report
		r.Code = code
		return
	}
	if code != jute.OK {
		s.results = s.results[:0]
		for i := range s.ops {
			result := OpResult{Op: jute.OpError}
			switch {
			case i == failed:
				result.Code = code
			case i > failed:
				result.Code = jute.RuntimeInconsistency
			}
			s.results = append(s.results, result)
		}
	}
	r.Multi = s.results
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
func (s *State) runOps(txn *proto.Txn) (failed int, code jute.Code) {
	if s.term.EnforceQuota {
		before := s.tree.copy()
		if s.before = &before; before.quotas.n > 0 {
			s.gen.Add(1) // the copy must stay as it is
		}
		defer func() { s.before = nil }()
	}
	for i := range s.ops {
		op := &s.ops[i]
		s.undoable = i+1 < len(s.ops) // an operation that fails changes nothing, so the last one never needs an undo
		result := OpResult{Op: op.Op}
		var n *node
		switch op.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			if n, code = s.createIn(txn, op); code == jute.OK {
				result = OpResult{Op: resultOf(op), Path: n.path, Stat: n.stat()}
			}
		case jute.OpDelete:
			code = s.deleteNode(txn, &op.Delete)
		case jute.OpSetData:
			if n, code = s.setData(txn, &op.SetData); code == jute.OK {
				result.Stat = n.stat()
			}
		case jute.OpCheck:
			code = s.check(txn, &op.Check)
		}
		if code != jute.OK {
			s.goBack()
			failed = i
			break
		}
		s.results = append(s.results, result)
	}
	s.undoable = false
	clear(s.undo)
	s.undo = s.undo[:0]
	return failed, code
}

// createIn runs a create within a multi. There, as in ZooKeeper, the flags alone decide the kind of
// node.
func (s *State) createIn(txn *proto.Txn, op *jute.MultiOp) (*node, jute.Code) {
	mode := op.Create.Flags
	switch {
	case mode.IsTTL() && !s.term.TTLNodes:
		return nil, jute.Unimplemented
	case mode.IsTTL() && (op.TTL <= 0 || op.TTL > jute.MaxTTL):
		return nil, jute.BadArguments
	case mode.IsTTL():
		return s.createNode(txn, &op.Create, life{ttl: op.TTL})
	case mode.IsContainer() || op.Op == jute.OpCreateContainer:
		return s.createNode(txn, &op.Create, life{container: true})
	case mode.IsEphemeral():
		return s.createNode(txn, &op.Create, life{owner: jute.SessionID(txn.GetSession())})
	}
	return s.createNode(txn, &op.Create, life{})
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

// undo reverses one step of a change of the tree. Exactly one field is set.
type undo struct {
	linked   *node // this node was linked
	unlinked *node // this node was unlinked
	edited   node  // the node was like this; its children are restored by other steps
}

// willUndo records a step that may have to be undone.
func (s *State) willUndo(u undo) {
	if !s.undoable {
		return
	}
	if !u.edited.plain() {
		f := *u.edited.family
		u.edited.family = &f
	}
	s.undo = append(s.undo, u)
}

// goBack undoes all steps of the running multi.
func (s *State) goBack() {
	gen := s.gen.Load()
	for _, u := range slices.Backward(s.undo) {
		switch {
		case u.linked != nil:
			s.unlink(gen, u.linked)
		case u.unlinked != nil:
			s.link(gen, u.unlinked)
		default:
			n := s.edit(gen, u.edited.path)
			s.resize(n, u.edited.data.len()-n.data.len())
			s.recast(gen, n, func() {
				u.edited.gen = n.gen
				if !n.plain() {
					u.edited.found().children = n.children
				}
				*n = u.edited
			})
			s.count(n)
		}
	}
	s.forget()
	s.watches.discard()
	clear(s.overused)
	s.overused = s.overused[:0]
}
