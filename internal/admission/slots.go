package admission

import (
	"context"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

const (
	// handshakesPerProcessor is the number of TLS handshakes that may compute at the same time. Signing takes
	// all of a processor, so more of them would only delay connected clients.
	handshakesPerProcessor = 1
	// MaxSessionCreates is the number of clients whose new session may be on its way through the log. More of
	// them wait for a slot, first come, first served. A client that goes away gives its slot to the next one,
	// although its create may be in the log. A session that this member does not know counts as new. The work
	// for new sessions competes with everything else: the writes of other clients, the pings of the leader,
	// and raft's heartbeats.
	//
	// It was measured with 2,000 and 5,000 clients that did nothing but open sessions of the leader, on two
	// processors for all members and clients. Without this bound, the writes of other clients took 58 and 83
	// ms at p50, and 188 and 577 ms at p99. With it they took 12 and 10 ms, and 37 and 49 ms. As many
	// sessions were opened, about 14,000 a second. With 32 in place of 128, others gained a few ms, and a
	// third fewer sessions were opened.
	MaxSessionCreates = 128
)

// Slots limits concurrent work. Safe for concurrent use.
type Slots struct {
	limit     int
	semaphore *semaphore.Weighted
	numTaken  atomic.Int64
}

func newSlots(n int) *Slots { return &Slots{limit: n, semaphore: semaphore.NewWeighted(int64(n))} }

// NewHandshakeCPUSlots returns slots for TLS handshakes that compute.
func NewHandshakeCPUSlots() *Slots { return newSlots(handshakesPerProcessor * runtime.GOMAXPROCS(0)) }

// NewCreateSlots returns slots for clients that wait for a new session.
func NewCreateSlots() *Slots { return newSlots(MaxSessionCreates) }

// TryTake takes a slot if one is free and no caller of Take waits.
func (s *Slots) TryTake() bool {
	if !s.semaphore.TryAcquire(1) {
		return false
	}
	s.numTaken.Add(1)
	return true
}

// Take waits for a slot, and returns the error of ctx if that ends first.
func (s *Slots) Take(ctx context.Context) error {
	if err := s.semaphore.Acquire(ctx, 1); err != nil {
		return err
	}
	s.numTaken.Add(1)
	return nil
}

// Release gives a slot back. It never blocks.
func (s *Slots) Release() {
	s.numTaken.Add(-1)
	s.semaphore.Release(1)
}

// Limit returns the number of slots.
func (s *Slots) Limit() int { return s.limit }

// Taken returns the number of slots that are taken.
func (s *Slots) Taken() int { return int(s.numTaken.Load()) }
