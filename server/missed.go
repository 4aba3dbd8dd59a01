package server

import (
	"sync"
	"sync/atomic"

	"rollcall/server/stream"
)

// If the changes of an entry have too many watchers, some of them miss changes: see znode/missed.go. Their
// connections end here. Until these are known, no connection that watches anything is sent anything
// (conn.MaySend). A connection with output checks itself (conn.AwaitPermit), so its client waits no longer
// than a search of its own watches takes. dropAllMissed checks the others.

// missedCheck records up to which Watches.MissedPathCount a connection's watches have been checked.
type missedCheck struct {
	session    *session
	stream     *stream.Stream
	searchTurn *sync.Mutex

	mu           sync.Mutex    // held during a search
	checkedPaths atomic.Uint64 // value of Watches.MissedPathCount at the last check
}

// missedNothing reports whether the client was notified of every change that it watches. It takes no lock.
func (m *missedCheck) missedNothing() bool {
	return m.checkedPaths.Load() == m.session.tree.Watches().MissedPathCount() || !m.stream.Account.HasOwnerBytes()
}

// keepUnlessMissed drops the connection if the client has missed a change of what it watches, and reports whether
// it has not. The caller holds no lock.
func (m *missedCheck) keepUnlessMissed() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	paths := m.session.tree.Watches().MissedPathCount()
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

// removeWatchesPart removes some watches of an ended connection, and reports whether there are more.
func (m *missedCheck) removeWatchesPart() (more bool) {
	m.searchTurn.Lock()
	defer m.searchTurn.Unlock()
	m.session.tree.RLock()
	defer m.session.tree.RUnlock()
	return m.session.tree.Watches().DropWatches(m.session.watchOwner)
}

// missedSweep checks the connections without output. The zero value is ready.
type missedSweep struct {
	// searchTurn is held while a part of a connection's watches is searched or removed. Otherwise many
	// connections would wait for each other while holding the tree's read lock, and apply would wait for all.
	searchTurn sync.Mutex

	mu          sync.Mutex
	wantedPaths uint64 // the latest Watches.MissedPathCount
	sweptPaths  uint64 // its value at the last sweep
	running     bool
}

// claimSweep notes the latest Watches.MissedPathCount, and reports whether the caller must start dropAllMissed.
func (m *missedSweep) claimSweep(paths uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.wantedPaths = paths; m.sweptPaths == paths || m.running {
		return false
	}
	m.running = true
	return true
}

// nextRound reports whether dropAllMissed must check all connections once more. If not, it has ended.
func (m *missedSweep) nextRound() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.running = m.sweptPaths != m.wantedPaths
	m.sweptPaths = m.wantedPaths
	return m.running
}

// dropAllMissed ends all connections that have missed a change. One runs at a time.
func (s *Server) dropAllMissed() {
	for s.missedSweep.nextRound() {
		for _, c := range s.conns.all() {
			if !c.missedCheck.missedNothing() {
				_ = c.missedCheck.keepUnlessMissed()
			}
		}
	}
}
