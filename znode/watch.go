package znode

import (
	"iter"
	"strings"

	"rollcall/jute"
	"rollcall/proto"
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

// change is a change that watchers are told about, with the lists that say which of them may be
// told.
type change struct {
	event     jute.EventType
	path      string
	acl       *acl
	parent    string // the parent of the changed node; "" if no node's children changed
	parentACL *acl
}

// changed records a change that the running transaction makes.
func (s *State) changed(c change) {
	if len(s.watches.watchers) != 0 {
		s.changes = append(s.changes, c)
	}
}

// fire tells the watchers of all changes of the running transaction, in order.
func (s *State) fire() {
	for i := range s.changes {
		c := &s.changes[i]
		s.watches.turn++
		s.fireTable(dataTable, c.event, c.path, c.acl)
		if s.watches.tables[dataTable].recursive > 0 {
			s.fireAbove(c)
		}
		if c.event == jute.EventNodeDeleted { // a watcher that was told as a data watcher is not told twice
			s.fireTable(childTable, c.event, c.path, c.acl)
		}
		if c.parent != "" {
			s.watches.turn++
			s.fireTable(childTable, jute.EventNodeChildrenChanged, c.parent, c.parentACL)
		}
	}
	clear(s.changes)
	s.changes = s.changes[:0]
}

// fireTable tells the watchers of path in one table. It removes their one-shot watches even if a
// watcher may not read the node or has had the event already.
func (s *State) fireTable(k tableKind, event jute.EventType, path string, a *acl) {
	w := &s.watches
	p := w.tables[k].paths[path]
	if p == nil {
		return
	}
	var next *watch
	for e := p.first; e != nil && !s.spent(k, p); e = next {
		next = e.samePath.next
		s.tell(e.who, event, path, a)
		if w.subtract(k, e, once) {
			w.steps += removeSteps
		}
	}
}

// fireAbove notifies the watches on an ancestor of the changed node that cover everything below it.
func (s *State) fireAbove(c *change) {
	data := &s.watches.tables[dataTable]
	for above := c.path; above != rootPath; {
		if above, _ = cutPath(above); above == "" {
			above = rootPath
		}
		if p := data.paths[above]; p != nil {
			for e := p.first; e != nil && e.modes&recursive != 0 && !s.spent(dataTable, p); e = e.samePath.next {
				s.tell(e.who, c.event, c.path, c.acl)
			}
		}
	}
}

// spent reports whether the running entry has no steps left to visit a watch of a path. Then the change is missed.
func (s *State) spent(k tableKind, p *watched) bool {
	w := &s.watches
	if w.steps++; w.steps <= maxFireSteps {
		return false
	}
	w.miss(k, p)
	return true
}

// tell sends an event to a watcher that has not had it yet and may read the node.
func (s *State) tell(r *watching, event jute.EventType, path string, a *acl) {
	if r.told == s.watches.turn {
		return
	}
	r.told = s.watches.turn
	if !s.term.SkipACL && a.open&jute.PermRead == 0 && !s.mayRead(r, a) {
		return
	}
	s.watches.steps += eventSteps + len(path)/eventBytes
	r.watcher.Event(event, path, s.zxid)
}

// mayRead reports whether a watcher may read nodes with a list.
func (s *State) mayRead(r *watching, a *acl) bool {
	if r.asker == nil {
		r.asker = new(asker)
	}
	r.asker.be(r.watcher.Identities())
	s.watches.steps += len(r.asker.ids) + lengthSteps*len(a.lengths)
	return r.asker.may(a, jute.PermRead, s.term.SASL)
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

// CheckWatches returns NoWatcher if w has no watch of this type on path.
func (s *State) CheckWatches(path []byte, t jute.WatcherType, w Watcher) jute.Code {
	return s.ofType(path, t, w, (*watches).has)
}

// RemoveWatches removes w's watches of this type on path. It returns NoWatcher if there is none.
func (s *State) RemoveWatches(path []byte, t jute.WatcherType, w Watcher) jute.Code {
	return s.ofType(path, t, w, (*watches).unwatch)
}

// ofType calls do for the watches that a checkWatches or removeWatches names.
func (s *State) ofType(path []byte, t jute.WatcherType, w Watcher, do func(*watches, string, Watcher, byTable) bool) jute.Code {
	of, known := watchTypes[t]
	switch {
	case !known:
		return jute.MarshallingError
	case path == nil || !do(&s.watches, watchPath(path), w, of):
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

// DropWatcher removes watches of a closed connection, up to watchesPerLock of them. It reports
// whether there are more.
func (s *State) DropWatcher(w Watcher) (more bool) { return s.watches.drop(w) }

// WatchCount returns how many watches this member's connections have set. As in ZooKeeper, all of
// one connection's watches on one node's data count as one, and all its watches on the node's
// children as another.
func (s *State) WatchCount() int { return s.watches.count(dataTable, childTable) }

// The rest of this file covers watches on nodes, not those on their children: the four-letter words
// that list watches show no others.

// NodeWatchCount returns how many watches on nodes there are.
func (s *State) NodeWatchCount() int { return s.watches.count(dataTable) }

// WatchedPaths returns how many paths are watched.
func (s *State) WatchedPaths() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return len(s.watches.tables[dataTable].paths)
}

// WatchingCount returns how many connections have a watch.
func (s *State) WatchingCount() int {
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	return s.watches.tables[dataTable].watchers
}

// Watches yields each watched path with each of its watchers; the watchers of one path come
// together. Others may set and drop watches meanwhile: such a watch may be missing, or be yielded
// although it is gone. Watches keeps at most one path's watchers and a few more in memory, and
// holds no lock of its own while it yields.
func (s *State) Watches() iter.Seq2[string, Watcher] {
	return s.watches.byPath
}

// WatchesByWatcher is like Watches, but the paths of one watcher come together.
func (s *State) WatchesByWatcher() iter.Seq2[Watcher, string] {
	return s.watches.byWatcher
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
func (s *State) keptPath(path []byte) string {
	if n := s.get(borrow(path)); n != nil {
		return n.path
	}
	return strings.Clone(borrow(path))
}
