package znode

import "iter"

// The methods of this file list the watches of this member's connections in parts, for operators. Each part
// needs at least the read lock. Between two parts watches may be set, dropped and fired.

// WatchKinds are the kinds of a watcher's watches on a path.
type WatchKinds struct {
	Data       bool // once, for the node: created, deleted, or its data changed
	Children   bool // once, for the node's children
	Persistent bool // both, until it is removed
	Recursive  bool // the node and everything below it, until it is removed
}

// IsWatched reports whether path itself has a watch. Recursive watches above path do not count.
func (w *Watches) IsWatched(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[dataTable].byPath[path] != nil || w.tables[childTable].byPath[path] != nil
}

// HasRecursiveWatch reports whether path itself has a recursive watch.
func (w *Watches) HasRecursiveWatch(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.tables[dataTable].byPath[path]
	return p != nil && p.first.modes&recursive != 0 // recursive watches come first
}

// KindsOn returns the kinds of who's watches on path itself, or false if there are none.
func (w *Watches) KindsOn(path string, who Watcher) (kinds WatchKinds, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var on modesByTable
	for k := range tableKinds {
		if e := w.findWatch(k, path, who); e != nil {
			on[k], ok = e.modes, true
		}
	}
	return WatchKinds{
		Data: on[dataTable]&oneShot != 0, Children: on[childTable]&oneShot != 0,
		Persistent: (on[dataTable]|on[childTable])&persistent != 0, Recursive: on[dataTable]&recursive != 0,
	}, ok
}

// CountOf returns the number of who's watches, counted as Count does.
func (w *Watches) CountOf(who Watcher) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.watchers[who]; r != nil {
		return r.watchCount
	}
	return 0
}

// DataPathsOf yields the paths of the nodes that who watches, in no order. It leaves out paths where who watches
// only the children. No watch may be set while it runs.
func (w *Watches) DataPathsOf(who Watcher) iter.Seq[string] {
	return func(yield func(string) bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		r := w.watchers[who]
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

// WatchScan iterates over the watches of one watcher in parts. Make one with NewWatchScan.
type WatchScan struct {
	watcher  Watcher
	table    tableKind
	lastPart []*watch // the previous part, in its order
}

// NewWatchScan returns a scan at its beginning.
func NewWatchScan(who Watcher) *WatchScan {
	return &WatchScan{watcher: who, lastPart: make([]*watch, 0, watchesPerLock)}
}

// ScanNext calls see with the paths of the next watches, at most watchesPerLock of them and in no order, and
// reports whether there are more. A path that is watched in two ways may be seen twice. The scan continues
// after the last watch of the previous part that still exists. If none of them does, it restarts, so that see
// gets some paths again. see is called under a lock: it must not block, nor set or drop watches. A scan that
// has returned false is over.
func (w *Watches) ScanNext(scan *WatchScan, see func(path string)) (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.watchers[scan.watcher]
	if r == nil {
		return false
	}
	e := w.resumeAt(scan, r)
	scan.lastPart = scan.lastPart[:0]
	for range watchesPerLock {
		for e == nil {
			if scan.table++; scan.table == tableKinds {
				return false
			}
			e, scan.lastPart = r.first[scan.table], scan.lastPart[:0]
		}
		see(e.path.path)
		scan.lastPart = append(scan.lastPart, e)
		e = e.sameWatcher.next
	}
	return true
}

// resumeAt returns the watch at which a scan continues, or nil at the end of its table.
func (w *Watches) resumeAt(scan *WatchScan, r *watcherEntry) *watch {
	for i := len(scan.lastPart) - 1; i >= 0; i-- {
		if e := scan.lastPart[i]; w.findWatch(scan.table, e.path.path, scan.watcher) == e {
			return e.sameWatcher.next
		}
	}
	return r.first[scan.table]
}
