package server

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"rollcall/zk/jute"
)

// RequestThrottle configures ZooKeeper's throttle of requests, which bounds the requests of all clients that wait for the log. Further ones
// wait for their turn, first come, first served, except pings, logins and closes. In every field, 0 means the default.
type RequestThrottle struct {
	MaxRequests int           // under way; 0: no throttle
	StallTime   time.Duration // after which a waiting request is looked at again; default 100 ms
	// KeepStale submits also the requests of a client that has closed its connection, and those that are too old.
	KeepStale bool
	// LatencyCheck closes the connection of a request that has waited longer than its session's timeout.
	LatencyCheck bool
	// NoConnectionCheck submits also the requests of a client that has closed its connection.
	NoConnectionCheck bool
	// OpWait is the wait after which a request gets jute.ThrottledOp in place of being served; 0: none does.
	OpWait time.Duration
}

// DefaultStallTime is ZooKeeper's.
const DefaultStallTime = 100 * time.Millisecond

func (t *RequestThrottle) setDefaultsAndCheck() error {
	if t.StallTime == 0 {
		t.StallTime = DefaultStallTime
	}
	if t.MaxRequests < 0 || t.StallTime < 0 || t.OpWait < 0 {
		return errors.New("server: a number of the throttle of requests is negative")
	}
	return nil
}

// requestThrottle applies a RequestThrottle. A nil one admits everything.
//
// ZooKeeper counts the requests of its pipeline. Here these are the requests that go through the log or wait for a proof: every other one is
// served when it is read, or waits for its own connection alone, and a client that takes no replies must not stop others.
//
// While a request is handed to its handler, it has a place. The handler gives it another one if it goes to the log (request.enqueue). A
// request that Held.Wait ends early, because its client has sent too much ahead, has a place beyond MaxRequests.
type requestThrottle struct {
	cfg RequestThrottle

	throttled atomic.Uint64 // requests that got ThrottledOp

	mu        sync.Mutex
	inProcess int
	waiting   list.List // of *heldRequest, in their order
}

var _ holdCause = (*requestThrottle)(nil)

func newRequestThrottle(cfg RequestThrottle) *requestThrottle {
	if cfg.MaxRequests == 0 {
		return nil
	}
	return &requestThrottle{cfg: cfg}
}

// tryEnter takes a place for a request, if there is one and none waits for it.
func (t *requestThrottle) tryEnter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting.Len() > 0 || t.inProcess >= t.cfg.MaxRequests {
		return false
	}
	t.inProcess++
	return true
}

// add counts a request that goes to the log.
func (t *requestThrottle) add() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inProcess++
}

// leave gives places back. It never blocks, and may be called with the tree's lock and those of connections.
func (t *requestThrottle) leave(n int) {
	if t == nil || n == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inProcess -= n
	t.admitWaiting()
}

// leaveIfInProcess gives the place of a request back that went to the log and has no result yet. The caller holds its connection's lock.
func (t *requestThrottle) leaveIfInProcess(r *request) {
	if t != nil && r.kind.waitsForOthers() && r.progress == waiting {
		t.leave(1)
	}
}

// awaitLateReads is conn.awaitLateReads that gives the place of the request back meanwhile, if it has one: a client that takes no replies must
// not stop others. Afterwards the request is beyond the throttle's limit if others have filled it, one of each connection at most.
func (t *requestThrottle) awaitLateReads(c *conn) bool {
	if !c.holdsPlace {
		return c.awaitLateReads()
	}
	c.stream.Lock()
	defer c.stream.Unlock()
	gaveBack := false
	more := c.stream.WaitWhile(func() bool {
		late := c.replies.queue.hasLateReads()
		if late && !gaveBack {
			gaveBack = true
			t.leave(1)
		}
		return late
	})
	if gaveBack {
		t.add()
	}
	return more
}

// admitWaiting gives free places to the first requests that wait. The caller holds the lock.
func (t *requestThrottle) admitWaiting() {
	for first := t.waiting.Front(); first != nil && t.inProcess < t.cfg.MaxRequests; first = t.waiting.Front() {
		h := t.waiting.Remove(first).(*heldRequest)
		t.inProcess++
		h.granted, h.place = true, nil
		h.wake()
	}
}

func (t *requestThrottle) wait(h *heldRequest, now time.Time) (d time.Duration, stale bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.place == nil && !h.granted {
		h.place = t.waiting.PushBack(h)
		t.admitWaiting()
	}
	switch {
	case h.granted:
		return 0, false
	case t.cfg.LatencyCheck && !t.cfg.KeepStale && now.Sub(h.heldAt) > h.c.stream.Life.Timeout():
		return 0, true
	}
	return t.cfg.StallTime, false
}

// throttledOps returns the number of requests that got ThrottledOp.
func (t *requestThrottle) throttledOps() uint64 {
	if t == nil {
		return 0
	}
	return t.throttled.Load()
}

func (t *requestThrottle) mayOutliveClient() bool { return t.cfg.KeepStale || t.cfg.NoConnectionCheck }

func (t *requestThrottle) over(h *heldRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.place != nil {
		t.waiting.Remove(h.place)
		h.place = nil
	}
}

func (t *requestThrottle) abandon(h *heldRequest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.granted {
		t.inProcess--
		t.admitWaiting()
	}
}

func (t *requestThrottle) serve(h *heldRequest, r *request) (more bool) {
	if !h.granted { // over came before, so nobody grants it a place now
		t.add()
	}
	if t.cfg.OpWait > 0 && r.times.receivedAt.Sub(h.heldAt) > t.cfg.OpWait {
		defer t.leave(1)
		t.throttled.Add(1)
		r.code = jute.ThrottledOp
		return r.replyLocally()
	}
	return t.handle(r)
}

// handle handles a request that has a place.
func (t *requestThrottle) handle(r *request) (more bool) {
	c := r.c
	c.holdsPlace = true
	defer func() {
		c.holdsPlace = false
		t.leave(1)
	}()
	return r.handle()
}
