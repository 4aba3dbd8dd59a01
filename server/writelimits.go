package server

import (
	"rollcall/internal/admission"
	"rollcall/proto"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// WriteLimits decides which writes may enter the log, by what they cost and by the memory of this process. Safe for concurrent use. It
// takes the tree's lock for reading.
type WriteLimits struct {
	limits *Limits
	memory *admission.MemoryLimiter
	tree   *znode.State
}

// WriteLimits returns the limits of writes in force.
func (s *Server) WriteLimits() *WriteLimits { return &s.writeLimits }

// RejectForMemory reports whether a write is refused because this member is short of memory, and counts it.
// Creates are refused, setData with more bytes than the node has here, setACL with a longer list than it has, and each multi with
// one of these.
// A record that cannot be read is not refused; it gets its own answer. The caller holds no lock.
func (w *WriteLimits) RejectForMemory(op jute.Op, record []byte, ids []*proto.Identity) bool {
	m := w.memory
	if !m.IsFull() || !w.addsData(op, record, ids) {
		return false
	}
	m.CountRejection()
	return true
}

// freeIdentityBytes limits the identities in the record of a session, in bytes, while this member is short of memory. The record
// takes about as many without them, and a client must be able to prove who it is before it can delete.
const freeIdentityBytes = 512

// rejectIdentitiesForMemory reports whether a write of a client is rejected because these identities, which the record of its session does not
// have yet, would take memory of which this member is short. It counts the write.
func (w *WriteLimits) rejectIdentitiesForMemory(ids []*proto.Identity) bool {
	m := w.memory
	if !m.IsFull() || identityBytes(ids) <= freeIdentityBytes {
		return false
	}
	m.CountRejection()
	return true
}

// addsData reports whether a write adds data.
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

// lengthensACL reports whether a node has a shorter access control list here than a setACL gives it.
func (w *WriteLimits) lengthensACL(req *jute.SetACLRequest, ids []*proto.Identity) bool {
	w.tree.RLock()
	defer w.tree.RUnlock()
	_, size := znode.ExpandedSize(req.ACL, ids)
	return size > w.tree.TreeView().ACLBytes(req.Path)
}

// growsData reports whether a node has fewer bytes of data here than a setData gives it. A node that is not
// here counts as one without data.
func (w *WriteLimits) growsData(req *jute.SetDataRequest) bool {
	w.tree.RLock()
	defer w.tree.RUnlock()
	have, _ := w.tree.NodeSize(req.Path)
	return len(req.Data) > have
}
