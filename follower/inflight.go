package follower

import (
	"time"

	"rollcall/internal/fifo"
)

// inFlight holds the numbered writes that are not applied here, in order of their numbers. The outbox's lock
// guards it.
type inFlight struct {
	maxWrites, maxBytes int

	writes      fifo.Queue[queuedWrite] // last-len+1 … last
	lastNumber  uint64                  // number given last
	nextToSend  uint64                  // number that the link sends next, from queue or a new one
	totalBytes  int
	heavyWeight int            // weight of the heavy ones among them
	longWrites  longWritePause // of the long ones
	resentCount uint64         // how many were sent again, for the metric
}

// oldestNumber returns the number of the oldest write, or the next number to be given if there is none.
func (f *inFlight) oldestNumber() uint64 { return f.lastNumber - uint64(f.writes.Len()) + 1 }

// isOldest reports whether there is a write and the oldest one has this number.
func (f *inFlight) isOldest(seq uint64) bool { return f.writes.Len() > 0 && f.oldestNumber() == seq }

// isFull reports whether no further write may be sent.
func (f *inFlight) isFull() bool { return f.writes.Len() >= f.maxWrites || f.totalBytes >= f.maxBytes }

// sendableClasses returns the number of classes that may send a write, from the lightest on.
func (f *inFlight) sendableClasses(now time.Time) int {
	switch {
	case f.heavyWeight >= maxHeavy:
		return 1
	case f.longWrites.inProgress(now):
		return longClass
	}
	return numClasses
}

// pushNumbered gives a write the next number, at now by the outbox's clock.
func (f *inFlight) pushNumbered(r queuedWrite, now time.Time) {
	f.lastNumber++
	r.txn.Seq = f.lastNumber
	r.firstSent = now
	f.totalBytes += r.size
	if r.isHeavy() {
		f.heavyWeight += r.weight
	}
	if r.isLong {
		f.longWrites.inFlight++
	}
	f.writes.Push(r)
}

// nextUnsent returns the oldest write that this link has not sent, and counts it as sent. It returns nil if there is none.
func (f *inFlight) nextUnsent() *queuedWrite {
	first := f.oldestNumber()
	f.nextToSend = max(f.nextToSend, first) // those before first have been applied meanwhile
	if f.nextToSend > f.lastNumber {
		return nil
	}
	r := f.writes.At(int(f.nextToSend - first))
	f.nextToSend++
	return r
}

// rewind makes next begin with the oldest write.
func (f *inFlight) rewind() { f.nextToSend = 0 }

// popOldest removes and returns the oldest write.
func (f *inFlight) popOldest() queuedWrite {
	r := f.writes.Pop()
	f.totalBytes -= r.size
	if r.isHeavy() {
		f.heavyWeight -= r.weight
	}
	return r
}
