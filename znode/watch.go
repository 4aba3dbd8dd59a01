package znode

import (
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Watcher is a connection that watches nodes. It must be comparable, as a pointer is. Its methods never
// block.
type Watcher interface {
	// QueueEvent queues an event, under the tree's write lock.
	QueueEvent(t jute.EventType, path string, zxid int64)
	// Identities returns the connection's identities, under the tree's write lock. An event goes only to
	// connections that may read the node.
	Identities() []*proto.Identity
	// AdjustWatchMemory adds to the memory of the connection's watches; more may be negative. It is called under
	// locks that other connections wait for, so it does no more than that.
	AdjustWatchMemory(more int)
}

// watchOverhead is the approximate memory of a watch without its path, in bytes: its record, the path's
// record, and the path's place in a map.
const watchOverhead = 160

// memoryBytes counts the path for each of its watchers, although they may share it with each other or with a
// node, so that no connection's share depends on others.
func (e *watch) memoryBytes() int { return watchOverhead + len(e.path.path) }

// A visit of a watch takes one step, an event eventSteps and one for each pathBytesPerStep of its path, the
// removal of a one-shot watch removalSteps, and the comparison of an identity with a list one. An address is
// looked up once in the list, which takes addressSteps. An entry has maxFireSteps, which take less than 100 ms
// (BenchmarkWorst). Changes after that are missed: see missed.go.
const (
	maxFireSteps     = 4 << 20
	eventSteps       = 8
	pathBytesPerStep = 16
	removalSteps     = 16
	addressSteps     = 8
)

// notification is a pending change, with the ACLs that decide which watchers receive it.
type notification struct {
	event     jute.EventType
	path      string
	acl       *acl
	parent    string // of the changed node; "" if no node's children changed
	parentACL *acl
}

func (w *Watches) addPending(n notification) {
	if len(w.watchers) != 0 || w.history.keepsChanges() {
		w.pending = append(w.pending, n)
	}
}

// firePending adds all pending changes to the history, notifies their watchers, in order, and drops these changes. The
// events have the zxid and obey the rules.
func (w *Watches) firePending(zxid int64, rules *Rules) {
	f := watchNotifier{w, zxid, rules}
	for i := range w.pending {
		n := &w.pending[i]
		if w.history.keepsChanges() {
			w.history.append(n, zxid)
		}
		if len(w.watchers) == 0 {
			continue
		}
		w.eventNumber++
		f.notifyTable(dataTable, n.event, n.path, n.acl)
		if w.tables[dataTable].recursiveCount > 0 {
			f.notifyAncestors(n)
		}
		if n.event == jute.EventNodeDeleted { // a watcher that was notified as a data watcher is not notified twice
			f.notifyTable(childTable, n.event, n.path, n.acl)
		}
		if n.parent != "" {
			w.eventNumber++
			f.notifyTable(childTable, jute.EventNodeChildrenChanged, n.parent, n.parentACL)
		}
	}
	if w.aclPending {
		w.history.aclsChanged = zxid
	}
	w.dropPending()
}

// maxKeptPending is the number of pending changes for which the memory is kept: a long multi is rare.
const maxKeptPending = 1024

func (w *Watches) dropPending() {
	w.aclPending = false
	if cap(w.pending) > maxKeptPending {
		w.pending = nil
		return
	}
	clear(w.pending)
	w.pending = w.pending[:0]
}

// watchNotifier notifies watchers of the changes of one transaction.
type watchNotifier struct {
	watches *Watches
	zxid    int64
	rules   *Rules
}

// notifyTable notifies the watchers of path in one table. It removes their one-shot watches even if a watcher
// may not read the node or has received the event already.
func (f *watchNotifier) notifyTable(k tableKind, event jute.EventType, path string, a *acl) {
	w := f.watches
	p := w.tables[k].byPath[path]
	if p == nil {
		return
	}
	var next *watch
	for e := p.first; e != nil && !w.markMissedIfExhausted(k, p); e = next {
		next = e.samePath.next
		f.notifyOnce(e.watcherEntry, event, path, a)
		if w.removeModes(k, e, oneShot) {
			w.entrySteps += removalSteps
		}
	}
}

// notifyAncestors notifies the recursive watches on the ancestors of the changed node.
func (f *watchNotifier) notifyAncestors(n *notification) {
	data := &f.watches.tables[dataTable]
	for above := n.path; above != rootPath; {
		if above, _ = splitPath(above); above == "" {
			above = rootPath
		}
		if p := data.byPath[above]; p != nil {
			for e := p.first; e != nil && e.modes&recursive != 0 &&
				!f.watches.markMissedIfExhausted(dataTable, p); e = e.samePath.next {
				f.notifyOnce(e.watcherEntry, n.event, n.path, n.acl)
			}
		}
	}
}

// markMissedIfExhausted takes a step to visit a watch of a path. If the running entry has none left, it marks
// the change as missed and returns true.
func (w *Watches) markMissedIfExhausted(k tableKind, p *watchedPath) bool {
	if w.entrySteps++; w.entrySteps <= maxFireSteps {
		return false
	}
	w.removeMissedPath(k, p)
	return true
}

// notifyOnce sends an event to a watcher that has not received it yet and may read the node.
func (f *watchNotifier) notifyOnce(r *watcherEntry, event jute.EventType, path string, a *acl) {
	if r.lastEvent == f.watches.eventNumber {
		return
	}
	r.lastEvent = f.watches.eventNumber
	if !f.rules.SkipACL && a.worldPerms&jute.PermRead == 0 && !f.mayRead(r, a) {
		return
	}
	f.watches.entrySteps += eventSteps + len(path)/pathBytesPerStep
	r.watcher.QueueEvent(event, path, f.zxid)
}

func (f *watchNotifier) mayRead(r *watcherEntry, a *acl) bool {
	if r.principal == nil {
		r.principal = new(principal)
	}
	r.principal.setIdentities(r.watcher.Identities())
	f.watches.entrySteps += len(r.principal.identities) + addressSteps
	return r.principal.hasAnyPerm(a, jute.PermRead, f.rules)
}

// The rest of this file needs at least the read lock. The empty path is the root. The null path cannot be
// watched.

// AddWatch sets a persistent watch, whether or not there is a node at path. Depending on the mode it covers
// the node and its children, or the node and everything below it.
func (s *State) AddWatch(path []byte, mode jute.AddWatchMode, w Watcher) jute.Code {
	switch mode {
	case jute.AddWatchPersistent, jute.AddWatchPersistentRecursive:
	default:
		return jute.MarshallingError
	}
	if path != nil {
		s.watches.addPersistentWatch(s.replicated.tree.ownedPath(path), mode == jute.AddWatchPersistentRecursive, w)
	}
	return jute.OK
}

// Watches returns the watches of this member's connections.
func (s *State) Watches() *Watches { return &s.watches }

// CheckWatch returns NoWatcher if who has no watch of this type on path.
func (w *Watches) CheckWatch(path []byte, t jute.WatcherType, who Watcher) jute.Code {
	return forWatchType(path, t, who, w.hasWatch)
}

// RemoveWatch removes who's watches of this type on path. It returns NoWatcher if there is none.
func (w *Watches) RemoveWatch(path []byte, t jute.WatcherType, who Watcher) jute.Code {
	return forWatchType(path, t, who, w.removeWatch)
}

// forWatchType calls do for the watches that a checkWatches or removeWatches names.
func forWatchType(
	path []byte, t jute.WatcherType, who Watcher, do func(string, Watcher, modesByTable) bool,
) jute.Code {
	of, known := modesOfType[t]
	switch {
	case !known:
		return jute.MarshallingError
	case path == nil || !do(watchKey(path), who, of):
		return jute.NoWatcher
	}
	return jute.OK
}

var modesOfType = map[jute.WatcherType]modesByTable{
	jute.WatcherChildren:            {childTable: oneShot},
	jute.WatcherData:                {dataTable: oneShot},
	jute.WatcherAny:                 {dataTable: oneShot | persistent | recursive, childTable: oneShot | persistent},
	jute.WatcherPersistent:          {dataTable: persistent, childTable: persistent},
	jute.WatcherPersistentRecursive: {dataTable: recursive},
}

// watchKey returns the key of the watches on a path from the wire, which is not null.
func watchKey(path []byte) string {
	if len(path) == 0 {
		return rootPath
	}
	return borrowString(path)
}

// ownedPath returns watchKey in a form that may be kept: the node's own path, which is in memory already, or
// a copy if there is no node.
func (t *tree) ownedPath(path []byte) string {
	if n := t.nodeAt(borrowString(path)); n != nil {
		return n.path
	}
	return strings.Clone(borrowString(path))
}
