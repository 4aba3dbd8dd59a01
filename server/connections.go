package server

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"rollcall/internal/admission"
	"rollcall/server/stream"
	"rollcall/zk/jute"
)

// connectionTable holds the connections of a server by number and by session. Its lock is the last one in the
// order of locks, and no method waits while holding it.
type connectionTable struct {
	numberBase uint64 // Config.ConnBase

	mu            sync.Mutex
	acceptedTotal uint64
	conns         connectionList
	limiter       *admission.ConnectionLimiter
	bySession     map[jute.SessionID]*conn // handshake done
	rejectingNew  bool
}

func newConnectionTable(cfg *Config) *connectionTable {
	return &connectionTable{
		numberBase: cfg.ConnBase, limiter: admission.NewConnectionLimiter(connLimit(cfg.Limits.MaxConns, openFilesLimit()), cfg.Limits.MaxClientConns),
		bySession: make(map[jute.SessionID]*conn),
	}
}

// admitAndNumber numbers a new connection and adds it, or returns the reason for rejecting it.
func (t *connectionTable) admitAndNumber(c *conn) (why stream.Reason, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rejectingNew {
		return shutdown, false
	}
	switch t.limiter.Admit(c.identity.host) {
	case admission.TooManyConnections:
		return tooManyConns, false
	case admission.TooManyOfAddress:
		return tooManyConnsOfAddr, false
	}
	t.acceptedTotal++
	c.localNumber, c.uniqueNumber = t.acceptedTotal, t.numberBase+t.acceptedTotal
	t.conns.add(c)
	return 0, true
}

// remove removes a connection that has ended. session is 0 if it had none.
func (t *connectionTable) remove(c *conn, session jute.SessionID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns.remove(c)
	t.limiter.Release(c.identity.host)
	if t.bySession[session] == c {
		delete(t.bySession, session)
	}
}

func (t *connectionTable) setCarrier(id jute.SessionID, c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bySession[id] = c
}

// carrierOf returns the connection that carries a session, or nil.
func (t *connectionTable) carrierOf(id jute.SessionID) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.bySession[id]
}

// count returns the numbers of connections and of connections that carry a session.
func (t *connectionTable) count() (conns, sessions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns.n, len(t.bySession)
}

func (t *connectionTable) rejectNew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rejectingNew = true
}

func (t *connectionTable) isRejectingNew() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rejectingNew
}

// all returns all connections, oldest first.
func (t *connectionTable) all() []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns.appendFrom(make([]*conn, 0, t.conns.n), 0)
}

// withSession returns the connections that carry a session, oldest first.
func (t *connectionTable) withSession() []*conn {
	t.mu.Lock()
	conns := slices.Collect(maps.Values(t.bySession))
	t.mu.Unlock()
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.localNumber, b.localNumber) })
	return conns
}

func (t *connectionTable) streams() []*stream.Stream {
	conns := t.all()
	streams := make([]*stream.Stream, 0, len(conns))
	for _, c := range conns {
		streams = append(streams, &c.stream)
	}
	return streams
}

// partsFrom yields the connections from number first on, in order, in parts of listedPerLock. It holds no
// lock while it yields.
func (t *connectionTable) partsFrom(first uint64) func(yield func([]*conn) bool) {
	return func(yield func([]*conn) bool) {
		part := make([]*conn, 0, listedPerLock)
		for more := true; more; {
			if part = t.appendFrom(part[:0], first); len(part) == 0 || !yield(part) {
				return
			}
			more, first = len(part) == cap(part), part[len(part)-1].localNumber+1
		}
	}
}

// appendFrom appends to part the connections from number first on, until part is full.
func (t *connectionTable) appendFrom(part []*conn, first uint64) []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conns.appendFrom(part, first)
}

func (t *connectionTable) dropMatching(why stream.Reason, match func(*conn) bool) {
	for _, c := range t.all() {
		if match(c) {
			c.stream.Drop(why)
		}
	}
}

// dropGradually closes connections, spread evenly over a time. If ctx ends, it returns the number closed so
// far.
func dropGradually(ctx context.Context, conns []*conn, over time.Duration, why stream.Reason) (closed int) {
	begin := time.Now()
	for i, c := range conns {
		due := begin.Add(over * time.Duration(i) / time.Duration(len(conns)))
		if wait := time.Until(due); wait > 0 {
			select {
			case <-ctx.Done():
				return i
			case <-time.After(wait):
			}
		}
		c.stream.Drop(why)
	}
	return len(conns)
}
