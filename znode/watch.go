package znode

import (
	"strings"

	"rollcall/proto"
	"rollcall/zk/jute"
)

// Watcher is a connection that watches nodes. It must be comparable; a pointer is.
type Watcher interface {
	// Event queues an event. It is called under the tree's write lock, and never blocks.
	Event(t jute.EventType, path string, zxid int64)
	// Identities returns the connection's identities: an event goes only to connections that may
	// read the node. It is called under the tree's write lock, and never blocks.
	Identities() []*proto.Identity
	// Watching notes that the connection's watches take so many more bytes of memory, or fewer if more is negative. It is called
	// under locks for which other connections wait, and does no more than that.
	Watching(more int)
}

// watchOverhead is about how many bytes of memory a watch takes beside its path: its record, that of the path, and the place of the
// path in a map.
const watchOverhead = 160

// bytes returns about how many bytes a watch takes. The path counts for each of its watchers, although they may share it, or share it
// with a node, so that no connection's share depends on others.
func (e *watch) bytes() int { return watchOverhead + len(e.path.path) }

// A visit of a watch takes one step, an event eventSteps and one for each eventBytes of its path, the removal of a one-shot watch
// removeSteps, and each identity that is compared with a list one. An address is looked up once for each number of bits that count
// in the list, which takes lengthSteps. The sum for one entry is at most maxFireSteps, which take less than 100 ms: BenchmarkWorst.
// Whatever is met after that is missed: see missed.go.
const (
	maxFireSteps = 4 << 20
	eventSteps   = 8
	eventBytes   = 16
	removeSteps  = 16
	lengthSteps  = 6
)

// notification is a change of the tree that is pending for the watches, with the lists that decide which
// watchers may receive it.
type notification struct {
	event     jute.EventType
	path      string
	acl       *acl
	parent    string // the parent of the changed node; "" if no node's children changed
	parentACL *acl
}

// note adds a change that the running transaction makes.
func (w *Watches) note(n notification) {
	if len(w.watchers) != 0 {
		w.pending = append(w.pending, n)
	}
}

// fire notifies the watchers of all pending changes, in order, and drops these. The events have the zxid and
// obey the rules.
func (w *Watches) fire(zxid int64, rules *Rules) {
	f := firing{w, zxid, rules}
	for i := range w.pending {
		n := &w.pending[i]
		w.turn++
		f.table(dataTable, n.event, n.path, n.acl)
		if w.tables[dataTable].recursive > 0 {
			f.above(n)
		}
		if n.event == jute.EventNodeDeleted { // a watcher that was notified as a data watcher is not notified twice
			f.table(childTable, n.event, n.path, n.acl)
		}
		if n.parent != "" {
			w.turn++
			f.table(childTable, jute.EventNodeChildrenChanged, n.parent, n.parentACL)
		}
	}
	w.discard()
}

// discard drops the pending changes.
func (w *Watches) discard() {
	clear(w.pending)
	w.pending = w.pending[:0]
}

// firing notifies watchers of the changes of one transaction.
type firing struct {
	watches *Watches
	zxid    int64
	rules   *Rules
}

// table notifies the watchers of path in one table. It removes their one-shot watches even if a
// watcher may not read the node or has had the event already.
func (f *firing) table(k tableKind, event jute.EventType, path string, a *acl) {
	w := f.watches
	p := w.tables[k].paths[path]
	if p == nil {
		return
	}
	var next *watch
	for e := p.first; e != nil && !w.spent(k, p); e = next {
		next = e.samePath.next
		f.notify(e.who, event, path, a)
		if w.subtract(k, e, once) {
			w.steps += removeSteps
		}
	}
}

// above notifies the watches on an ancestor of the changed node that cover everything below it.
func (f *firing) above(n *notification) {
	data := &f.watches.tables[dataTable]
	for above := n.path; above != rootPath; {
		if above, _ = cutPath(above); above == "" {
			above = rootPath
		}
		if p := data.paths[above]; p != nil {
			for e := p.first; e != nil && e.modes&recursive != 0 && !f.watches.spent(dataTable, p); e = e.samePath.next {
				f.notify(e.who, n.event, n.path, n.acl)
			}
		}
	}
}

// spent reports whether the running entry has no steps left to visit a watch of a path. Then the change is missed.
func (w *Watches) spent(k tableKind, p *watched) bool {
	if w.steps++; w.steps <= maxFireSteps {
		return false
	}
	w.miss(k, p)
	return true
}

// notify sends an event to a watcher that has not had it yet and may read the node.
func (f *firing) notify(r *watching, event jute.EventType, path string, a *acl) {
	if r.told == f.watches.turn {
		return
	}
	r.told = f.watches.turn
	if !f.rules.SkipACL && a.open&jute.PermRead == 0 && !f.mayRead(r, a) {
		return
	}
	f.watches.steps += eventSteps + len(path)/eventBytes
	r.watcher.Event(event, path, f.zxid)
}

// mayRead reports whether a watcher may read nodes with a list.
func (f *firing) mayRead(r *watching, a *acl) bool {
	if r.asker == nil {
		r.asker = new(asker)
	}
	r.asker.be(r.watcher.Identities())
	f.watches.steps += len(r.asker.ids) + lengthSteps*len(a.lengths)
	return r.asker.may(a, jute.PermRead, f.rules.SASL)
}

// The rest of this file needs at least the read lock. The empty path is the root; the null path
// cannot be watched.

// AddWatch sets a watch that stays after it fires, whether or not there is a node at path. The mode
// says what it covers: the node and its children, or the node and everything below it.
func (s *State) AddWatch(path []byte, mode jute.AddWatchMode, w Watcher) jute.Code {
	switch mode {
	case jute.AddWatchPersistent, jute.AddWatchPersistentRecursive:
	default:
		return jute.MarshallingError
	}
	if path != nil {
		s.watches.watchAlways(s.keptPath(path), mode == jute.AddWatchPersistentRecursive, w)
	}
	return jute.OK
}

// Watches returns the watches of this member's connections.
func (s *State) Watches() *Watches { return &s.watches }

// Check returns NoWatcher if who has no watch of this type on path.
func (w *Watches) Check(path []byte, t jute.WatcherType, who Watcher) jute.Code {
	return ofType(path, t, who, w.has)
}

// Remove removes who's watches of this type on path. It returns NoWatcher if there is none.
func (w *Watches) Remove(path []byte, t jute.WatcherType, who Watcher) jute.Code {
	return ofType(path, t, who, w.unwatch)
}

// ofType calls do for the watches that a checkWatches or removeWatches names.
func ofType(path []byte, t jute.WatcherType, who Watcher, do func(string, Watcher, byTable) bool) jute.Code {
	of, known := watchTypes[t]
	switch {
	case !known:
		return jute.MarshallingError
	case path == nil || !do(watchPath(path), who, of):
		return jute.NoWatcher
	}
	return jute.OK
}

// watchTypes maps a type to the watches that it covers.
var watchTypes = map[jute.WatcherType]byTable{
	jute.WatcherChildren:            {childTable: once},
	jute.WatcherData:                {dataTable: once},
	jute.WatcherAny:                 {dataTable: once | persistent | recursive, childTable: once | persistent},
	jute.WatcherPersistent:          {dataTable: persistent, childTable: persistent},
	jute.WatcherPersistentRecursive: {dataTable: recursive},
}

// watchPath returns the name under which the watches on a path from the wire, which is not null,
// are stored.
func watchPath(path []byte) string {
	if len(path) == 0 {
		return rootPath
	}
	return borrow(path)
}

// keptPath returns watchPath in a form that may be kept. If there is a node, that is the node's own
// path, which is in memory already. Otherwise it is a copy.
func (t *tree) keptPath(path []byte) string {
	if n := t.get(borrow(path)); n != nil {
		return n.path
	}
	return strings.Clone(borrow(path))
}
