package znode

import (
	"strings"
	"sync"

	"rollcall/jute"
	"rollcall/proto"
)

// Watcher is a connection that watches nodes. It must be comparable, as a pointer is.
type Watcher interface {
	// Event queues an event. It is called under the tree's write lock, and never blocks.
	Event(t jute.EventType, path string, zxid int64)
	// Identities returns who the connection is: an event goes only to those who may read
	// the node. It is called under the tree's write lock, and never blocks.
	Identities() []*proto.Identity
}

// watches are this member's: who waits for changes of a node, and who for changes of
// its children. The zero value is ready.
//
// Readers, who hold the tree's read lock, set and drop watches under mu; mu is taken
// inside the tree's lock and nothing is called under it. The holder of the tree's write
// lock is alone and fires without it.
type watches struct {
	mu    sync.Mutex
	data  watchTable
	child watchTable
	fired []Watcher // memory for fire
	later []Watcher
}

// modes is the set of ways in which one watcher watches one path in one table.
type modes uint8

// once is a watch that is gone when it has fired.
const once modes = 1

// watchTable holds at most one entry for a path and a watcher.
type watchTable struct {
	entries   map[watchKey]*watch
	byPath    map[string]*watch  // first of a list
	byWatcher map[Watcher]*watch // first of a list
}

type watchKey struct {
	path    string
	watcher Watcher
}

type watch struct {
	watchKey
	modes                 modes
	samePath, sameWatcher neighbours
}

// neighbours are an entry's in one of the two lists it is in.
type neighbours struct{ prev, next *watch }

// change is something that watchers hear of, with the lists that say which of them may.
type change struct {
	event     jute.EventType
	path      string
	acl       *acl
	parent    string // "" if the children of no node changed
	parentACL *acl
}

// changed notes a change that the running transaction makes.
func (s *State) changed(c change) {
	if len(s.watches.data.entries) != 0 || len(s.watches.child.entries) != 0 {
		s.changes = append(s.changes, c)
	}
}

// fire tells the watchers of all changes of the running transaction, in order.
func (s *State) fire() {
	w := &s.watches
	for _, c := range s.changes {
		if c.event == jute.EventNodeDeleted { // who is told as a data watcher is not told twice
			w.later = w.child.take(w.later[:0], c.path, &w.data)
		}
		w.fired = w.data.take(w.fired[:0], c.path, nil)
		s.tell(w.fired, c.event, c.path, c.acl)
		s.tell(w.later, c.event, c.path, c.acl)
		clear(w.later)
		w.later = w.later[:0]
		if c.parent != "" {
			w.fired = w.child.take(w.fired[:0], c.parent, nil)
			s.tell(w.fired, jute.EventNodeChildrenChanged, c.parent, c.parentACL)
		}
		clear(w.fired)
	}
	clear(s.changes)
	s.changes = s.changes[:0]
}

// tell sends an event to those who may read the node.
func (s *State) tell(watchers []Watcher, event jute.EventType, path string, a *acl) {
	anyone := s.cfg.SkipACL || a.open&jute.PermRead != 0
	for _, w := range watchers {
		if anyone || a.allows(jute.PermRead, w.Identities()) {
			w.Event(event, path, s.zxid)
		}
	}
}

// watchData makes w hear of the next change of the node at path. path is not kept if
// it is borrowed: it is copied where needed.
func (w *watches) watchData(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data.add(path, who, once)
}

// watchChildren is the same for the node's children.
func (w *watches) watchChildren(path string, who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.child.add(path, who, once)
}

// drop forgets all watches of one watcher, at a cost in proportion to their number.
func (w *watches) drop(who Watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data.drop(who)
	w.child.drop(who)
}

// count returns how many watches there are.
func (w *watches) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.data.entries) + len(w.child.entries)
}

func (t *watchTable) add(path string, who Watcher, m modes) {
	if e := t.entries[watchKey{path, who}]; e != nil {
		e.modes |= m
		return
	}
	if t.entries == nil {
		t.entries, t.byPath, t.byWatcher = map[watchKey]*watch{}, map[string]*watch{}, map[Watcher]*watch{}
	}
	first := t.byPath[path]
	if first != nil {
		path = first.path
	} else {
		path = strings.Clone(path)
	}
	e := &watch{watchKey: watchKey{path, who}, modes: m}
	t.entries[e.watchKey] = e
	if e.samePath.next = first; first != nil {
		first.samePath.prev = e
	}
	t.byPath[path] = e
	first = t.byWatcher[who]
	if e.sameWatcher.next = first; first != nil {
		first.sameWatcher.prev = e
	}
	t.byWatcher[who] = e
}

// take removes what was set once on path and appends those watchers to dst, except who
// is in the other table for the same path.
func (t *watchTable) take(dst []Watcher, path string, except *watchTable) []Watcher {
	var next *watch
	for e := t.byPath[path]; e != nil; e = next {
		next = e.samePath.next
		if except == nil || except.entries[e.watchKey] == nil {
			dst = append(dst, e.watcher)
		}
		if e.modes &^= once; e.modes == 0 {
			t.remove(e)
		}
	}
	return dst
}

func (t *watchTable) drop(who Watcher) {
	var next *watch
	for e := t.byWatcher[who]; e != nil; e = next {
		next = e.sameWatcher.next
		t.remove(e)
	}
}

func (t *watchTable) remove(e *watch) {
	delete(t.entries, e.watchKey)
	p := e.samePath
	if p.next != nil {
		p.next.samePath.prev = p.prev
	}
	switch {
	case p.prev != nil:
		p.prev.samePath.next = p.next
	case p.next != nil:
		t.byPath[e.path] = p.next
	default:
		delete(t.byPath, e.path)
	}
	w := e.sameWatcher
	if w.next != nil {
		w.next.sameWatcher.prev = w.prev
	}
	switch {
	case w.prev != nil:
		w.prev.sameWatcher.next = w.next
	case w.next != nil:
		t.byWatcher[e.watcher] = w.next
	default:
		delete(t.byWatcher, e.watcher)
	}
}
