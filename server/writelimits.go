package server

import (
	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// WriteLimits decides which writes may enter the log, by their cost and by the memory of this process. Safe
// for concurrent use. It takes the tree's lock for reading.
type WriteLimits struct {
	limits *Limits
	memory *admission.MemoryLimiter
	tree   *znode.State
}

// WriteLimits returns the limits of writes in force.
func (s *Server) WriteLimits() *WriteLimits { return &s.writeLimits }

// RejectForMemory reports whether a write is rejected because this member is short of memory, and counts it.
// That applies to creates, to setData with more bytes than the node has here, to setACL with a longer list
// than it has, and to multis with one of these. A record that cannot be decoded is not rejected here; it gets
// its own reply. The caller holds no lock.
func (w *WriteLimits) RejectForMemory(op jute.Op, record []byte, ids []*proto.Identity) bool {
	m := w.memory
	if !m.IsFull() || !w.addsData(op, record, ids) {
		return false
	}
	m.CountRejection()
	return true
}

// freeIdentityBytes is the size of a session's identities that is always accepted. The record takes about as
// much without them, and a client must be able to authenticate before it can delete.
const freeIdentityBytes = 512

// rejectIdentitiesForMemory reports whether a write is rejected because its new identities would add to the
// session's record while this member is short of memory, and counts it.
func (w *WriteLimits) rejectIdentitiesForMemory(ids []*proto.Identity) bool {
	m := w.memory
	if !m.IsFull() || identityBytes(ids) <= freeIdentityBytes {
		return false
	}
	m.CountRejection()
	return true
}

func (w *WriteLimits) addsData(op jute.Op, record []byte, ids []*proto.Identity) bool {
	adds := false
	d := jute.NewDecoder(record)
	switch {
	case op.IsCreate():
		return true
	case op == jute.OpSetData:
		var req jute.SetDataRequest
		req.Decode(&d)
		return d.Err() == nil && w.growsData(&req)
	case op == jute.OpSetACL:
		var req jute.SetACLRequest
		req.Decode(&d)
		return d.Err() == nil && w.lengthensACL(&req, ids)
	case op == jute.OpMulti:
		whole := jute.EachMultiOp(record, func(op *jute.MultiOp) bool {
			adds = adds || op.Op.IsCreate() || op.Op == jute.OpSetData && w.growsData(&op.SetData)
			return op.Op.IsWrite()
		})
		return adds && whole
	}
	return false
}

// lengthensACL reports whether a setACL gives a node a longer list than it has here.
func (w *WriteLimits) lengthensACL(req *jute.SetACLRequest, ids []*proto.Identity) bool {
	w.tree.RLock()
	defer w.tree.RUnlock()
	_, size := znode.ExpandedSize(req.ACL, ids)
	return size > w.tree.TreeView().ACLBytes(req.Path)
}

// growsData reports whether a setData gives a node more bytes than it has here. A missing node counts as one
// without data.
func (w *WriteLimits) growsData(req *jute.SetDataRequest) bool {
	w.tree.RLock()
	defer w.tree.RUnlock()
	have, _ := w.tree.NodeSize(req.Path)
	return len(req.Data) > have
}
