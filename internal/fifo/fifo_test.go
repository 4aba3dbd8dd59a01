package fifo

import "testing"

// A queue returns its elements in the order in which they were pushed, wherever in the ring it
// begins.
func TestQueue(t *testing.T) {
	for lead := range 2 * minRingSize { // how many elements are pushed and popped first, which moves the start of the queue
		var q Queue[*int]
		for range lead {
			q.Push(new(int))
			q.Pop()
		}
		want := make([]*int, 5*minRingSize)
		for i := range want {
			want[i] = new(int)
			q.Push(want[i])
			if q.Len() != i+1 || *q.At(i) != want[i] || *q.At(0) != want[0] {
				t.Fatalf("after %d: %d elements, the first %p, want %p", i+1, q.Len(), *q.At(0), want[0])
			}
		}
		for i := range want {
			if got := q.Pop(); got != want[i] || q.Len() != len(want)-i-1 {
				t.Fatalf("element %d is %p of %d, want %p", i, got, q.Len(), want[i])
			}
		}
	}
}

// A queue does not keep popped elements alive. While it has room, a push allocates no memory.
func TestQueueKeepsNothing(t *testing.T) {
	var q Queue[*int]
	q.Push(new(int))
	q.Pop()
	for i := range q.Cap() {
		if *q.At(i) != nil {
			t.Errorf("place %d of the ring still holds a popped element", i)
		}
	}
	one := new(int)
	if n := testing.AllocsPerRun(100, func() { q.Push(one); q.Pop() }); n > 0 {
		t.Errorf("%v allocations per element", n)
	}
}
