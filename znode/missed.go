package znode

// The cost of an entry is bounded, but a member's watches are not. When an entry has used up its steps
// (maxFireSteps), the watchers of its further changes miss them:
//
//   - ApplyEntry takes a path with a missed change out of its table, in one step for all its watchers, and counts it (MissedPathCount).
//   - After that a connection is sent nothing until its own watches are searched (SearchMissed), outside of apply. If one of them is
//     on such a path, the connection is closed.
//
// So no client reads a change after it missed the event of that change. It reconnects and sets its watches
// again. Other connections that watch the path in the same table are closed as well, even if they received
// the event.

// removeMissedPath takes a path out of its table. The records of its watchers stay in its list until their
// connections have ended. The caller holds the tree's write lock.
func (w *Watches) removeMissedPath(k tableKind, p *watchedPath) {
	p.changeMissed = true
	delete(w.tables[k].byPath, p.path)
	w.missedPathCount.Add(1)
}

// MissedPathCount returns the number of paths with a missed change. It needs no lock. It grows before the reply
// that reports the change is made.
func (w *Watches) MissedPathCount() uint64 { return w.missedPathCount.Load() }

// SearchMissed checks up to watchesPerLock of a connection's watches, from the first one if again is set, and
// otherwise from the end of the last search. It reports whether one of them has missed a change, and if not,
// whether there are more to check. It needs the read lock. Watches set between two calls need no check,
// unless MissedPathCount has grown since.
func (w *Watches) SearchMissed(who Watcher, again bool) (missed, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.watchers[who]
	if r == nil {
		return false, false
	}
	if again {
		r.firstUnsearched = r.first
	}
	left := watchesPerLock
	for k := range tableKinds {
		for ; left > 0 && r.firstUnsearched[k] != nil; left-- {
			if r.firstUnsearched[k].path.changeMissed {
				return true, false
			}
			r.firstUnsearched[k] = r.firstUnsearched[k].sameWatcher.next
		}
	}
	return false, r.firstUnsearched != [tableKinds]*watch{}
}
