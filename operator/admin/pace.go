package admin

import (
	"bytes"
	"iter"
	"net/http"
	"sync/atomic"
	"time"
)

const (
	// restShare is the ratio of a rest to the time that the part before it took to make, for each of the replies that are
	// being made. So all replies together take at most a quarter of a processor from the clients.
	restShare = 4
	// minRest is the shortest rest: other goroutines that are ready get their turn.
	minRest = time.Millisecond
	// maxRest bounds a rest: a part may have taken long because its reader is slow or the machine is busy.
	maxRest = 50 * time.Millisecond
	// maxEntry bounds the rest before an answer.
	maxEntry = time.Second
	// itemsPerRest is the number of rows that a reply collects or counts before it rests: about a millisecond's work.
	itemsPerRest = 512
	// longTime limits a long reply of a command. One of 100,000 sessions takes half a minute while three
	// others are made.
	longTime = 3 * time.Minute
)

// pace makes long answers give way to clients: they are made in parts, with rests. All answers of a member that share one make
// their rests longer together. The zero value is ready. It is safe for concurrent use.
type pace struct {
	active atomic.Int32 // answers that are being made
}

// pacedReply is one answer under a pace. A nil one never rests. It is for one goroutine.
type pacedReply struct {
	pace  *pace
	begun time.Time // of the part
	bytes int       // of the part
}

// enter begins an answer, after a rest for each that is being made: many short answers take as much as a long one.
func (p *pace) enter() *pacedReply {
	active := p.active.Add(1)
	time.Sleep(min(time.Duration(active)*pagePause, maxEntry))
	return &pacedReply{pace: p, begun: time.Now()}
}

func (w *pacedReply) leave() { w.pace.active.Add(-1) }

// wrote notes bytes of the answer. It rests after each part of partSize.
func (w *pacedReply) wrote(n int) {
	if w == nil {
		return
	}
	if w.bytes += n; w.bytes >= partSize {
		w.giveWay()
	}
}

// giveWay rests.
func (w *pacedReply) giveWay() {
	time.Sleep(w.pace.restFor(time.Since(w.begun)))
	w.begun, w.bytes = time.Now(), 0
}

// restFor returns the rest of a reply after a part that took so long.
func (p *pace) restFor(took time.Duration) time.Duration {
	return min(max(restShare*time.Duration(max(p.active.Load(), 1))*took, minRest), maxRest)
}

// walk yields what all yields, with rests.
func walk[T any](w *pacedReply, all iter.Seq[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		n := 0
		for one := range all {
			if n++; w != nil && n%itemsPerRest == 0 {
				w.giveWay()
			}
			if !yield(one) {
				return
			}
		}
	}
}

// walkPairs does the same for pairs.
func walkPairs[K, V any](w *pacedReply, all iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		n := 0
		for k, v := range all {
			if n++; w != nil && n%itemsPerRest == 0 {
				w.giveWay()
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
	if h.authorizer.role(r) > roleNone {
		e.serve(w, r)
		return
	}
	over := time.NewTimer(placeTime)
	defer over.Stop()
	select {
	case h.figuresTurn <- struct{}{}:
	case <-over.C:
		(&Failure{Status: http.StatusServiceUnavailable, Text: "too many others ask for this without credentials; try again"}).write(w, r)
		return
	case <-r.Context().Done():
		return
	}
	kept := keptAnswer{header: w.Header()}
	h.takeTurn(func() { e.serve(&kept, r) })
	if kept.status != 0 {
		w.WriteHeader(kept.status)
	}
	_, _ = w.Write(kept.body.Bytes()) // a client that left needs no answer
}

// takeTurn does something for the caller who has the turn, and gives it back after a rest.
func (h *HTTP) takeTurn(do func()) {
	begun := time.Now()
	defer func() {
		time.AfterFunc(min(max(restShare*time.Since(begun), pagePause), maxRest), func() { <-h.figuresTurn })
	}()
	do()
}

// keptAnswer is an answer that is sent later.
type keptAnswer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (k *keptAnswer) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *keptAnswer) WriteHeader(status int) { k.status = status }

// Write implements http.ResponseWriter.
func (k *keptAnswer) Write(b []byte) (int, error) { return k.body.Write(b) }
