package admin

import (
	"bytes"
	"context"
	"iter"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// pauseRatio is the ratio of a pause to the time that the part before it took, for each of the replies under
	// way. So all replies together take at most a quarter of a processor from the clients.
	pauseRatio = 4
	// minPause lets other goroutines run.
	minPause = time.Millisecond
	// maxPause bounds a pause: a part may have taken long because its reader is slow or the machine is busy.
	maxPause = 50 * time.Millisecond
	// maxStartDelay bounds the pause before a reply.
	maxStartDelay = time.Second
	// itemsPerPause is the number of rows between two pauses: about a millisecond's work.
	itemsPerPause = 512
	// longReplyTimeout limits a long reply of a command. One of 100,000 sessions takes half a minute beside
	// three others.
	longReplyTimeout = 3 * time.Minute
)

// replyPacer makes long replies give way to clients: they pause after each part, for longer while there are
// several. The zero value is ready. It is safe for concurrent use.
type replyPacer struct {
	activeReplies atomic.Int32
}

// pacedReply is one reply of a replyPacer. A nil one never pauses. It is for one goroutine.
type pacedReply struct {
	pacer       *replyPacer
	partStarted time.Time
	partBytes   int
}

// beginAfterPause starts a reply, after a pause for each that is under way: many short replies cost as much as
// a long one.
func (p *replyPacer) beginAfterPause() *pacedReply {
	active := p.activeReplies.Add(1)
	time.Sleep(min(time.Duration(active)*pagePause, maxStartDelay))
	return &pacedReply{pacer: p, partStarted: time.Now()}
}

func (w *pacedReply) end() { w.pacer.activeReplies.Add(-1) }

// pauseAfterBytes adds n bytes, and pauses after each partSize.
func (w *pacedReply) pauseAfterBytes(n int) {
	if w == nil {
		return
	}
	if w.partBytes += n; w.partBytes >= partSize {
		w.pause()
	}
}

func (w *pacedReply) pause() {
	time.Sleep(w.pacer.pauseLength(time.Since(w.partStarted)))
	w.partStarted, w.partBytes = time.Now(), 0
}

// pauseLength returns the pause after a part that took so long.
func (p *replyPacer) pauseLength(took time.Duration) time.Duration {
	return min(max(pauseRatio*time.Duration(max(p.activeReplies.Load(), 1))*took, minPause), maxPause)
}

// paced yields all, with pauses.
func paced[T any](w *pacedReply, all iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		n := 0
		for one := range all {
			if n++; w != nil && n%itemsPerPause == 0 {
				w.pause()
			}
			if !yield(one) {
				return
			}
		}
	}
}

// pacedPairs yields all, with pauses.
func pacedPairs[K, V any](w *pacedReply, all iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		n := 0
		for k, v := range all {
			if n++; w != nil && n%itemsPerPause == 0 {
				w.pause()
			}
			if !yield(k, v) {
				return
			}
		}
	}
}

// serveInTurn serves callers without credentials one at a time, each followed by a pause. It sends the reply
// afterwards, so that a slow reader does not delay others.
func (h *HTTP) serveInTurn(e *endpoint, w http.ResponseWriter, r *http.Request) {
	if h.authorizer.roleOf(r) > roleNone {
		e.serve(w, r)
		return
	}
	over := time.NewTimer(slotTimeout)
	defer over.Stop()
	select {
	case h.metricsTurn <- struct{}{}:
	case <-over.C:
		(&Failure{Status: http.StatusServiceUnavailable, Text: "too many callers without credentials; try again"}).write(w, r)
		return
	case <-r.Context().Done():
		return
	}
	kept := bufferedReply{header: w.Header()}
	h.runAndReleaseTurn(func() { e.serve(&kept, r) })
	if kept.status != 0 {
		w.WriteHeader(kept.status)
	}
	_, _ = w.Write(kept.body.Bytes()) // a client that left needs no reply
}

// runAndReleaseTurn calls do for the holder of metricsTurn, and frees it after a pause.
func (h *HTTP) runAndReleaseTurn(do func()) {
	begun := time.Now()
	defer func() {
		time.AfterFunc(min(max(pauseRatio*time.Since(begun), pagePause), maxPause), func() { <-h.metricsTurn })
	}()
	do()
}

// bufferedReply is a reply that is sent later.
type bufferedReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (k *bufferedReply) Header() http.Header { return k.header }

func (k *bufferedReply) WriteHeader(status int) { k.status = status }

func (k *bufferedReply) Write(b []byte) (int, error) { return k.body.Write(b) }

// longReplyLimiter limits concurrent long replies.
type longReplyLimiter struct {
	longReplies chan struct{} // capacity maxLongReplies: outside /v1/
	pages       chan struct{} // capacity maxPages: under /v1/
	// capacity maxPages: likewise for administrators, so that readers cannot lock them out
	administratorPages chan struct{}
}

// sleepContext waits for d, or until ctx ends.
func sleepContext(ctx context.Context, d time.Duration) {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
	case <-ctx.Done():
	}
}

// acquire takes a place for a long reply, and returns the function that frees it, or nil if there is no place.
func (p *longReplyLimiter) acquire(e *endpoint, r *http.Request) (leave func()) {
	kind, patience := p.longReplies, time.Duration(0)
	if e.replyJSON != nil {
		kind, patience = p.pages, slotTimeout
		if e.access.forAdministrators() {
			kind = p.administratorPages
		}
	}
	select {
	case kind <- struct{}{}:
		return func() { <-kind }
	default:
	}
	over := time.NewTimer(patience)
	defer over.Stop()
	select {
	case kind <- struct{}{}:
		return func() { <-kind }
	case <-over.C:
	case <-r.Context().Done():
	}
	return nil
}
