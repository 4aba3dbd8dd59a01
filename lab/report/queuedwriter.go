package report

import (
	"io"
	"sync"
	"time"
)

// maxQueuedText limits the text, in bytes, that waits for a terminal. It is some hundred screens.
const maxQueuedText = 256 << 10

// queuedTextTime bounds Close's wait for the terminal to take the rest.
const queuedTextTime = time.Second

// QueuedWriter passes text on to a writer that may take none for a while, as a terminal does after Ctrl-S. A drill that
// waited for its display would not heal what it broke. Write never waits and never fails: text beyond 256 KiB that
// waits is lost, a whole Write at a time. It is safe for concurrent use.
type QueuedWriter struct {
	out   io.Writer
	ended chan struct{} // the goroutine has ended

	mu     sync.Mutex
	wake   sync.Cond // for queue and closed
	queue  [][]byte
	bytes  int // of queue
	closed bool
}

// NewQueuedWriter returns a QueuedWriter for out, with a goroutine that ends after Close, when out takes what is left.
func NewQueuedWriter(out io.Writer) *QueuedWriter {
	q := &QueuedWriter{out: out, ended: make(chan struct{})}
	q.wake.L = &q.mu
	go q.passOn()
	return q
}

// Write queues p. It returns len(p) and no error, also if p is lost because too much waits, or because q is closed.
func (q *QueuedWriter) Write(p []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && q.bytes+len(p) <= maxQueuedText {
		q.queue = append(q.queue, append([]byte(nil), p...))
		q.bytes += len(p)
		q.wake.Signal()
	}
	return len(p), nil
}

// passOn writes what is queued until q is closed and the queue is empty.
func (q *QueuedWriter) passOn() {
	defer close(q.ended)
	for {
		q.mu.Lock()
		for len(q.queue) == 0 && !q.closed {
			q.wake.Wait()
		}
		if len(q.queue) == 0 {
			q.mu.Unlock()
			return
		}
		next := q.queue[0]
		q.queue = q.queue[1:]
		q.mu.Unlock()
		_, _ = q.out.Write(next) // a display that is gone is no reason to end a drill
		q.mu.Lock()
		q.bytes -= len(next)
		q.mu.Unlock()
	}
}

// Close waits until all that is queued is written, for at most a second. Later text is lost.
func (q *QueuedWriter) Close() {
	q.mu.Lock()
	q.closed = true
	q.wake.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(queuedTextTime):
	}
}
