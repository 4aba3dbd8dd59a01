package znode

import (
	"sync"
	"sync/atomic"
)

// Watches holds this member's watches on nodes and on their children. The zero value is ready.
//
// Its methods need at least the tree's read lock. Readers set and drop watches under mu, which is taken
// inside the tree's lock. Under mu only Watcher.AdjustWatchMemory is called. Watches fire without mu, because
// the holder of the tree's write lock is alone.
type Watches struct {
	mu              sync.Mutex
	tables          [tableKinds]watchTable
	watchers        map[Watcher]*watcherEntry
	pending         []notification // of the running transaction
	aclPending      bool           // the running transaction has changed an ACL
	eventNumber     uint64         // incremented for each event that a watcher gets at most once
	entrySteps      int            // see maxFireSteps
	missedPathCount atomic.Uint64  // see MissedPathCount
	history         changeHistory  // guarded by the tree's lock, not by mu
}

// tableKind is the target of a table's watches.
type tableKind int

const (
	dataTable  tableKind = iota // on a node: it is created or deleted, or its data change
	childTable                  // on a node's children
	tableKinds
)

// watchTable holds at most one watch for each pair of path and watcher.
type watchTable struct {
	byPath         map[string]*watchedPath
	watchCount     int
	recursiveCount int
	watcherCount   int
}

// watchModes is the set of ways in which a watcher watches a path in one table.
type watchModes uint8

const (
	oneShot    watchModes = 1 << iota // removed when it fires
	persistent                        // stays when it fires
	recursive                         // stays, and covers everything below; in the data table only
)

type modesByTable [tableKinds]watchModes

// watchedPath is a path with watchers in one table. Its recursive watches come first, so that an event far
// below costs nothing for the others.
type watchedPath struct {
	path         string
	first, last  *watch
	byWatcher    map[*watcherEntry]*watch // nil if there are few watches
	watchCount   int
	changeMissed bool  // the path is in no table: see removeMissedPath
	own          watch // memory for one of the watches, free while its watcherEntry is nil: most paths have one watch
}

// maxLinearSearch is the number of watches on a path above which they have a map. For fewer, a map would take
// more memory than the watches.
const maxLinearSearch = 8

type watcherEntry struct {
	watcher    Watcher
	first      [tableKinds]*watch
	watchCount int        // in all tables
	lastEvent  uint64     // eventNumber of the last event that it received, or would have if it might read the node
	principal  *principal // nil until its identities are compared with a list

	firstUnsearched [tableKinds]*watch // the first watches that SearchMissed has not checked
}

// watch is one entry of a table.
type watch struct {
	path                  *watchedPath
	watcherEntry          *watcherEntry
	samePath, sameWatcher listLinks
	modes                 watchModes
}

// listLinks are an entry's neighbours in one of its two lists.
type listLinks struct{ prev, next *watch }

// watchesPerLock limits the watches that are dropped or listed under one hold of the lock. Meanwhile readers
// that set watches wait, and apply waits for those readers.
const watchesPerLock = 1024

// addDataWatch sets a one-shot watch of who on the node at path. It keeps path, which must be the node's own or
// a copy, not borrowed.
func (w *Watches) addDataWatch(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addMode(dataTable, path, who, oneShot)
}

// addChildWatch does the same for the node's children.
func (w *Watches) addChildWatch(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addMode(childTable, path, who, oneShot)
}

// addPersistentWatch sets a persistent watch of who on the node and its children or, if below is set, on the
// node and everything below it.
func (w *Watches) addPersistentWatch(path string, below bool, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if below {
		w.addMode(dataTable, path, who, recursive)
		return
	}
	w.addMode(dataTable, path, who, persistent)
	w.addMode(childTable, path, who, persistent)
}

// hasWatch reports whether who watches path in one of these ways.
func (w *Watches) hasWatch(path string, who Watcher, of modesByTable) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, m := range of {
		if e := w.findWatch(tableKind(k), path, who); e != nil && e.modes&m != 0 {
			return true
		}
	}
	return false
}

// removeWatch removes these modes of who's watches on path, and reports whether there were any.
func (w *Watches) removeWatch(path string, who Watcher, of modesByTable) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for k, m := range of {
		if e := w.findWatch(tableKind(k), path, who); e != nil && w.removeModes(tableKind(k), e, m) {
			found = true
		}
	}
	return found
}

// DropWatches removes up to watchesPerLock watches of a closed connection, and reports whether there are
// more.
func (w *Watches) DropWatches(who Watcher) (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.watchers[who]
	if r == nil {
		return false
	}
	left := watchesPerLock
	for k := range tableKinds {
		for ; left > 0 && r.first[k] != nil; left-- {
			w.removeModes(k, r.first[k], r.first[k].modes)
		}
	}
	return w.watchers[who] != nil
}

// WatchCount returns the number of watches. As in ZooKeeper, all of a connection's watches on a node's data count
// as one, and all its watches on the node's children as another.
func (w *Watches) WatchCount() int { return w.countIn(dataTable, childTable) }

// DataWatchCount returns the number of watches on nodes, without those on their children. The four-letter commands
// that list watches show no others, so DataPathCount and DataWatcherCount leave them out, too.
func (w *Watches) DataWatchCount() int { return w.countIn(dataTable) }

// DataPathCount returns the number of watched paths.
func (w *Watches) DataPathCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tables[dataTable].byPath)
}

// DataWatcherCount returns the number of connections with a watch.
func (w *Watches) DataWatcherCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[dataTable].watcherCount
}

func (w *Watches) countIn(kinds ...tableKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, k := range kinds {
		n += w.tables[k].watchCount
	}
	return n
}

// The rest of this file needs mu or the tree's write lock.

// addMode adds a mode to a watch, and creates the watch if there is none.
func (w *Watches) addMode(k tableKind, path string, who Watcher, m watchModes) {
	t := &w.tables[k]
	p := t.byPath[path]
	if p == nil {
		if t.byPath == nil {
			t.byPath = map[string]*watchedPath{}
		}
		p = &watchedPath{path: path}
		t.byPath[path] = p
	}
	r := w.watchers[who]
	if r == nil {
		if w.watchers == nil {
			w.watchers = map[Watcher]*watcherEntry{}
		}
		r = &watcherEntry{watcher: who}
		w.watchers[who] = r
	}
	e := p.findWatch(r)
	switch {
	case e == nil:
		e = p.newWatch(r, m)
		p.addWatch(e)
		t.watchCount++
		if r.linkWatch(k, e); e.sameWatcher.next == nil {
			t.watcherCount++
		}
	case e.modes&m != 0:
		return
	case m == recursive:
		p.unlinkWatch(e)
		e.modes |= m
		p.linkWatch(e)
	default:
		e.modes |= m
	}
	if m == recursive {
		t.recursiveCount++
	}
}

// removeModes removes modes from a watch, and the watch with its last mode. It reports whether the watch had
// any of them.
func (w *Watches) removeModes(k tableKind, e *watch, m watchModes) bool {
	if m &= e.modes; m == 0 {
		return false
	}
	t := &w.tables[k]
	e.modes &^= m
	if m&recursive != 0 {
		t.recursiveCount--
		e.path.unlinkWatch(e)
		e.path.linkWatch(e)
	}
	if e.modes != 0 {
		return true
	}
	if e.path.removeWatch(e); e.path.first == nil && !e.path.changeMissed {
		delete(t.byPath, e.path.path)
	}
	t.watchCount--
	r := e.watcherEntry
	r.unlinkWatch(k, e)
	e.watcherEntry = nil
	if r.first[k] != nil {
		return true
	}
	t.watcherCount--
	if r.first == [tableKinds]*watch{} {
		delete(w.watchers, r.watcher)
	}
	return true
}

// findWatch returns the watch of who on path, or nil.
func (w *Watches) findWatch(k tableKind, path string, who Watcher) *watch {
	p, r := w.tables[k].byPath[path], w.watchers[who]
	if p == nil || r == nil {
		return nil
	}
	return p.findWatch(r)
}

func (p *watchedPath) findWatch(r *watcherEntry) *watch {
	if p.byWatcher != nil {
		return p.byWatcher[r]
	}
	for e := p.first; e != nil; e = e.samePath.next {
		if e.watcherEntry == r {
			return e
		}
	}
	return nil
}

func (p *watchedPath) newWatch(r *watcherEntry, m watchModes) *watch {
	e := &p.own
	if e.watcherEntry != nil {
		e = &watch{}
	}
	*e = watch{path: p, watcherEntry: r, modes: m}
	return e
}

func (p *watchedPath) addWatch(e *watch) {
	p.linkWatch(e)
	switch p.watchCount++; {
	case p.byWatcher != nil:
		p.byWatcher[e.watcherEntry] = e
	case p.watchCount > maxLinearSearch:
		p.byWatcher = make(map[*watcherEntry]*watch, 2*maxLinearSearch)
		for e := p.first; e != nil; e = e.samePath.next {
			p.byWatcher[e.watcherEntry] = e
		}
	}
}

func (p *watchedPath) removeWatch(e *watch) {
	p.unlinkWatch(e)
	p.watchCount--
	delete(p.byWatcher, e.watcherEntry)
}

// linkWatch puts recursive watches first.
func (p *watchedPath) linkWatch(e *watch) {
	switch {
	case p.first == nil:
		p.first, p.last = e, e
	case e.modes&recursive != 0:
		e.samePath.next, p.first.samePath.prev = p.first, e
		p.first = e
	default:
		e.samePath.prev, p.last.samePath.next = p.last, e
		p.last = e
	}
}

func (p *watchedPath) unlinkWatch(e *watch) {
	prev, next := e.samePath.prev, e.samePath.next
	if prev == nil {
		p.first = next
	} else {
		prev.samePath.next = next
	}
	if next == nil {
		p.last = prev
	} else {
		next.samePath.prev = prev
	}
	e.samePath = listLinks{}
}

func (r *watcherEntry) linkWatch(k tableKind, e *watch) {
	e.sameWatcher.next = r.first[k]
	if r.first[k] != nil {
		r.first[k].sameWatcher.prev = e
	}
	r.first[k] = e
	r.watchCount++
	r.watcher.AdjustWatchMemory(e.memoryBytes())
}

func (r *watcherEntry) unlinkWatch(k tableKind, e *watch) {
	prev, next := e.sameWatcher.prev, e.sameWatcher.next
	if prev == nil {
		r.first[k] = next
	} else {
		prev.sameWatcher.next = next
	}
	if next != nil {
		next.sameWatcher.prev = prev
	}
	if r.firstUnsearched[k] == e {
		r.firstUnsearched[k] = next
	}
	e.sameWatcher = listLinks{}
	r.watchCount--
	r.watcher.AdjustWatchMemory(-e.memoryBytes())
}
