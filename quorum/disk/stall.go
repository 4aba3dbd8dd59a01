package disk

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

var errStalled = errors.New("quorum: a store or the state machine hangs")

// operations holds the operations of the stores and of the state machine that are in progress. A disk may hang
// without an error. Then raft's main loop hangs or applies nothing more, but heartbeats continue, and a leader
// would never be replaced. The zero value has no limit. It is safe for concurrent use.
type operations struct {
	stallLimit time.Duration // 0: none

	mu       sync.Mutex
	lastID   uint64
	underWay map[uint64]operation
}

type operation struct {
	name      string
	startedAt time.Time
}

// begin records an operation. The caller must pass its result to finish.
func (o *operations) begin(name string) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.underWay == nil {
		o.underWay = map[uint64]operation{}
	}
	o.lastID++
	o.underWay[o.lastID] = operation{name, time.Now()}
	return o.lastID
}

func (o *operations) finish(n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.underWay, n)
}

// stallError returns an error that names the oldest operation if that has taken longer than the limit. Otherwise
// it returns nil.
func (o *operations) stallError() error {
	if o.stallLimit == 0 {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	var oldest operation
	for _, op := range o.underWay {
		if oldest.startedAt.IsZero() || op.startedAt.Before(oldest.startedAt) {
			oldest = op
		}
	}
	if oldest.startedAt.IsZero() || time.Since(oldest.startedAt) < o.stallLimit {
		return nil
	}
	return fmt.Errorf("%w: %s has taken %v", errStalled, oldest.name, time.Since(oldest.startedAt).Round(time.Millisecond))
}
