package znode

import (
	"sync"
	"sync/atomic"
)

// Watches holds this member's watches on nodes and on their children. The zero value is ready.
//
// Its methods need at least the tree's read lock. Readers, which hold the tree's read lock, set and drop watches under mu. mu is taken inside the
// tree's lock, and nothing but Watcher.Watching is called while it is held. The holder of the tree's write lock is
// alone, so it fires watches without mu.
type Watches struct {
	mu       sync.Mutex
	tables   [tableKinds]watchTable
	watchers map[Watcher]*watching
	pending  []notification // of the running transaction
	turn     uint64         // counted up for each event that a watcher gets at most once
	steps    int            // see maxFireSteps
	missed   atomic.Uint64  // paths that miss took out; see MissedPaths
}

// tableKind is the target of a table's watches: nodes or their children.
type tableKind int

const (
	dataTable  tableKind = iota // on a node: it is created or deleted, or its data change
	childTable                  // on a node's children
	tableKinds
)

// watchTable holds at most one watch for each pair of path and watcher.
type watchTable struct {
	paths     map[string]*watched
	n         int // the number of watches
	recursive int // how many of them are recursive
	watchers  int // how many watchers have any
}

// modes is the set of ways in which one watcher watches one path in one table.
type modes uint8

const (
	once       modes = 1 << iota // removed when it fires
	persistent                   // stays when it fires
	recursive                    // stays, and covers everything below; in the data table only
)

// byTable holds the modes for each table.
type byTable [tableKinds]modes

// watched is a path with watchers in one table. Its recursive watches come first, so that an event
// far below costs nothing for the others.
type watched struct {
	path        string
	first, last *watch
	crowd       map[*watching]*watch // all of them; nil as long as there are few
	n           int
	missed      bool // a change was not reported, and the path is in no table: see miss
}

// few is the number of watches on one path up to which a linear search is used. A map for so few
// would take more memory than the watches.
const few = 8

// watching is a watcher, with its watches.
type watching struct {
	watcher Watcher
	first   [tableKinds]*watch
	n       int    // the number of its watches, in all tables
	told    uint64 // the turn of the last event that it got, or would have got if it might read the node
	asker   *asker // the watcher's identities; nil: no list was compared with them yet

	unsearched [tableKinds]*watch // the first watches that search has not looked at
}

// watch is one entry of a table.
type watch struct {
	path                  *watched
	who                   *watching
	samePath, sameWatcher neighbours
	modes                 modes
}

// neighbours are an entry's neighbours in one of its two lists.
type neighbours struct{ prev, next *watch }

// watchesPerLock is the number of watches that are dropped or listed under one hold of the lock. Meanwhile readers that set
// watches wait, and so does apply, which waits for those readers.
const watchesPerLock = 1024

// watchData sets a one-shot watch of who on the node at path. It keeps path, which must be the
// node's own or a copy, not borrowed.
func (w *Watches) watchData(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(dataTable, path, who, once)
}

// watchChildren sets a one-shot watch of who on the node's children, likewise.
func (w *Watches) watchChildren(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.add(childTable, path, who, once)
}

// watchAlways sets a persistent watch of who on the node and its children or, if below is set, on
// the node and everything below it.
func (w *Watches) watchAlways(path string, below bool, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if below {
		w.add(dataTable, path, who, recursive)
		return
	}
	w.add(dataTable, path, who, persistent)
	w.add(childTable, path, who, persistent)
}

// has reports whether who watches path in one of these ways.
func (w *Watches) has(path string, who Watcher, of byTable) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, m := range of {
		if e := w.find(tableKind(k), path, who); e != nil && e.modes&m != 0 {
			return true
		}
	}
	return false
}

// unwatch removes all these ways in which who watches path, and reports whether there were any.
func (w *Watches) unwatch(path string, who Watcher, of byTable) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for k, m := range of {
		if e := w.find(tableKind(k), path, who); e != nil && w.subtract(tableKind(k), e, m) {
			found = true
		}
	}
	return found
}

// Drop removes watches of a closed connection, up to watchesPerLock of them. It reports whether there are more.
func (w *Watches) Drop(who Watcher) (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.watchers[who]
	if r == nil {
		return false
	}
	left := watchesPerLock
	for k := range tableKinds {
		for ; left > 0 && r.first[k] != nil; left-- {
			w.subtract(k, r.first[k], r.first[k].modes)
		}
	}
	return w.watchers[who] != nil
}

// Count returns the number of watches that this member's connections have set. As in ZooKeeper, all of
// one connection's watches on one node's data count as one, and all its watches on the node's
// children as another.
func (w *Watches) Count() int { return w.count(dataTable, childTable) }

// NodeCount returns the number of watches on nodes, without those on their children. The four-letter commands
// that list watches show no others, so PathCount, WatcherCount, ByPath and ByWatcher leave them out, too.
func (w *Watches) NodeCount() int { return w.count(dataTable) }

// PathCount returns the number of watched paths.
func (w *Watches) PathCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tables[dataTable].paths)
}

// WatcherCount returns the number of connections that have a watch.
func (w *Watches) WatcherCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tables[dataTable].watchers
}

// count returns the number of watches in the given tables.
func (w *Watches) count(kinds ...tableKind) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, k := range kinds {
		n += w.tables[k].n
	}
	return n
}

// listed is a watch in the data table.
type listed struct {
	path string
	who  Watcher
}

// ByPath yields each watched path with each of its watchers; the watchers of one path come
// together. Other goroutines may set and drop watches meanwhile: such a watch may be missing, or be yielded
// although it is gone. ByPath keeps at most one path's watchers and a few more in memory, and
// holds no lock of its own while it yields.
func (w *Watches) ByPath(yield func(string, Watcher) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch []listed
	flush := func() bool {
		return w.unlocked(batch, func(l listed) bool { return yield(l.path, l.who) })
	}
	for _, p := range w.tables[dataTable].paths {
		for e := p.first; e != nil; e = e.samePath.next {
			batch = append(batch, listed{p.path, e.who.watcher})
		}
		if len(batch) >= watchesPerLock {
			if !flush() {
				return
			}
			batch = batch[:0]
		}
	}
	flush()
}

// ByWatcher is like ByPath, but the paths of one watcher come together.
func (w *Watches) ByWatcher(yield func(Watcher, string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var batch []listed
	flush := func() bool {
		return w.unlocked(batch, func(l listed) bool { return yield(l.who, l.path) })
	}
	for _, r := range w.watchers {
		for e := r.first[dataTable]; e != nil; e = e.sameWatcher.next {
			batch = append(batch, listed{e.path.path, r.watcher})
		}
		if len(batch) >= watchesPerLock {
			if !flush() {
				return
			}
			batch = batch[:0]
		}
	}
	flush()
}

// unlocked calls yield for each watch of a batch, and reports whether yield never returned false.
// It releases the lock, which the caller holds, meanwhile.
func (w *Watches) unlocked(batch []listed, yield func(listed) bool) bool {
	w.mu.Unlock()
	defer w.mu.Lock()
	for _, l := range batch {
		if !yield(l) {
			return false
		}
	}
	return true
}

// The rest of this file needs mu or the tree's write lock.

// add adds a mode to a watch, which it creates if there is none.
func (w *Watches) add(k tableKind, path string, who Watcher, m modes) {
	t := &w.tables[k]
	p := t.paths[path]
	if p == nil {
		if t.paths == nil {
			t.paths = map[string]*watched{}
		}
		p = &watched{path: path}
		t.paths[path] = p
	}
	r := w.watchers[who]
	if r == nil {
		if w.watchers == nil {
			w.watchers = map[Watcher]*watching{}
		}
		r = &watching{watcher: who}
		w.watchers[who] = r
	}
	e := p.find(r)
	switch {
	case e == nil:
		e = &watch{path: p, who: r, modes: m}
		p.enlist(e)
		t.n++
		if r.link(k, e); e.sameWatcher.next == nil {
			t.watchers++
		}
	case e.modes&m != 0:
		return
	case m == recursive:
		p.unlink(e)
		e.modes |= m
		p.link(e)
	default:
		e.modes |= m
	}
	if m == recursive {
		t.recursive++
	}
}

// subtract removes modes from a watch, and removes the watch with its last mode. It reports whether
// the watch had any of them.
func (w *Watches) subtract(k tableKind, e *watch, m modes) bool {
	if m &= e.modes; m == 0 {
		return false
	}
	t := &w.tables[k]
	e.modes &^= m
	if m&recursive != 0 {
		t.recursive--
		e.path.unlink(e)
		e.path.link(e)
	}
	if e.modes != 0 {
		return true
	}
	if e.path.delist(e); e.path.first == nil && !e.path.missed {
		delete(t.paths, e.path.path)
	}
	t.n--
	if e.who.unlink(k, e); e.who.first[k] != nil {
		return true
	}
	t.watchers--
	if e.who.first == [tableKinds]*watch{} {
		delete(w.watchers, e.who.watcher)
	}
	return true
}

// find returns the watch of who on path, or nil if there is none.
func (w *Watches) find(k tableKind, path string, who Watcher) *watch {
	p, r := w.tables[k].paths[path], w.watchers[who]
	if p == nil || r == nil {
		return nil
	}
	return p.find(r)
}

func (p *watched) find(r *watching) *watch {
	if p.crowd != nil {
		return p.crowd[r]
	}
	for e := p.first; e != nil; e = e.samePath.next {
		if e.who == r {
			return e
		}
	}
	return nil
}

// enlist adds a new watch to p.
func (p *watched) enlist(e *watch) {
	p.link(e)
	switch p.n++; {
	case p.crowd != nil:
		p.crowd[e.who] = e
	case p.n > few:
		p.crowd = make(map[*watching]*watch, 2*few)
		for e := p.first; e != nil; e = e.samePath.next {
			p.crowd[e.who] = e
		}
	}
}

// delist removes a watch from p.
func (p *watched) delist(e *watch) {
	p.unlink(e)
	p.n--
	delete(p.crowd, e.who)
}

// link puts a watch at the place that its modes call for.
func (p *watched) link(e *watch) {
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

func (p *watched) unlink(e *watch) {
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
	e.samePath = neighbours{}
}

func (r *watching) link(k tableKind, e *watch) {
	e.sameWatcher.next = r.first[k]
	if r.first[k] != nil {
		r.first[k].sameWatcher.prev = e
	}
	r.first[k] = e
	r.n++
	r.watcher.Watching(e.bytes())
}

func (r *watching) unlink(k tableKind, e *watch) {
	prev, next := e.sameWatcher.prev, e.sameWatcher.next
	if prev == nil {
		r.first[k] = next
	} else {
		prev.sameWatcher.next = next
	}
	if next != nil {
		next.sameWatcher.prev = prev
	}
	if r.unsearched[k] == e {
		r.unsearched[k] = next
	}
	e.sameWatcher = neighbours{}
	r.n--
	r.watcher.Watching(-e.bytes())
}
