package admission

import "sync/atomic"

// Memory records whether this process has used up the memory that it may use. All members of the process
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

// Note sets the number of bytes in use. It reports whether Full has changed.
func (m *Memory) Note(used int64) (changed bool) {
	m.used.Store(used)
	most := m.limit
	if m.full.Load() {
		most -= m.limit / memoryStep
	}
	full := used > most
	return m.full.Swap(full) != full
}

// Full reports whether writes that add data are rejected.
func (m *Memory) Full() bool { return m != nil && m.full.Load() }

// Reject counts a write that is rejected.
func (m *Memory) Reject() { m.refused.Add(1) }

// Figures returns the limit, the bytes in use at the last call of Note, and the number of writes that
// were rejected.
func (m *Memory) Figures() (limit, used int64, refused uint64) {
	if m == nil {
		return 0, 0, 0
	}
	return m.limit, m.used.Load(), m.refused.Load()
}
