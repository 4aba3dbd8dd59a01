// Package tenant limits what groups of clients take of one server: requests and bytes in a second, sessions, and watches.
//
//   - Rule is one limit as an operator writes it: who, and how much.
//   - Table has the rules in force and the tenants that they count. A tenant is one group: an address, a network, an identity, or a
//     subtree.
//   - Limiter holds the present Table, and replaces it at run time.
//
// # Slowed, not refused
//
// A request always counts, and Tenant.Charge returns how long it has to wait. The debt of a tenant is at most MaxDebt, so no request
// waits longer. Requests of several connections of a tenant become due in the order in which they were charged, and a connection has one
// charged request at a time, so the connections of a tenant take turns.
//
// # Bounds
//
// A rule with the word each has a tenant for each address, identity or child, and strangers choose those. A Table has at most MaxTracked
// of them. It forgets those that owe nothing and have no connection. All beyond share one tenant of their rule.
//
// # Concurrency
//
// Everything here is safe for concurrent use. Charge takes no lock. Nothing here reads a clock or starts a goroutine: callers pass the
// time since a moment of their own, by a monotonic clock.
package tenant

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// burst is what a tenant that was idle gets at once: as much as it may have in this time.
	burst = time.Second
	// MaxDebt bounds the debt of a tenant, and so the wait of a request. What a tenant takes beyond it is forgiven. It is as long as the
	// patience of people, and the longest reply, of 8 MiB, is paid in it at 140 KB/s.
	MaxDebt = time.Minute
)

// bucket counts what a tenant takes at a rate. It holds the time at which everything is paid. The zero value owes nothing.
type bucket struct{ paidAt atomic.Int64 }

// take adds n units of so many per second at time now, and returns how long the taker has to wait. Units that a tenant has saved, for up
// to the time of a burst, cost no wait. A single taking of more than a burst waits no longer than one of a burst.
func (b *bucket) take(now time.Duration, n, perSecond int64) (wait time.Duration) {
	cost := MaxDebt
	if seconds := float64(n) / float64(perSecond); seconds < MaxDebt.Seconds() {
		cost = time.Duration(math.Ceil(seconds * float64(time.Second)))
	}
	for {
		before := b.paidAt.Load()
		begin := max(time.Duration(before), now)
		after := max(min(begin+cost, now+MaxDebt), time.Duration(before))
		if b.paidAt.CompareAndSwap(before, int64(after)) {
			return max(0, min(begin+min(cost, burst), now+MaxDebt)-burst-now)
		}
	}
}

// isPaid reports whether nothing is owed at time now.
func (b *bucket) isPaid(now time.Duration) bool { return time.Duration(b.paidAt.Load()) <= now }

// Tenant is a group of clients, or of paths, that a rule counts together.
type Tenant struct {
	rule            *Rule
	requests, bytes bucket
	watches         atomic.Int64
	connections     atomic.Int64 // that refer to it
	sessions        sessionCount
}

// Rule returns the rule that made the tenant.
func (t *Tenant) Rule() *Rule { return t.rule }

// Charge counts requests and bytes at time now, and returns how long the request has to wait for each of the two.
func (t *Tenant) Charge(now time.Duration, requests, bytes int64) (forRequests, forBytes time.Duration) {
	if t.rule.Requests > 0 && requests > 0 {
		forRequests = t.requests.take(now, requests, t.rule.Requests)
	}
	if t.rule.Bytes > 0 && bytes > 0 {
		forBytes = t.bytes.take(now, bytes, t.rule.Bytes)
	}
	return forRequests, forBytes
}

// AddWatches counts n more watches, or fewer if n is negative.
func (t *Tenant) AddWatches(n int64) { t.watches.Add(n) }

// HasRoomForWatch reports whether the tenant may have one more watch.
func (t *Tenant) HasRoomForWatch() bool {
	return t.rule.Watches == 0 || t.watches.Load() < t.rule.Watches
}

// join notes that a connection refers to the tenant, which is kept until its Leave.
func (t *Tenant) join() { t.connections.Add(1) }

// Leave notes that a connection for which Table.OfClient returned the tenant no longer refers to it.
func (t *Tenant) Leave() { t.connections.Add(-1) }

// isIdle reports whether forgetting the tenant changes nothing.
func (t *Tenant) isIdle(now time.Duration) bool {
	return t.connections.Load() == 0 && t.requests.isPaid(now) && t.bytes.isPaid(now)
}

// sessionCount counts the sessions of a tenant, and has the handshakes that wait for one to end, in their order.
type sessionCount struct {
	mu      sync.Mutex
	n       int64
	waiting []chan struct{} // closed when the handshake has its place; empty if the tenant may have one more session
	closed  bool            // the rules were replaced: nobody waits any more
}

// TryAddSession counts a session, if the tenant may have one more. If handshakes wait for one, it may not.
func (t *Tenant) TryAddSession() bool {
	c := &t.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.rule.Sessions > 0 && !c.closed && c.n >= t.rule.Sessions {
		return false
	}
	c.n++
	return true
}

// AddSession counts a session, also beyond the limit: one that is resumed.
func (t *Tenant) AddSession() {
	c := &t.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// AwaitSession is TryAddSession that waits for its turn. It returns the error of ctx, and counts nothing, if ctx ends first. There are no
// more waiting callers than connections of the tenant.
func (t *Tenant) AwaitSession(ctx context.Context) error {
	c := &t.sessions
	c.mu.Lock()
	if c.closed || c.n < t.rule.Sessions {
		c.n++
		c.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	c.waiting = append(c.waiting, turn)
	c.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, w := range c.waiting {
		if w == turn {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			return context.Cause(ctx)
		}
	}
	c.endSession(t.rule.Sessions) // the place came at the same time: it goes to the next one
	return context.Cause(ctx)
}

// EndSession undoes one AddSession, TryAddSession or AwaitSession.
func (t *Tenant) EndSession() {
	c := &t.sessions
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endSession(t.rule.Sessions)
}

// endSession gives the place of a session to the first handshake that waits. The caller holds the lock.
func (c *sessionCount) endSession(most int64) {
	c.n--
	c.admitWaiting(most)
}

func (c *sessionCount) admitWaiting(most int64) {
	for len(c.waiting) > 0 && (c.closed || c.n < most) {
		close(c.waiting[0])
		c.waiting = c.waiting[1:]
		c.n++
	}
}

// close lets all waiting handshakes go on.
func (c *sessionCount) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.admitWaiting(0)
}
