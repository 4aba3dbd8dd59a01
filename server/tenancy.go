package server

import (
	"context"
	"sync"
	"time"

	"rollcall/proto"
	"rollcall/server/tenant"
)

// tenancy is a connection's place among the tenants of one table, by the address and the identities of its client. It is replaced when the
// limits or the identities change.
type tenancy struct {
	table   *tenant.Table
	numIDs  int // identities of the client
	tenants []*tenant.Tenant

	unlimited bool // no limit holds for the client, not even one for subtrees

	// Only the connection's reader or loop uses these.
	paidBytes  uint64           // of replies.sentBytes
	ofLastPath []*tenant.Tenant // for the subtrees of the last request, which pay for its reply

	hasSession bool // the tenants count a session; the connection's lock guards it

	mu      sync.Mutex // guards the rest; the last one of all locks
	watches int64      // that the tenants count
	hasLeft bool
}

// clientTenants keeps the tenancy of a connection.
type clientTenants struct{ c *conn }

// update returns the connection's tenancy in the present table, or nil if there is none. A connection that has ended keeps its last
// one. Only the connection's reader or loop calls it.
func (m clientTenants) update() *tenancy { return m.replace(true) }

// updateTable is update for others. They leave new identities to the reader or loop.
func (m clientTenants) updateTable() { m.replace(false) }

func (m clientTenants) replace(byReader bool) *tenancy {
	c := m.c
	old, ids := c.tenancy.Load(), c.identity.all()
	if old.isFor(c.srv.limiter.Table(), ids) {
		return old
	}
	c.stream.Lock()
	defer c.stream.Unlock()
	table := c.srv.limiter.Table()
	old = c.tenancy.Load()
	sameTable := old != nil && old.table == table
	if old.isFor(table, ids) || c.stream.HasEnded() || sameTable && !byReader {
		return old
	}
	var next *tenancy
	if table != nil {
		next = &tenancy{table: table, numIDs: len(ids), unlimited: tenant.IsUnlimited(ids)}
		next.tenants = table.OfClient(c.identity.host, ids, c.srv.sinceStart(time.Now()))
		next.paidBytes = c.replies.sentBytes
		if sameTable { // the client has more identities, and still has to pay
			next.paidBytes, next.ofLastPath = old.paidBytes, old.ofLastPath
		}
		if old != nil && old.hasSession || c.stream.Life.Timeout() > 0 && !c.readOnly {
			next.tryAddSession(true)
		}
	}
	c.tenancy.Store(next)
	old.leave()
	next.countWatches(int64(c.watches.Load()))
	return next
}

func (t *tenancy) isFor(table *tenant.Table, ids []*proto.Identity) bool {
	if t == nil {
		return table == nil
	}
	return t.table == table && t.numIDs == len(ids)
}

// countWatches has the tenants count n watches of the connection in all. A nil tenancy counts none.
func (t *tenancy) countWatches(n int64) {
	if t == nil || !t.table.LimitsWatches() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasLeft {
		return
	}
	for _, to := range t.tenants {
		to.AddWatches(n - t.watches)
	}
	t.watches = n
}

// leave takes everything back that the tenants count for the connection. The caller holds the connection's lock.
func (t *tenancy) leave() {
	if t == nil {
		return
	}
	t.countWatches(0)
	t.mu.Lock()
	t.hasLeft = true
	t.mu.Unlock()
	if t.hasSession {
		t.endSessions(t.tenants)
	}
	for _, to := range t.tenants {
		to.Leave()
	}
}

// tryAddSession has the tenants count the client's session, also beyond their limits if it is resumed. The caller holds the connection's lock.
func (t *tenancy) tryAddSession(resumed bool) bool {
	for i, to := range t.tenants {
		switch {
		case to.Rule().Sessions == 0:
		case resumed:
			to.AddSession()
		case !to.TryAddSession():
			t.endSessions(t.tenants[:i])
			return false
		}
	}
	t.hasSession = true
	return true
}

// awaitSession is tryAddSession that waits, and leaves hasSession to its caller. It waits for the tenant of one address first (Table.OfClient): a
// handshake that waits for that holds no place that others need.
func (t *tenancy) awaitSession(ctx context.Context) error {
	for i, to := range t.tenants {
		if to.Rule().Sessions == 0 {
			continue
		}
		if err := to.AwaitSession(ctx); err != nil {
			t.endSessions(t.tenants[:i])
			return err
		}
	}
	return nil
}

func (t *tenancy) endSessions(of []*tenant.Tenant) {
	for _, to := range of {
		if to.Rule().Sessions > 0 {
			to.EndSession()
		}
	}
}

// tryTakeSessionPlace reports whether the client's tenants may have its session. A client that resumes its session always may: it would
// lose what it has.
func (m clientTenants) tryTakeSessionPlace(resumed bool) bool {
	c := m.c
	if m.update() == nil {
		return true
	}
	c.stream.Lock()
	defer c.stream.Unlock()
	t := c.tenancy.Load()
	return t == nil || t.hasSession || t.tryAddSession(resumed)
}

// awaitSessionPlace waits until the client's tenants may have its session. It returns false if the connection ends first, as it does when
// the time for its handshake is over.
func (m clientTenants) awaitSessionPlace() bool {
	c := m.c
	for {
		t := c.tenancy.Load()
		if t == nil {
			return true
		}
		if t.awaitSession(c.stream.Life.Context()) != nil {
			return false
		}
		if done, more := m.keepSessionPlace(t); done || !more {
			return done
		}
	}
}

// keepSessionPlace keeps the place that awaitSession has taken, if t is still the connection's tenancy. more reports whether the connection
// lives, and has another one now.
func (m clientTenants) keepSessionPlace(t *tenancy) (kept, more bool) {
	c := m.c
	c.stream.Lock()
	defer c.stream.Unlock()
	if c.tenancy.Load() == t && !c.stream.HasEnded() {
		t.hasSession = true
		return true, true
	}
	t.endSessions(t.tenants)
	return false, !c.stream.HasEnded()
}

// leave ends the connection's tenancy, and pays for what it has sent since its last request. The caller holds the lock, and the
// connection has ended.
func (m clientTenants) leave() {
	c := m.c
	t := c.tenancy.Load()
	if t == nil {
		return
	}
	now, sent := c.srv.sinceStart(time.Now()), int64(c.replies.sentBytes-t.paidBytes)
	for _, to := range t.tenants {
		to.Charge(now, 0, sent)
	}
	for _, to := range t.ofLastPath {
		to.Charge(now, 0, sent)
	}
	t.leave()
}

// takeUnpaid returns the bytes that the connection has sent since its last request.
func (t *tenancy) takeUnpaid(c *conn) int64 {
	c.stream.Lock()
	defer c.stream.Unlock()
	n := c.replies.sentBytes - t.paidBytes
	t.paidBytes = c.replies.sentBytes
	return int64(n)
}

func (t *tenancy) hasRoomForWatch() bool {
	for _, to := range t.tenants {
		if !to.HasRoomForWatch() {
			return false
		}
	}
	return true
}
