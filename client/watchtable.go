package client

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"rollcall/client/internal/nodepath"
	"rollcall/zk/jute"
)

// pathWatches has what is watched on one path.
type pathWatches struct {
	once   [onceKinds][]*onceWaiter
	shared [watchKinds]*sharedWatch // without those that fire once

	set      [watchKinds]bool // the servers have a watch of that kind
	reading  [onceKinds]int   // reads in flight that may set a watch
	removing chan struct{}    // closed when the removal that is about to be sent has been sent; nil: none is
	removals int              // sent and without a reply
}

// isEmpty reports whether nothing is known of the path.
func (p *pathWatches) isEmpty() bool {
	return !p.isWanted() && p.set == [watchKinds]bool{} && p.removing == nil && p.removals == 0
}

// isWanted reports whether a caller wants a watch on the path, or may want one soon.
func (p *pathWatches) isWanted() bool {
	return p.isShared() || p.reading != [onceKinds]int{} || len(p.once[dataWatch])+len(p.once[childrenWatch]) > 0
}

func (p *pathWatches) isShared() bool { return p.shared != [watchKinds]*sharedWatch{} }

// onceWaiter waits for a watch that fires once.
type onceWaiter struct {
	fired  chan Event // has room for one event
	path   string     // as the servers know it
	kind   watchKind
	added  bool // it is in the table
	gaveUp bool // its caller has left before the reply
}

// watchTable has the watches of a Client by path, as the servers know it, and hands events to them. A watch is added
// when the reply to its request is read, in the order of the connection: so it gets the first event after that reply,
// and no earlier one.
type watchTable struct {
	c *Client

	mu       sync.Mutex
	paths    map[string]*pathWatches
	trees    int    // paths with a recursive watch that is wanted
	ended    *Event // no event will come any more
	versions serverVersion
	history  serverHistory

	restoring bool // there is no connection, or the watches are being set again
	unwanted  unwantedWatches
}

// update changes the watches on a path under the lock.
func (t *watchTable) update(path string, change func(p *pathWatches)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.watchesAt(path)
	change(p)
	t.releasePath(path, p)
}

// watchesAt returns the watches on a path, to be changed. releasePath must follow. The lock is held.
func (t *watchTable) watchesAt(path string) *pathWatches {
	p := t.paths[path]
	if p == nil {
		p = &pathWatches{}
		t.paths[path] = p
	}
	return p
}

// releasePath removes the path from the table if the table has no data for it, and queues unwanted watches for removal.
// The lock is held.
func (t *watchTable) releasePath(path string, p *pathWatches) {
	if p.isEmpty() {
		delete(t.paths, path)
	} else if _, _, unwanted := t.nextRemoval(p); unwanted && t.ended == nil {
		t.removeLater(path)
	}
}

// handleEvent is called by the session with each event of a node.
func (t *watchTable) handleEvent(e jute.WatcherEvent, zxid int64) {
	path := string(e.Path)
	event := Event{Type: EventType(e.Type), Path: t.c.chroot.callerPath(path), Zxid: Zxid(zxid)}
	if event.Zxid == NoZxid {
		event.From = NoZxid
	}
	callOnReader(&t.c.callbacks, t.c.callbacks.onEvent, event)
	t.mu.Lock()
	defer t.mu.Unlock()
	// While watches are set again, the servers make such an event for a watch that fires once. Of the others, a comparison, a
	// Gap or the event with its zxid follows.
	ofOnceWatch := event.Zxid == NoZxid && t.restoring
	p := t.paths[path]
	if p != nil {
		for _, kind := range firedBy[event.Type] {
			for _, w := range p.once[kind] {
				w.fireEvent(event)
			}
			p.once[kind] = nil
			p.set[kind] = false
		}
		if w := p.shared[nodeWatch]; w != nil && !ofOnceWatch {
			w.deliverEvent(event, path)
		}
		t.releasePath(path, p)
	}
	if t.trees > 0 && event.Type != ChildrenChanged && !ofOnceWatch {
		t.deliverToTrees(event, path, func(*sharedWatch) bool { return true })
	}
}

// deliverToTrees hands an event to the recursive watches on the path and above it that have it. The lock is held.
func (t *watchTable) deliverToTrees(event Event, path string, have func(*sharedWatch) bool) {
	for above := path; ; above = nodepath.Parent(above) {
		if p := t.paths[above]; p != nil && p.shared[treeWatch] != nil && have(p.shared[treeWatch]) {
			p.shared[treeWatch].deliverEvent(event, path)
		}
		if above == "/" {
			return
		}
	}
}

// fireEvent passes the only event on. The lock is held.
func (w *onceWaiter) fireEvent(event Event) {
	w.added = false
	w.fired <- event
}

// beginRead is called before a read that may set a watch is sent. endRead or abandonRead must follow. It waits while a
// removal on the path is about to be sent, so that the servers carry out the read after the removal.
func (t *watchTable) beginRead(ctx context.Context, path string, kind watchKind) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.awaitRemovalSent(ctx, path); err != nil {
		return err
	}
	t.watchesAt(path).reading[kind]++
	return nil
}

// awaitRemovalSent waits until no removal on the path is about to be sent. The lock is held, but not while it waits.
func (t *watchTable) awaitRemovalSent(ctx context.Context, path string) error {
	for t.paths[path] != nil && t.paths[path].removing != nil {
		sent := t.paths[path].removing
		t.mu.Unlock()
		select {
		case <-sent:
		case <-ctx.Done():
		}
		t.mu.Lock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// abandonRead is called if a read was not sent, or got no reply.
func (t *watchTable) abandonRead(path string, kind watchKind) {
	t.update(path, func(p *pathWatches) { p.reading[kind]-- })
}

// endRead is called with the reply to a read that has set a watch of the kind w.kind.
func (t *watchTable) endRead(w *onceWaiter) {
	t.update(w.path, func(p *pathWatches) {
		p.reading[w.kind]--
		p.set[w.kind] = true
		if t.versions != addsKinds {
			p.replacePersistent(w.kind)
		}
		switch {
		case w.gaveUp:
		case t.ended != nil:
			w.fireEvent(*t.ended)
		default:
			w.added = true
			p.once[w.kind] = append(p.once[w.kind], w)
		}
	})
}

// giveUp is called when the caller of w stops waiting. It may precede the reply.
func (t *watchTable) giveUp(w *onceWaiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.gaveUp = true
	if !w.added {
		return
	}
	w.added = false
	p := t.watchesAt(w.path)
	p.once[w.kind] = slices.DeleteFunc(p.once[w.kind], func(other *onceWaiter) bool { return other == w })
	t.releasePath(w.path, p)
}

// disconnected is called when the connection has ended, before any event of the next one, with the last zxid that came. Dial may not have
// returned yet.
func (t *watchTable) disconnected(last Zxid) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.versions = unknownVersion
	t.restoring = true
	t.history = t.history.next(last)
	for w := range t.sharedWatches() {
		w.disconnected()
	}
}

// reconnected is called when requests pass again on the same session. The session has set all watches again.
func (t *watchTable) reconnected() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.restoring = false
	for w := range t.sharedWatches() {
		w.reconnected()
	}
}

// sharedWatches returns all shared watches. The lock is held.
func (t *watchTable) sharedWatches() func(yield func(*sharedWatch) bool) {
	return func(yield func(*sharedWatch) bool) {
		for _, p := range t.paths {
			for _, w := range p.shared {
				if w != nil && !yield(w) {
					return
				}
			}
		}
	}
}

// end ends all watches: the session has ended because of why.
func (t *watchTable) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = &Event{Type: SessionEnded, Zxid: NoZxid, Err: why}
	for w := range t.sharedWatches() {
		w.endAll(t.endError())
	}
	for _, p := range t.paths {
		for kind, waiters := range p.once {
			for _, w := range waiters {
				w.fireEvent(*t.ended)
			}
			p.once[kind] = nil
		}
	}
}

// endError returns the reason for which no event will come any more. The lock is held.
func (t *watchTable) endError() error { return cmp.Or(t.ended.Err, ErrClosed) }

// watchKind is the kind of a watch at the servers. Each can be set once on a path.
type watchKind int

const (
	dataWatch     watchKind = iota // of GetWatch and ExistsWatch
	childrenWatch                  // of ChildrenWatch
	nodeWatch                      // of Node
	treeWatch                      // of Tree and TreeWithoutState
	watchKinds
	onceKinds = nodeWatch // those before it fire once; several Watches share one of the others
)

// firedBy lists the watches that each type of event uses up.
var firedBy = map[EventType][]watchKind{
	NodeCreated:     {dataWatch},
	DataChanged:     {dataWatch},
	NodeDeleted:     {dataWatch, childrenWatch},
	ChildrenChanged: {childrenWatch},
}

// removalTypes are the types of removeWatches.
var removalTypes = [watchKinds]jute.WatcherType{
	jute.WatcherData, jute.WatcherChildren, jute.WatcherPersistent, jute.WatcherPersistentRecursive,
}

// addMode returns the mode of addWatch.
func (k watchKind) addMode() jute.AddWatchMode {
	if k == treeWatch {
		return jute.AddWatchPersistentRecursive
	}
	return jute.AddWatchPersistent
}
