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
	session    *session
	stream     *stream.Stream
	searchTurn *sync.Mutex // missedSweep.turn

	mu           sync.Mutex    // held during a search
	checkedPaths atomic.Uint64 // of so many State.MissedPaths none was the connection's
}

// missedNothing reports whether the client was notified of every change that it watches. It takes no lock.
func (m *missedCheck) missedNothing() bool {
	return m.checkedPaths.Load() == m.session.tree.Watches().MissedPaths() || !m.stream.Account.HasOwnerBytes()
}

// dropIfMissed drops the connection if the client has missed a change of what it watches. It reports whether it has not. The caller holds
// no lock.
func (m *missedCheck) dropIfMissed() bool {
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
	m.checkedPaths.Store(paths)
	return true
}

func (m *missedCheck) searchPart(again bool) (missed, more bool) {
	m.searchTurn.Lock()
	defer m.searchTurn.Unlock()
	m.session.tree.RLock()
	defer m.session.tree.RUnlock()
	return m.session.tree.Watches().SearchMissed(m.session.watchOwner, again)
}

// dropWatchesPart removes watches of the connection, which has ended, and reports whether there are more. No further request of it sets
// a watch.
func (m *missedCheck) dropWatchesPart() (more bool) {
	m.searchTurn.Lock()
	defer m.searchTurn.Unlock()
	m.session.tree.RLock()
	defer m.session.tree.RUnlock()
	return m.session.tree.Watches().DropWatches(m.session.watchOwner)
}

// missedSweep has the connections searched that have nothing to send. The zero value is ready.
type missedSweep struct {
	// searchTurn is held while a part of a connection's watches is searched or removed. Many connections may do so at the same time. All but
	// one would otherwise wait with the tree's read lock in hand, and apply would wait for them all.
	searchTurn sync.Mutex

	mu          sync.Mutex
	wantedPaths uint64 // the last State.MissedPaths that begin was called with
	sweptPaths  uint64 // that of the last search of all connections
	running     bool
}

// startNeeded reports whether the caller must start searchAll.
func (m *missedSweep) startNeeded(paths uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wantedPaths = paths; m.sweptPaths == paths || m.running {
		return false
	}
	m.running = true
	return true
}

// nextRound reports whether all connections must be searched, or searched again. If not, searchAll has ended.
func (m *missedSweep) nextRound() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = m.sweptPaths != m.wantedPaths
	m.sweptPaths = m.wantedPaths
	return m.running
}

// sweepMissed ends all connections that have missed a change. One runs at a time.
func (s *Server) sweepMissed() {
	for s.missedSweep.nextRound() {
		for _, c := range s.conns.all() {
			if !c.missedCheck.missedNothing() {
				_ = c.missedCheck.dropIfMissed()
			}
		}
	}
}
