package wire

import (
	"sync"

	"github.com/hashicorp/raft"

	"rollcall/internal/fifo"
	"rollcall/quorum/disk"
)

// maxInFlightBytes limits the memory of the requests in flight to a follower, without those that have no reply: their
// entries, and disk.QueuedCallOverhead for each. A follower acknowledges entries when they are settled, and gets further
// ones meanwhile.
const maxInFlightBytes = 32 << 20

// inFlight are the requests of a pipeline that wait for a reply, in order. One goroutine adds them, and one removes them.
type inFlight struct {
	added   chan struct{} // capacity 1
	removed chan struct{} // capacity 1
	closed  <-chan struct{}
	// limitReply is called with mu when another request has become the oldest one, or when none is left: then with nil.
	limitReply func(oldest *appendFuture)

	mu       sync.Mutex
	requests fifo.Queue[*appendFuture]
	bytes    int64 // of their memory
}

func newInFlight(limitReply func(oldest *appendFuture), closed <-chan struct{}) *inFlight {
	return &inFlight{added: make(chan struct{}, 1), removed: make(chan struct{}, 1), closed: closed, limitReply: limitReply}
}

// addAndAwaitRoom adds a request that was sent, and waits until there is room for the next one. It returns an error if the
// pipeline was closed.
func (f *inFlight) addAndAwaitRoom(a *appendFuture) error {
	f.mu.Lock()
	f.requests.Push(a)
	f.bytes += a.memory()
	if f.requests.Len() == 1 {
		f.limitReply(a)
	}
	f.mu.Unlock()
	signal(f.added)
	for f.isFull() {
		select {
		case <-f.removed:
		case <-f.closed:
			return raft.ErrPipelineShutdown
		}
	}
	return nil
}

func (f *inFlight) isFull() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes >= maxInFlightBytes
}

// oldest waits for a request and returns the oldest one, which stays in flight, or nil if the pipeline was closed.
func (f *inFlight) oldest() *appendFuture {
	for {
		f.mu.Lock()
		if f.requests.Len() > 0 {
			defer f.mu.Unlock()
			return *f.requests.At(0)
		}
		f.mu.Unlock()
		select {
		case <-f.added:
		case <-f.closed:
			return nil
		}
	}
}

// removeOldest removes the oldest request, which was replied to.
func (f *inFlight) removeOldest() {
	f.mu.Lock()
	f.bytes -= f.requests.Pop().memory()
	var next *appendFuture
	if f.requests.Len() > 0 {
		next = *f.requests.At(0)
	}
	f.limitReply(next)
	f.mu.Unlock()
	signal(f.removed)
}

// memory returns the bytes that a request takes while it is in flight.
func (a *appendFuture) memory() int64 {
	return int64(entriesBytes(a.req.Entries)) + disk.QueuedCallOverhead
}

// signal wakes the goroutine that reads from c, whose capacity is 1. It never waits.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
