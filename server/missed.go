package server

import (
	"sync"
	"sync/atomic"

	"rollcall/server/stream"
)

// If the changes of an entry have too many watchers, some of them miss changes: see znode/missed.go. Their connections end here. Until
// it is known which these are, no connection that watches anything is sent anything (conn.MaySend). A connection that has something
// to send finds that out for itself (conn.AwaitPermit), so its client waits no longer than a search of its own watches takes.
// searchAll does so for the others.

// missedCheck records which changes a connection may have missed.
type missedCheck struct {
	session *session
	stream  *stream.Stream
	turn    *sync.Mutex // missedSweep.turn

	mu   sync.Mutex    // held during a search
	none atomic.Uint64 // of so many State.MissedPaths none was the connection's
}

// nothing reports whether the client was notified of every change that it watches. It takes no lock.
func (m *missedCheck) nothing() bool {
	return m.none.Load() == m.session.tree.Watches().MissedPaths() || !m.stream.Account.Keeps()
}

// search drops the connection if the client has missed a change of what it watches. It reports whether it has not. The caller holds
// no lock.
func (m *missedCheck) search() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := m.session.tree.Watches().MissedPaths()
	for again, more := true, true; more; again = false {
		var missed bool
		if missed, more = m.searchPart(again); missed {
			m.stream.Drop(tooManyEvents)
			return false
		}
	}
	m.none.Store(paths)
	return true
}

func (m *missedCheck) searchPart(again bool) (missed, more bool) {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.session.tree.RLock()
	defer m.session.tree.RUnlock()
	return m.session.tree.Watches().SearchMissed(m.session.client, again)
}

// dropWatches removes watches of the connection, which has ended, and reports whether there are more. No further request of it sets
// a watch.
func (m *missedCheck) dropWatches() (more bool) {
	m.turn.Lock()
	defer m.turn.Unlock()
	m.session.tree.RLock()
	defer m.session.tree.RUnlock()
	return m.session.tree.Watches().DropWatches(m.session.client)
}

// missedSweep has the connections searched that have nothing to send. The zero value is ready.
type missedSweep struct {
	// turn is held while a part of a connection's watches is searched or removed. Many connections may do so at the same time. All but
	// one would otherwise wait with the tree's read lock in hand, and apply would wait for them all.
	turn sync.Mutex

	mu      sync.Mutex
	wanted  uint64 // the last State.MissedPaths that begin was called with
	swept   uint64 // that of the last search of all connections
	running bool
}

// begin reports whether the caller must start searchAll.
func (m *missedSweep) begin(paths uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wanted = paths; m.swept == paths || m.running {
		return false
	}
	m.running = true
	return true
}

// next reports whether all connections must be searched, or searched again. If not, searchAll has ended.
func (m *missedSweep) next() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = m.swept != m.wanted
	m.swept = m.wanted
	return m.running
}

// searchAll ends all connections that have missed a change. One runs at a time.
func (s *Server) searchAll() {
	for s.missed.next() {
		for _, c := range s.conns.all() {
			if !c.missed.nothing() {
				_ = c.missed.search()
			}
		}
	}
}
