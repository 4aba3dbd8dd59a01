package stream

import (
	"context"
	"sync"
	"time"
)

// lifetime is a context that ends when end is called. Its channel is made for the first one who may wait, because most streams have nobody who
// does: a channel has 96 bytes.
type lifetime struct {
	mu   sync.Mutex
	done chan struct{} // nil: nobody has asked for it; over: it ended before anybody had
}

var _ context.Context = (*lifetime)(nil)

// over is the channel of each lifetime that has ended before anybody asked for its channel.
var over = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// end ends the context. It is called once.
func (l *lifetime) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = over
		return
	}
	close(l.done)
}

func (l *lifetime) Deadline() (time.Time, bool) { return time.Time{}, false }

func (l *lifetime) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
	}
	return l.done
}

func (l *lifetime) Value(any) any { return nil }

func (l *lifetime) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.done: // never if it is nil
		return context.Canceled
	default:
		return nil
	}
}

// change is a sync.Cond of a lock that the callers hold. It is made for the first one who waits.
type change struct{ cond *sync.Cond }

// await releases the lock, waits for the next Broadcast, and takes the lock again.
func (c *change) await(lock *sync.Mutex) {
	if c.cond == nil {
		c.cond = sync.NewCond(lock)
	}
	c.cond.Wait()
}

// Broadcast wakes all who wait.
func (c *change) Broadcast() {
	if c.cond != nil {
		c.cond.Broadcast()
	}
}
