// Package fifo is a first-in, first-out queue of any elements, in a ring buffer. It allocates only
// when it grows, while container/list allocates for every element. It does not shrink. It is not
// safe for concurrent use.
package fifo

// Queue is a queue in a ring buffer, which doubles when it is full. The zero value is ready.
type Queue[T any] struct {
	ring []T // its length is a power of two
	head int
	n    int
}

// minRingSize is the length of the first ring.
const minRingSize = 4

// Len returns the number of elements in the queue.
func (q *Queue[T]) Len() int { return q.n }

// Cap returns the number of elements that the ring has room for.
func (q *Queue[T]) Cap() int { return len(q.ring) }

// At returns the i-th element from the front. The pointer is valid until the element is popped or a
// push doubles the ring.
func (q *Queue[T]) At(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

// Push adds an element at the end.
func (q *Queue[T]) Push(v T) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.n++
	*q.At(q.n - 1) = v
}

func (q *Queue[T]) grow() {
	grown := make([]T, max(minRingSize, 2*len(q.ring)))
	copy(grown[copy(grown, q.ring[q.head:]):], q.ring[:q.head])
	q.ring, q.head = grown, 0
}

// Pop removes and returns the first element. The queue must not be empty.
func (q *Queue[T]) Pop() T {
	var none T
	v := *q.At(0)
	*q.At(0) = none // so that the ring keeps nothing alive
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return v
}
