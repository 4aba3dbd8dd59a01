package follower

import (
	"time"

	"rollcall/internal/fifo"
)

// inFlight holds the numbered writes that are not applied here, in order of their numbers. The outbox's lock
// guards it.
type inFlight struct {
	maxWrites, maxBytes int

	writes      fifo.Queue[queuedWrite] // numbers oldestNumber() to lastNumber
	lastNumber  uint64
	nextToSend  uint64 // number that the link sends next
	totalBytes  int
	heavyWeight int // of the heavy writes
	longWrites  longWritePause
	resentCount uint64
}

// oldestNumber returns the number of the oldest write, or the next number to be given if there is none.
func (f *inFlight) oldestNumber() uint64 { return f.lastNumber - uint64(f.writes.Len()) + 1 }

// isOldest reports whether the write numbered seq is the oldest one.
func (f *inFlight) isOldest(seq uint64) bool { return f.writes.Len() > 0 && f.oldestNumber() == seq }

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

// takeUnsent returns the oldest write that this link has not sent, or nil, and counts it as sent.
func (f *inFlight) takeUnsent() *queuedWrite {
	first := f.oldestNumber()
	f.nextToSend = max(f.nextToSend, first) // those before first have been applied meanwhile
	if f.nextToSend > f.lastNumber {
		return nil
	}
	r := f.writes.At(int(f.nextToSend - first))
	f.nextToSend++
	return r
}

// rewind makes takeUnsent begin with the oldest write.
func (f *inFlight) rewind() { f.nextToSend = 0 }

func (f *inFlight) popOldest() queuedWrite {
	r := f.writes.Pop()
	f.totalBytes -= r.size
	if r.isHeavy() {
		f.heavyWeight -= r.weight
	}
	return r
}
