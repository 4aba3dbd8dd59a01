package session

// callQueue holds the requests in flight, the oldest first. The zero value is empty.
type callQueue struct {
	calls []call
	first int // calls before it have been popped
}

func (q *callQueue) count() int { return len(q.calls) - q.first }

func (q *callQueue) oldest() *call { return &q.calls[q.first] }

// push adds a call at the end. Popped calls are moved out of the way when they fill half of the memory, so each
// call is copied at most twice.
func (q *callQueue) push(next call) {
	if len(q.calls) == cap(q.calls) && q.first >= (len(q.calls)+1)/2 {
		n := copy(q.calls, q.calls[q.first:])
		clear(q.calls[n:])
		q.calls, q.first = q.calls[:n], 0
	}
	q.calls = append(q.calls, next)
}

// pop removes the oldest call. There must be one.
func (q *callQueue) pop() call {
	oldest := q.calls[q.first]
	q.calls[q.first] = call{} // so that nothing is kept alive
	if q.first++; q.first == len(q.calls) {
		q.calls, q.first = q.calls[:0], 0
	}
	return oldest
}
