package znode

import (
	"iter"

	"rollcall/jute"
)

// What follows is for those who list what there is, a part at a time: each part needs the
// tree's lock, at least to read, and between two of them the state may change.

// SessionsFrom yields the sessions with first and the ids above, in order.
func (s *State) SessionsFrom(first jute.SessionID) iter.Seq[Session] {
	return func(yield func(Session) bool) {
		for _, r := range s.sessions.from(sessionKey(first)) {
			if !yield(*r) {
				return
			}
		}
	}
}

// EphemeralsFrom yields the ephemeral nodes with their owners, ordered by owner, then by
// path, from the given ones on.
func (s *State) EphemeralsFrom(owner jute.SessionID, path string) iter.Seq2[jute.SessionID, string] {
	return func(yield func(jute.SessionID, string) bool) {
		for e := range s.ephemerals.from(ephemeral{owner, path}) {
			if !yield(e.owner, e.path) {
				return
			}
		}
	}
}

// WatchesOf yields the paths that w watches, in no order, those whose children alone it
// watches left out. While it runs nobody sets a watch.
func (s *State) WatchesOf(w Watcher) iter.Seq[string] {
	return func(yield func(string) bool) {
		s.watches.mu.Lock()
		defer s.watches.mu.Unlock()
		r := s.watches.watchers[w]
		if r == nil {
			return
		}
		for e := r.first[dataTable]; e != nil; e = e.sameWatcher.next {
			if !yield(e.path.path) {
				return
			}
		}
	}
}
