package server

import (
	"container/list"
	"sync"
	"time"

	"rollcall/internal/metrics"
	"rollcall/server/stream"
	"rollcall/server/tenant"
	"rollcall/zk/jute"
)

// A request is held back by a cause: limits of tenants (tenancy.go), or ZooKeeper's throttle of requests (requestthrottle.go). A reader of the
// connection waits with it and reads no more than a little of what comes behind (stream.Hold). So a client is slowed by its own connection,
// and nothing else waits with it.

// heldShareDivisor divides a session's timeout into the longest wait of a request whose client has sent more than the server reads ahead. A
// ping may be behind that, so the session must not expire in this time.
const heldShareDivisor = 4

// holdCause decides how long requests are held.
type holdCause interface {
	// wait returns how much longer a request is held; 0 or less: not at all. stale reports that its connection is to be closed instead.
	wait(h *heldRequest, now time.Time) (d time.Duration, stale bool)
	// mayOutliveClient reports whether a request is served whose client has closed the connection.
	mayOutliveClient() bool
	// over is called when a request is not held any more. Then it is either served, or abandoned.
	over(h *heldRequest)
	serve(h *heldRequest, r *request) (more bool)
	abandon(h *heldRequest)
}

// holdKind is what a request was held for, as metrics show it.
type holdKind uint8

const (
	heldForRequests holdKind = iota // the rate of requests of a tenant
	heldForBytes                    // the rate of bytes of a tenant
	heldForThrottle                 // ZooKeeper's throttle of requests
	numHoldKinds
)

var holdKindNames = [numHoldKinds]string{heldForRequests: "requests", heldForBytes: "bytes", heldForThrottle: "request_throttle"}

// heldRequest is a request that a reader holds.
type heldRequest struct {
	c       *conn
	cause   holdCause
	kind    holdKind
	heldAt  time.Time
	dueAt   time.Time     // for tenants
	table   *tenant.Table // by which it is due
	woken   chan struct{}
	stale   bool          // its connection is closed
	granted bool          // it has a place; requestThrottle.mu guards it and the next one
	place   *list.Element // among those that wait for a place; nil: it does not wait

	mu     sync.Mutex // guards the rest; the last one of all locks
	waker  stream.Waker
	isOver bool
}

var _ stream.Held = (*heldRequest)(nil)

// Wait implements stream.Held.
func (h *heldRequest) Wait(aheadFull bool) time.Duration {
	now := time.Now()
	d, stale := h.cause.wait(h, now)
	if h.stale = stale; stale {
		return 0
	}
	if aheadFull {
		d = min(d, h.c.stream.Life.Timeout()/heldShareDivisor-now.Sub(h.heldAt))
	}
	return d
}

// Woken implements stream.Held.
func (h *heldRequest) Woken() <-chan struct{} { return h.woken }

// SeeAhead implements stream.Held. Pings are served at once: they keep the session alive, and the client's belief in this server. Their
// replies have no zxid, as in replies.mayPingOvertake.
func (h *heldRequest) SeeAhead(frame []byte) stream.Ahead {
	var header jute.RequestHeader
	d := jute.NewDecoder(frame)
	header.Decode(&d)
	switch {
	case d.Err() != nil:
		return stream.AheadWaits
	case header.Op == jute.OpCloseSession:
		return stream.AheadLast
	case header.Op != jute.OpPing:
		return stream.AheadWaits
	}
	c := h.c
	if !c.readOnly {
		c.srv.cfg.Member.Touch(c.session.id, c.stream.Life.Timeout())
	}
	c.lockWithTree()
	defer c.unlockWithTree()
	if c.stream.IsClosing() || c.stream.UnsentBytes() >= stream.HighWater {
		return stream.AheadWaits // for its reply; the session knows of it
	}
	c.srv.stats.received.Add(1)
	r := c.newRequest(header, d.Rest())
	r.noZxid = true
	c.replies.countRequest(len(r.body))
	c.replies.queueReply(r)
	return stream.AheadServed
}

// MayOutliveClient implements stream.Held.
func (h *heldRequest) MayOutliveClient() bool { return h.cause.mayOutliveClient() }

// Over implements stream.Held.
func (h *heldRequest) Over() {
	h.cause.over(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.isOver = true
}

// wake has Wait called again. It never blocks.
func (h *heldRequest) wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.isOver {
		return
	}
	select {
	case h.woken <- struct{}{}:
	default:
	}
	h.waker.Interrupt()
}

// hold serves the request once its cause lets it. It does not wait in a loop.
func (l limitedRequest) hold(h *heldRequest) bool {
	r, c := l.r, l.r.c
	h.c, h.heldAt, h.woken = c, r.times.receivedAt, make(chan struct{}, 1)
	return r.runInReader(func() (more bool) {
		h.waker = stream.WakerOf(&c.stream)
		c.srv.held.add(h)
		end := stream.Hold(&c.stream, h)
		c.srv.held.remove(h, time.Since(h.heldAt))
		if end != stream.HoldOver || h.stale {
			h.cause.abandon(h)
			if h.stale {
				c.stream.Drop(staleRequest)
			}
			return end == stream.HoldSkipped
		}
		r.times.receivedAt = time.Now() // the wait has a metric of its own, and is no slowness of this member
		more = h.cause.serve(h, r)
		c.flushLater() // the reader that begins with this sends nothing by itself
		return more
	})
}

// heldRequests are the requests of a server that readers hold.
type heldRequests struct {
	mu  sync.Mutex
	set map[*heldRequest]struct{}

	byKind [numHoldKinds]metrics.Durations // how long they were held
}

func (s *heldRequests) add(h *heldRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[*heldRequest]struct{}{}
	}
	s.set[h] = struct{}{}
}

// remove removes a request that was held for a time.
func (s *heldRequests) remove(h *heldRequest, took time.Duration) {
	s.byKind[h.kind].Add(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, h)
}

// count returns the number of requests that are held.
func (s *heldRequests) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.set)
}

// wakeAll has all requests looked at again.
func (s *heldRequests) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.set {
		h.wake()
	}
}

func (s *heldRequests) times() map[string]metrics.Buckets {
	all := make(map[string]metrics.Buckets, numHoldKinds)
	for kind, name := range holdKindNames {
		all[name] = s.byKind[kind].Buckets()
	}
	return all
}
