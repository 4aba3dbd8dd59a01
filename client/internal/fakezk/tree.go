package fakezk

import (
	"maps"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// tree has the nodes by their paths.
type tree map[string]*node

type node struct {
	stat    jute.Stat
	data    []byte
	creates int64 // of children, so far: the next sequential child's number
	secret  bool  // reads return NoAuth
}

// clone returns a copy that later changes leave as it is.
func (t tree) clone() tree {
	copied := maps.Clone(t)
	for path, n := range copied {
		own := *n
		copied[path] = &own
	}
	return copied
}

// change is a change of a node, with the event of a watch on it.
type change struct {
	typ  jute.EventType
	path string
	zxid int64
}

// transaction makes changes of one zxid.
type transaction struct {
	tree    tree
	zxid    int64
	session jute.SessionID // of the client
	changes []change
}

// run carries out one write.
func (t *transaction) run(op *jute.MultiOp) (jute.Code, record) {
	path := string(op.Path())
	switch op.Op {
	case jute.OpDelete:
		code := t.check(path, op.Delete.Version)
		if code == jute.OK && t.tree[path].stat.NumChildren > 0 {
			code = jute.NotEmpty
		}
		if code == jute.OK {
			t.delete(path)
		}
		return code, nil
	case jute.OpSetData:
		code := t.check(path, op.SetData.Version)
		if code == jute.OK {
			t.set(path, op.SetData.Data)
			return code, jute.SetDataResponse{Stat: t.tree[path].stat}
		}
		return code, nil
	case jute.OpCheck:
		return t.check(path, op.Check.Version), nil
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		return t.runCreate(op)
	}
	return jute.Unimplemented, nil
}

// check returns the code for a write of a node that must have a version.
func (t *transaction) check(path string, version int32) jute.Code {
	switch n := t.tree[path]; {
	case n == nil:
		return jute.NoNode
	case version != -1 && version != n.stat.Version:
		return jute.BadVersion
	}
	return jute.OK
}

// runCreate creates the node of a request, with the next number if its mode is sequential.
func (t *transaction) runCreate(op *jute.MultiOp) (jute.Code, record) {
	path, mode := string(op.Create.Path), op.Create.Flags
	parent := t.tree[nodepath.Parent(path)]
	switch {
	case !mode.IsKnown() || mode.IsTTL():
		return jute.Unimplemented, nil
	case parent == nil:
		return jute.NoNode, nil
	}
	if mode.IsSequential() {
		path = string(jute.AppendSequence([]byte(path), parent.creates))
	}
	switch {
	case t.tree[path] != nil:
		return jute.NodeExists, nil
	case parent.stat.EphemeralOwner != 0:
		return jute.NoChildrenForEphemerals, nil
	}
	var owner jute.SessionID
	if mode.IsEphemeral() {
		owner = t.session
	}
	t.create(path, op.Create.Data, owner)
	if op.Op == jute.OpCreate {
		return jute.OK, jute.CreateResponse{Path: []byte(path)}
	}
	return jute.OK, jute.Create2Response{Path: []byte(path), Stat: t.tree[path].stat}
}

// create creates a node. Its parent must exist.
func (t *transaction) create(path string, data []byte, owner jute.SessionID) {
	t.tree[path] = &node{data: data, stat: jute.Stat{
		Czxid: t.zxid, Mzxid: t.zxid, Pzxid: t.zxid, EphemeralOwner: owner, DataLength: int32(len(data)),
	}}
	t.countChild(path, 1)
	t.tree[nodepath.Parent(path)].creates++
	t.note(jute.EventNodeCreated, path)
}

// set sets the data of a node, which must exist.
func (t *transaction) set(path string, data []byte) {
	n := t.tree[path]
	n.data = data
	n.stat.DataLength = int32(len(data))
	n.stat.Mzxid = t.zxid
	n.stat.Version++
	t.note(jute.EventNodeDataChanged, path)
}

// delete deletes a node, which must exist.
func (t *transaction) delete(path string) {
	delete(t.tree, path)
	t.countChild(path, -1)
	t.note(jute.EventNodeDeleted, path)
}

// countChild adds to the parent's number of children.
func (t *transaction) countChild(path string, add int32) {
	parent := &t.tree[nodepath.Parent(path)].stat
	parent.Pzxid = t.zxid
	parent.Cversion++
	parent.NumChildren += add
}

func (t *transaction) note(typ jute.EventType, path string) {
	t.changes = append(t.changes, change{typ, path, t.zxid})
}

// runMulti carries out all operations. If one fails, ok is false, and the caller must take back what was done.
func (t *transaction) runMulti(ops []jute.MultiOp) (results multiResults, ok bool) {
	for i := range ops {
		code, rec := t.run(&ops[i])
		if code != jute.OK {
			return failedMulti(len(ops), i, code), false
		}
		results = append(results, multiResult{ops[i].Op, code, rec})
	}
	return results, true
}

// failedMulti returns the results of a multi whose operation failed. Those before it are taken back, and those after it
// are not carried out.
func failedMulti(count, failed int, code jute.Code) (results multiResults) {
	for i := range count {
		result := multiResult{op: jute.OpError, code: jute.RuntimeInconsistency}
		switch {
		case i < failed:
			result.code = jute.OK
		case i == failed:
			result.code = code
		}
		results = append(results, result)
	}
	return results
}

// multiResults is the record of the reply to a multi.
type multiResults []multiResult

type multiResult struct {
	op   jute.Op
	code jute.Code
	rec  record // nil if there is none
}

// Append implements record.
func (r multiResults) Append(b []byte) []byte {
	for _, result := range r {
		if result.op == jute.OpError || result.code != jute.OK {
			b = jute.MultiHeader{Type: jute.OpError, Err: result.code}.Append(b)
			b = jute.ErrorResponse{Err: result.code}.Append(b)
			continue
		}
		b = jute.MultiHeader{Type: result.op}.Append(b)
		if result.rec != nil {
			b = result.rec.Append(b)
		}
	}
	return jute.AppendMultiEnd(b)
}
