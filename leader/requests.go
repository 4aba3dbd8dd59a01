package leader

import (
	"slices"
	"sync"
)

// requests holds what operators have asked for and what waits for an entry, in the order it came.
type requests[T comparable] struct {
	most int // that may wait

	mu      sync.Mutex
	waiting []T
}

// add reports whether there was room for r.
func (q *requests[T]) add(r T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= q.most {
		return false
	}
	q.waiting = append(q.waiting, r)
	return true
}

// withdraw removes r. It reports false if r is in an entry already.
func (q *requests[T]) withdraw(r T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, r)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// take removes and returns the first n that wait, or all if there are fewer.
func (q *requests[T]) take(n int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.waiting))
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	return taken
}
