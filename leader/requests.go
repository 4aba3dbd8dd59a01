package leader

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// requests holds what operators have asked for and what waits for an entry, in the order it came.
type requests[T comparable] struct {
	what string // they are, in the plural
	most int    // that may wait

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

// awaitApplied adds r to the requests q of a leader, and returns what done gets when the entry with r was applied. It
// waits as long as the term and ctx last. The codes of its errors are those of Kill and Reconfigure. done has one place.
func awaitApplied[T comparable, A any](ctx context.Context, l *Leader, q *requests[T], r T, done <-chan A) (answer A, err error) {
	if !q.add(r) {
		return answer, status.Errorf(codes.ResourceExhausted, "leader: %d %s wait already", q.most, q.what)
	}
	signal(l.intake.work)
	select {
	case answer = <-done:
		return answer, nil
	case <-ctx.Done():
		q.withdraw(r) // without effect if it is in an entry
		return answer, status.FromContextError(ctx.Err()).Err()
	case <-l.over:
	}
	if q.withdraw(r) {
		return answer, l.errOver()
	}
	select {
	case answer = <-done:
		return answer, nil
	default:
		return answer, status.Errorf(codes.Aborted, "leader: term %d ended before this was applied", l.cfg.Term)
	}
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
