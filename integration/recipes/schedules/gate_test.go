package schedules

import (
	"context"
	"sync"
	"time"
)

// gate stops goroutines while it is closed. The zero value is open. It is safe for concurrent use.
type gate struct {
	mu    sync.Mutex
	until time.Time // it is closed until then
}

// closeFor closes the gate for d, or for longer if it is closed already.
func (g *gate) closeFor(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until := time.Now().Add(d); until.After(g.until) {
		g.until = until
	}
}

// left returns for how long the gate stays closed.
func (g *gate) left() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Until(g.until)
}

// waitOpen waits until the gate is open, or until ctx or stop ends. It reports whether the gate is open.
func (g *gate) waitOpen(ctx context.Context, stop <-chan struct{}) bool {
	for left := g.left(); left > 0; left = g.left() {
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		}
	}
	return true
}

// sleepFor waits for d, or until ctx ends.
func sleepFor(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
