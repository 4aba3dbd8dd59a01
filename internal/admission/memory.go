package admission

import "sync/atomic"

// MemoryLimiter reports whether this process has used up its memory. All members of the process share it. A
// nil *MemoryLimiter has no limit. Safe for concurrent use.
type MemoryLimiter struct {
	limit       int64
	usedBytes   atomic.Int64
	isFull      atomic.Bool
	numRejected atomic.Uint64
}

// resumeDivisor divides the limit into the amount by which the memory in use must fall below the limit before
// writes that add data are taken again. Without it, each removed node would make room for one write.
const resumeDivisor = 20

// NewMemoryLimiter returns a limiter of so many bytes, or nil if limit is 0.
func NewMemoryLimiter(limit int64) *MemoryLimiter {
	if limit == 0 {
		return nil
	}
	return &MemoryLimiter{limit: limit}
}

// SetUsed sets the number of bytes in use. It reports whether IsFull has changed.
func (m *MemoryLimiter) SetUsed(used int64) (changed bool) {
	m.usedBytes.Store(used)
	most := m.limit
	if m.isFull.Load() {
		most -= m.limit / resumeDivisor
	}
	full := used > most
	return m.isFull.Swap(full) != full
}

// IsFull reports whether writes that add data are rejected.
func (m *MemoryLimiter) IsFull() bool { return m != nil && m.isFull.Load() }

// CountRejection counts a rejected write.
func (m *MemoryLimiter) CountRejection() { m.numRejected.Add(1) }

// Usage returns the limit, the bytes in use at the last SetUsed, and the number of rejected writes.
func (m *MemoryLimiter) Usage() (limit, used int64, refused uint64) {
	if m == nil {
		return 0, 0, 0
	}
	return m.limit, m.usedBytes.Load(), m.numRejected.Load()
}
