package znode

// What an entry costs is bounded, but a member's watches are not. So when the steps of an entry are used up (maxFireSteps), the
// watchers of its further changes miss them. The rule:
//
//   - Apply takes a path whose watchers miss a change out of its table, in one step for all of them, and counts it (MissedPaths).
//   - A connection is sent nothing after that until its own watches were searched (Search), outside of apply. If one of them is on
//     such a path, the connection ends.
//
// So no client reads a change after it has missed the event of that change. It comes back and sets its watches again. Other connections
// that watch the path in the same table end as well, even if they have had the event.

// markMissed takes a path out of its table, because its watchers miss a change. Their records stay in its list until their connections
// have ended. The caller holds the tree's write lock.
func (w *Watches) markMissed(k tableKind, p *watchedPath) {
	p.changeMissed = true
	delete(w.tables[k].byPath, p.path)
	w.missedPaths.Add(1)
}

// MissedPaths returns how many paths had watchers that missed a change. It needs no lock. A reply that tells of the change is made
// after the count has grown.
func (w *Watches) MissedPaths() uint64 { return w.missedPaths.Load() }

// SearchMissed looks at up to watchesPerLock of a connection's watches, from the first one if again is set, and else from where the last
// Search ended. It reports whether one of them has missed a change, and if not, whether there are more watches to look at. It needs
// the read lock. Watches that are set between two calls need no look, unless MissedPaths has grown since.
func (w *Watches) SearchMissed(who Watcher, again bool) (missed, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.watchers[who]
	if r == nil {
		return false, false
	}
	if again {
		r.unsearched = r.first
	}
	left := watchesPerLock
	for k := range tableKinds {
		for ; left > 0 && r.unsearched[k] != nil; left-- {
			if r.unsearched[k].path.changeMissed {
				return true, false
			}
			r.unsearched[k] = r.unsearched[k].sameWatcher.next
		}
	}
	return false, r.unsearched != [tableKinds]*watch{}
}
