package admin

import (
	"bytes"
	"iter"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// pauseRatio is the ratio of a rest to the time that the part before it took to make, for each of the replies that are
	// being made. So all replies together take at most a quarter of a processor from the clients.
	pauseRatio = 4
	// minPause is the shortest rest: other goroutines that are ready get their turn.
	minPause = time.Millisecond
	// maxPause bounds a rest: a part may have taken long because its reader is slow or the machine is busy.
	maxPause = 50 * time.Millisecond
	// maxStartDelay bounds the rest before an answer.
	maxStartDelay = time.Second
	// itemsPerPause is the number of rows that a reply collects or counts before it rests: about a millisecond's work.
	itemsPerPause = 512
	// longReplyTimeout limits a long reply of a command. One of 100,000 sessions takes half a minute while three
	// others are made.
	longReplyTimeout = 3 * time.Minute
)

// replyPacer makes long answers give way to clients: they are made in parts, with rests. All answers of a member that share one make
// their rests longer together. The zero value is ready. It is safe for concurrent use.
type replyPacer struct {
	activeReplies atomic.Int32 // answers that are being made
}

// pacedReply is one answer under a pace. A nil one never rests. It is for one goroutine.
type pacedReply struct {
	pacer       *replyPacer
	partStarted time.Time // of the part
	partBytes   int       // of the part
}

// begin begins an answer, after a rest for each that is being made: many short answers take as much as a long one.
func (p *replyPacer) begin() *pacedReply {
	active := p.activeReplies.Add(1)
	time.Sleep(min(time.Duration(active)*pagePause, maxStartDelay))
	return &pacedReply{pacer: p, partStarted: time.Now()}
}

func (w *pacedReply) end() { w.pacer.activeReplies.Add(-1) }

// countBytes notes bytes of the answer. It rests after each part of partSize.
func (w *pacedReply) countBytes(n int) {
	if w == nil {
		return
	}
	if w.partBytes += n; w.partBytes >= partSize {
		w.pause()
	}
}

// pause rests.
func (w *pacedReply) pause() {
	time.Sleep(w.pacer.pauseAfter(time.Since(w.partStarted)))
	w.partStarted, w.partBytes = time.Now(), 0
}

// pauseAfter returns the rest of a reply after a part that took so long.
func (p *replyPacer) pauseAfter(took time.Duration) time.Duration {
	return min(max(pauseRatio*time.Duration(max(p.activeReplies.Load(), 1))*took, minPause), maxPause)
}

// paced yields what all yields, with rests.
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

// pacedPairs does the same for pairs.
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

// serveInTurn lets an endpoint with figures answer: one after the other, each followed by a rest, unless the caller has
// credentials. The answer is sent after that, so that a slow reader keeps no turn.
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
		(&Failure{Status: http.StatusServiceUnavailable, Text: "too many others ask for this without credentials; try again"}).write(w, r)
		return
	case <-r.Context().Done():
		return
	}
	kept := bufferedReply{header: w.Header()}
	h.runThenPause(func() { e.serve(&kept, r) })
	if kept.status != 0 {
		w.WriteHeader(kept.status)
	}
	_, _ = w.Write(kept.body.Bytes()) // a client that left needs no answer
}

// runThenPause does something for the caller who has the turn, and gives it back after a rest.
func (h *HTTP) runThenPause(do func()) {
	begun := time.Now()
	defer func() {
		time.AfterFunc(min(max(pauseRatio*time.Since(begun), pagePause), maxPause), func() { <-h.metricsTurn })
	}()
	do()
}

// bufferedReply is an answer that is sent later.
type bufferedReply struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *bufferedReply) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *bufferedReply) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *bufferedReply) Write(b []byte) (int, error) { return k.body.Write(b) }
