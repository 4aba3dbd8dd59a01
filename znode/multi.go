package znode

import (
	"rollcall/jute"
	"rollcall/proto"
)

// keepOps is how many operations' memory is kept from one multi to the next: a frame
// full of the smallest ones would leave 20 MB.
const keepOps = 1024

// runMulti runs all of a multi's operations, or none. A multi that makes no sense takes
// a zxid all the same, as in ZooKeeper, unless an ACL list in it is null.
func (s *State) runMulti(txn *proto.Txn, r *Result) {
	if cap(s.ops) > keepOps {
		s.ops, s.results = nil, nil
	}
	d := jute.NewDecoder(txn.GetBody())
	var err error
	s.ops, err = jute.DecodeMulti(&d, s.ops)
	for i := range s.ops {
		op := &s.ops[i]
		switch op.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
			if op.Create.ACL == nil {
				r.Code = jute.MarshallingError
				return
			}
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
		r.Code = code // of a dead session's operations, the first one says so
		return
	case code == jute.OK:
		failed, code = s.runOps(txn)
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

// runnable reports whether ops are such as a multi may hold, the operations of a kind
// not served yet excepted.
func runnable(ops []jute.MultiOp) bool {
	for i := range ops {
		op := &ops[i]
		var path []byte
		switch op.Op {
		case jute.OpCreate, jute.OpCreate2:
			path = op.Create.Path
			if m := op.Create.Flags; !m.Known() || m.IsTTL() || m.IsContainer() {
				return false
			}
		case jute.OpDelete:
			path = op.Delete.Path
		case jute.OpSetData:
			path = op.SetData.Path
		case jute.OpCheck:
			path = op.Check.Path
		}
		if path == nil {
			return false
		}
	}
	return true
}

// runOps runs s.ops and fills s.results. If one fails it returns which and why, and all
// is as it was before: the tree goes back to a copy, and nothing was fired yet.
func (s *State) runOps(txn *proto.Txn) (failed int, code jute.Code) {
	before, copied := tree{}, false
	for i := range s.ops {
		op := &s.ops[i]
		if !copied && op.Op != jute.OpCheck && i+1 < len(s.ops) { // a change that a later failure must undo
			before, copied = s.tree, true
			s.gen.Add(1)
		}
		result := OpResult{Op: op.Op}
		var n *node
		switch op.Op {
		case jute.OpCreate:
			if n, code = s.createNode(txn, &op.Create); code == jute.OK {
				result.Path = n.path
			}
		case jute.OpCreate2:
			if n, code = s.createNode(txn, &op.Create); code == jute.OK {
				result.Path, result.Stat = n.path, n.stat()
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
			if copied {
				s.tree = before
			}
			s.changes = s.changes[:0]
			return i, code
		}
		s.results = append(s.results, result)
	}
	return 0, jute.OK
}
