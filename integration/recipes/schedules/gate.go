package schedules

import (
	"context"
	"sync"
	"time"
)

// gate stops goroutines while it is closed. The zero value is open. It is safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // closed when the gate opens; nil while it is open
	until  time.Time     // the gate opens then
}

// closeFor closes the gate for d, or for longer if it is closed already.
func (g *gate) closeFor(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	until := time.Now().Add(d)
	if g.opened == nil {
		g.opened, g.until = make(chan struct{}), until
		time.AfterFunc(d, g.open)
	} else if until.After(g.until) {
		g.until = until
	}
}

// open opens the gate if its time has come.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if left := time.Until(g.until); left > 0 {
		time.AfterFunc(left, g.open)
		return
	}
	close(g.opened)
	g.opened = nil
}

// waitOpen waits until the gate is open, or until ctx or stop ends. It reports whether the gate is open.
func (g *gate) waitOpen(ctx context.Context, stop <-chan struct{}) bool {
	for {
		g.mu.Lock()
		opened := g.opened
		g.mu.Unlock()
		if opened == nil {
			return true
		}
		select {
		case <-opened:
		case <-ctx.Done():
			return false
		case <-stop:
			return false
		}
	}
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
