package server

import (
	"time"

	"rollcall/server/tenant"
	"rollcall/zk/jute"
)

// maxChargedPaths bounds the operations of a multi whose paths are compared with the limits for subtrees, so that a loop does not work on
// that for more than some hundred microseconds. The subtree of the last of them pays for the rest.
const maxChargedPaths = 1024

// limitedRequest is a request of a server that has limits of tenants or a throttle of requests.
type limitedRequest struct{ r *request }

// handle handles the request when its tenants and the throttle let it. Pings, logins and closes never wait.
func (l limitedRequest) handle() bool {
	r := l.r
	switch r.op {
	case jute.OpPing, jute.OpCloseSession, jute.OpAuth, jute.OpSASL:
		return r.handle()
	}
	t := clientTenants{r.c}.update()
	if t == nil {
		return l.enterThrottle()
	}
	if wait, kind := l.charge(t); wait > 0 {
		return l.hold(&heldRequest{cause: tenantHold{r.c.srv}, kind: kind, dueAt: r.times.receivedAt.Add(wait), table: t.table})
	}
	return l.serveDue(t)
}

// serveDue serves a request that its tenants let go on. One for a watch too many is refused only now, so that refusals are slowed, too: they
// count as well.
func (l limitedRequest) serveDue(t *tenancy) bool {
	r := l.r
	if t != nil && l.exceedsWatches(t) {
		r.c.srv.stats.watchesRefused.Add(1)
		r.code = jute.QuotaExceeded
		return r.replyLocally()
	}
	return l.enterThrottle()
}

// enterThrottle handles the request when the throttle of requests, if there is one, has a place for it.
func (l limitedRequest) enterThrottle() bool {
	t := l.r.c.srv.requestThrottle
	if t == nil {
		return l.r.handle()
	}
	if !t.tryEnter() {
		return l.hold(&heldRequest{cause: t, kind: heldForThrottle})
	}
	return t.handle(l.r)
}

// charge has the tenants of a request count it, and returns how long it has to wait, and for what.
func (l limitedRequest) charge(t *tenancy) (wait time.Duration, kind holdKind) {
	if t.unlimited {
		return 0, 0
	}
	r, c, table := l.r, l.r.c, t.table
	b := bill{now: c.srv.sinceStart(r.times.receivedAt), ops: 1, frame: int64(len(r.body) + frameOverhead)}
	if table.LimitsBytes() {
		b.sent = t.takeUnpaid(c)
	}
	if isMulti := r.op == jute.OpMulti || r.op == jute.OpMultiRead; isMulti {
		b.ops = countOps(r.body)
	}
	b.charge(t.tenants, b.ops, b.frame+b.sent)
	if table.LimitsPaths() {
		b.chargePaths(r, t)
	}
	return b.wait, b.kind
}

// watchPath returns the path of the one watch that a request sets. Requests that set watches again after a change of members do not count:
// their clients have these watches.
func (l limitedRequest) watchPath() (path []byte, sets bool) {
	r := l.r
	d := jute.NewDecoder(r.body)
	switch r.op {
	case jute.OpAddWatch:
		return d.ReadBytes(), true
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		var req jute.WatchedPath
		req.Decode(&d)
		return req.Path, req.Watch
	}
	return nil, false
}

// exceedsWatches reports whether the request would give a tenant more watches than it may have. A path that the client watches already costs
// nothing.
func (l limitedRequest) exceedsWatches(t *tenancy) bool {
	c := l.r.c
	if !t.table.LimitsWatches() || t.hasRoomForWatch() {
		return false
	}
	path, sets := l.watchPath()
	if !sets {
		return false
	}
	c.srv.cfg.State.RLock()
	defer c.srv.cfg.State.RUnlock()
	_, watched := c.srv.cfg.State.Watches().KindsOn(string(path), c)
	return !watched
}

// bill is what one request costs, and how long it has to wait for that.
type bill struct {
	now              time.Duration
	ops, frame, sent int64 // operations, bytes of the request, bytes sent since the last request
	wait             time.Duration
	kind             holdKind
}

func (b *bill) charge(to []*tenant.Tenant, ops, bytes int64) {
	for _, one := range to {
		forRequests, forBytes := one.Charge(b.now, ops, bytes)
		if forRequests > b.wait {
			b.wait, b.kind = forRequests, heldForRequests
		}
		if forBytes > b.wait {
			b.wait, b.kind = forBytes, heldForBytes
		}
	}
}

// chargePaths charges the tenants of the request's paths. The bytes of replies are paid by the subtrees of the request before.
func (b *bill) chargePaths(r *request, t *tenancy) {
	for _, one := range t.ofLastPath {
		one.Charge(b.now, 0, b.sent)
	}
	t.ofLastPath = t.ofLastPath[:0]
	each := func(path []byte) {
		t.ofLastPath = t.table.OfPath(t.ofLastPath[:0], path, b.now)
		b.charge(t.ofLastPath, 1, max(1, b.frame/b.ops))
	}
	switch {
	case r.op == jute.OpMulti || r.op == jute.OpMultiRead:
		left := b.ops
		jute.EachMultiOp(r.body, func(op *jute.MultiOp) (more bool) {
			each(op.Path())
			left--
			return b.ops-left < maxChargedPaths
		})
		b.charge(t.ofLastPath, left, b.frame/b.ops*left)
	case hasPath(r.op):
		d := jute.NewDecoder(r.body)
		each(d.ReadBytes())
	}
}

// countOps returns the number of operations of a multi, at least 1.
func countOps(body []byte) (n int64) {
	jute.EachMultiOp(body, func(*jute.MultiOp) (more bool) {
		n++
		return true
	})
	return max(1, n)
}

// hasPath reports whether the record of a request begins with a path.
func hasPath(op jute.Op) bool {
	switch op {
	case jute.OpSetWatches, jute.OpSetWatches2, jute.OpReconfig, jute.OpWhoAmI:
		return false
	}
	return true
}

// tenantHold is the cause of requests that tenants have to wait for. They are due at a time.
type tenantHold struct{ srv *Server }

var _ holdCause = tenantHold{}

func (t tenantHold) wait(h *heldRequest, now time.Time) (d time.Duration, stale bool) {
	if t.srv.limiter.Table() != h.table { // other limits: nobody owes anything
		return 0, false
	}
	return h.dueAt.Sub(now), false
}

func (tenantHold) mayOutliveClient() bool { return false }

func (tenantHold) over(*heldRequest) {}

func (tenantHold) abandon(*heldRequest) {}

func (tenantHold) serve(_ *heldRequest, r *request) (more bool) {
	return limitedRequest{r}.serveDue(clientTenants{r.c}.update())
}
