package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

var errStalled = errors.New("quorum: a store or the state machine hangs")

// operations holds the operations of the stores and of the state machine that are under way, with
// their start times. A disk may hang without an error. Then raft's main loop hangs with it, or
// applies nothing more, but heartbeats go on, and a leader would never be replaced. The zero value
// has no limit. It is safe for concurrent use.
type operations struct {
	limit time.Duration // 0: none

	mu    sync.Mutex
	last  uint64
	under map[uint64]operation
}

type operation struct {
	what  string
	begun time.Time
}

// begin records an operation. The caller must call finish with the number that it returns.
func (o *operations) begin(what string) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.under == nil {
		o.under = map[uint64]operation{}
	}
	o.last++
	o.under[o.last] = operation{what, time.Now()}
	return o.last
}

func (o *operations) finish(n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.under, n)
}

// stalled returns an error that names the oldest operation if that has taken longer than the limit.
// Otherwise it returns nil.
func (o *operations) stalled() error {
	if o.limit == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var oldest operation
	for _, op := range o.under {
		if oldest.begun.IsZero() || op.begun.Before(oldest.begun) {
			oldest = op
		}
	}
	if oldest.begun.IsZero() || time.Since(oldest.begun) < o.limit {
		return nil
	}
	return fmt.Errorf("%w: %s has taken %v", errStalled, oldest.what, time.Since(oldest.begun).Round(time.Millisecond))
}
