package follower

import (
	"time"

	"rollcall/internal/fifo"
)

// inFlight holds the numbered writes that are not applied here, in order of their numbers. The outbox's lock
// guards it.
type inFlight struct {
	maxWrites, maxBytes int

	queue  fifo.Queue[request] // last-len+1 … last
	last   uint64              // number given last
	cursor uint64              // number that the link sends next, from queue or a new one
	bytes  int
	heavy  int    // weight of the heavy ones among them
	rest   rest   // of the long ones
	resent uint64 // how many were sent again, for the metric
}

// oldest returns the number of the oldest write, or the next number to be given if there is none.
func (f *inFlight) oldest() uint64 { return f.last - uint64(f.queue.Len()) + 1 }

// has reports whether there is a write and the oldest one has this number.
func (f *inFlight) has(seq uint64) bool { return f.queue.Len() > 0 && f.oldest() == seq }

// full reports whether no further write may be sent.
func (f *inFlight) full() bool { return f.queue.Len() >= f.maxWrites || f.bytes >= f.maxBytes }

// sendable returns the number of classes that may send a write, from the lightest on.
func (f *inFlight) sendable(now time.Time) int {
	switch {
	case f.heavy >= maxHeavy:
		return 1
	case f.rest.needed(now):
		return longClass
	}
	return numClasses
}

// push gives a write the next number, at now by the outbox's clock.
func (f *inFlight) push(r request, now time.Time) {
	f.last++
	r.txn.Seq = f.last
	r.sent = now
	f.bytes += r.size
	if r.heavy() {
		f.heavy += r.weight
	}
	if r.long {
		f.rest.sent++
	}
	f.queue.Push(r)
}

// next returns the oldest write that this link has not sent, and counts it as sent. It returns nil if there is none.
func (f *inFlight) next() *request {
	first := f.oldest()
	f.cursor = max(f.cursor, first) // those before first have been applied meanwhile
	if f.cursor > f.last {
		return nil
	}
	r := f.queue.At(int(f.cursor - first))
	f.cursor++
	return r
}

// rewind makes next begin with the oldest write.
func (f *inFlight) rewind() { f.cursor = 0 }

// pop removes and returns the oldest write.
func (f *inFlight) pop() request {
	r := f.queue.Pop()
	f.bytes -= r.size
	if r.heavy() {
		f.heavy -= r.weight
	}
	return r
}
