package follower

// fifo is a queue in a ring that doubles when it is full. The zero value is ready.
type fifo[T any] struct {
	ring []T // its length is a power of two
	head int
	n    int
}

func (q *fifo[T]) len() int { return q.n }

// at returns the i-th from the front; it stays where it is until it is popped or a push
// doubles the ring.
func (q *fifo[T]) at(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *fifo[T]) push(v T) {
	if q.n == len(q.ring) {
		ring := make([]T, max(4, 2*q.n))
		for i := range q.n {
			ring[i] = *q.at(i)
		}
		q.ring, q.head = ring, 0
	}
	q.n++
	*q.at(q.n - 1) = v
}

func (q *fifo[T]) pop() T {
	var none T
	v := *q.at(0)
	*q.at(0) = none
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}
