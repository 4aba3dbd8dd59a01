package server

import (
	"sync/atomic"

	"rollcall/jute"
	"rollcall/proto"
	"rollcall/znode"
)

// Memory says whether this process has used up the memory that it may use. All members of the process
// share it. A nil *Memory has no limit. Safe for concurrent use.
type Memory struct {
	limit   int64
	used    atomic.Int64
	full    atomic.Bool
	refused atomic.Uint64
}

// memoryStep is the part of the limit, as one in so many, by which the memory in use must fall below the
// limit before writes that add data are taken again. Without it, each removed node would make room for
// one write.
const memoryStep = 20

// NewMemory returns a Memory with so many bytes, or nil if limit is 0.
func NewMemory(limit int64) *Memory {
	if limit == 0 {
		return nil
	}
	return &Memory{limit: limit}
}

// Note says how many bytes are in use. It reports whether Full is different now.
func (m *Memory) Note(used int64) (changed bool) {
	m.used.Store(used)
	most := m.limit
	if m.full.Load() {
		most -= m.limit / memoryStep
	}
	full := used > most
	return m.full.Swap(full) != full
}

// Full reports whether writes that add data are refused.
func (m *Memory) Full() bool { return m != nil && m.full.Load() }

// Figures returns the limit, how many bytes were in use when Note was called last, and how many writes
// were refused.
func (m *Memory) Figures() (limit, used int64, refused uint64) {
	if m == nil {
		return 0, 0, 0
	}
	return m.limit, m.used.Load(), m.refused.Load()
}

// LacksMemory reports whether a write is refused because this member is short of memory, and counts it.
// Creates are refused, setData with more bytes than the node has here, setACL with a longer list than it has, and each multi with
// one of these.
// A record that cannot be read is not refused; it gets its own answer. The caller holds no lock.
func (s *Server) LacksMemory(op jute.Op, record []byte, ids []*proto.Identity) bool {
	m := s.cfg.Memory
	if !m.Full() || !s.adds(op, record, ids) {
		return false
	}
	m.refused.Add(1)
	return true
}

// freeIdentities is how many bytes of identities the record of a session may have while this member is short of memory. The record
// takes about as many without them, and a client must be able to prove who it is before it can delete.
const freeIdentities = 512

// lacksRecord reports whether a write of a client is refused because these identities, which the record of its session does not
// have yet, would take memory of which this member is short. It counts the write.
func (s *Server) lacksRecord(ids []*proto.Identity) bool {
	m := s.cfg.Memory
	if !m.Full() || bytesOf(ids) <= freeIdentities {
		return false
	}
	m.refused.Add(1)
	return true
}

// adds reports whether a write adds data.
func (s *Server) adds(op jute.Op, record []byte, ids []*proto.Identity) bool {
	adds := false
	d := jute.NewDecoder(record)
	switch {
	case op.Creates():
		return true
	case op == jute.OpSetData:
		var req jute.SetDataRequest
		req.Decode(&d)
		return d.Err() == nil && s.grows(&req)
	case op == jute.OpSetACL:
		var req jute.SetACLRequest
		req.Decode(&d)
		return d.Err() == nil && s.lengthens(&req, ids)
	case op == jute.OpMulti:
		whole := jute.EachOfMulti(record, func(op *jute.MultiOp) bool {
			adds = adds || op.Op.Creates() || op.Op == jute.OpSetData && s.grows(&op.SetData)
			return op.Op.IsWrite()
		})
		return adds && whole
	}
	return false
}

// lengthens reports whether a node has a shorter access control list here than a setACL gives it.
func (s *Server) lengthens(req *jute.SetACLRequest, ids []*proto.Identity) bool {
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	_, size := znode.Expanded(req.ACL, ids)
	return size > tree.ListBytes(req.Path)
}

// grows reports whether a node has fewer bytes of data here than a setData gives it. A node that is not
// here counts as one without data.
func (s *Server) grows(req *jute.SetDataRequest) bool {
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	have, _ := tree.Weight(req.Path)
	return len(req.Data) > have
}
