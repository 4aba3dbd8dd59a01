package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// WatchMode chooses the nodes of a Watch.
type WatchMode int

// These are the modes of a Watch.
const (
	// Node watches a node's creation, its data, the names of its children, and its deletion. The Client keeps the numbers
	// of the node: about 300 bytes.
	Node WatchMode = iota

	// Tree watches the creation, the data and the deletion of a node and of all nodes below it. To compare them after
	// a lost connection, the Client reads the names of all nodes at the beginning, and keeps about 150 bytes and the
	// name of each of them, at most MaxWatchBytes for a path.
	Tree

	// TreeWithoutState watches the same as Tree, but the Client reads and keeps nothing. After a lost connection there
	// is one Gap for the whole tree, unless the server has sent all events that were missed, as Rollcall's does if it
	// still has them. An event can come twice then. It is for callers that keep the nodes themselves.
	TreeWithoutState
)

// MaxWatchBytes limits what a Tree keeps of the nodes of one path: 16 MiB hold about 100,000 nodes. If there are more,
// the Client keeps nothing, and the mode is TreeWithoutState from then on.
const MaxWatchBytes = 16 << 20

// errOlderServers explains why there is no Watch.
const errOlderServers = "the servers are older than ZooKeeper 3.6 and have no persistent watches: use GetWatch, " +
	"ExistsWatch or ChildrenWatch"

// errOtherMode explains why there is no second Watch.
const errOtherMode = "servers before ZooKeeper 3.9 keep one mode of watch on a path, and another Watch of the Client " +
	"on it has another mode: use the same mode"

// Watch watches a node, or a node and all nodes below it, until ctx ends, the session ends, or the loop is left. The
// node need not exist, and may come and go.
//
// The first event is a Gap from transaction 0. From then on, the watch is in force. Read the nodes that you need after
// it: every later change has an event or lies in a Gap:
//
//   - Each change is in at most one event. The events of a node are in the order of their transactions. While the
//     connection lasts, so are the events of different nodes.
//   - A Gap names a node, and two transactions between which the node may have changed without an event. If Below is
//     set, it is about all nodes below, too. The caller reads the node, or the nodes, again.
//   - After a lost connection the Client reads the nodes again, and compares the transactions and versions of each with
//     those that it knew. There is one event for each change that it finds. There is a Gap for a node that was deleted
//     and created again, whose data or names of children changed more than once, or whose children came and went
//     meanwhile; and for one that the Client may not read. A NodeDeleted that was found so has no Zxid: see Event.From.
//     If the watched node itself is missing before and after, or exists only after, there is a Gap, since it may have
//     come and gone. During the comparison, events of nodes that are still to be compared are part of it.
//   - At most MaxWatchEvents events wait for a slow reader, or MaxStatelessEvents with TreeWithoutState. Then those of one node become a Gap of that node, and if
//     there is no room for another node, all that wait become one Gap with Below.
//
// The servers send events only of nodes that the Client may read.
//
// The last pair has an error: ctx's, that of the session with the event SessionEnded, or the reason for which the watch
// cannot be set. errors.Is finds ErrUnimplemented if the servers are older than ZooKeeper 3.6.
//
// All Watches of a Client on one path and of one kind share a watch at the servers. The last one that ends has it
// removed, in the background. Servers before ZooKeeper 3.9 cannot remove it without those of GetWatch, ExistsWatch and
// ChildrenWatch on the same path, so it stays until there are none of these. Such servers also keep only one mode of
// watch on a path: a second Watch with another mode fails there, and a GetWatch, ExistsWatch or ChildrenWatch on the
// same path makes the Client set the Watch, and compare, again.
//
// Each iteration over the result is a Watch of its own.
func (c *Client) Watch(ctx context.Context, path string, mode WatchMode) iter.Seq2[Event, error] {
	return eventsOf(ctx, func() (*Watcher, error) { return c.NewWatcher(path, mode) })
}

// eventsOf yields the events of a Watcher until ctx ends or it fails, and closes it.
func eventsOf(ctx context.Context, open func() (*Watcher, error)) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		w, err := open()
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer w.Close()
		for {
			event, err := w.Next(ctx)
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// watchError explains why a watch cannot be set.
func watchError(path string, err error) error {
	if errors.Is(err, ErrUnimplemented) {
		return fmt.Errorf("client: watch %s: %s: %w", path, errOlderServers, err)
	}
	return fmt.Errorf("client: watch %s: %w", path, err)
}

// Watcher queues the events of a path, as Client.Watch does. AsOf returns the last transaction of which the caller has
// the events. It is safe for concurrent use. The lock of the table guards its fields.
type Watcher struct {
	table     *watchTable
	shared    *sharedWatch  // nil: the session had ended before
	root      string        // the path, as the caller gave it
	stateless bool          // its mode is TreeWithoutState
	waiting   bool          // for its first event
	queue     eventQueue    // the events that wait for the reader
	end       error         // no event will come after those in the queue
	closed    bool          // by Close
	ready     chan struct{} // has room for one: there are events, or end
}

// pushEvent adds an event. The lock of the table is held.
func (l *Watcher) pushEvent(e Event) {
	if l.waiting || l.end != nil {
		return
	}
	most := MaxWatchEvents
	if l.stateless {
		most = MaxStatelessEvents
	}
	l.queue.push(e, l.root, most)
	wake(l.ready)
}

// pushFirst adds the first event. The lock of the table is held.
func (l *Watcher) pushFirst(zxid Zxid) {
	l.waiting = false
	l.pushEvent(Event{Type: Gap, Path: l.root, Zxid: zxid, Below: true})
}

// failAfterEvents ends the Watch after the events that wait. The lock of the table is held.
func (l *Watcher) failAfterEvents(err error) {
	if l.end == nil {
		l.end = err
		wake(l.ready)
	}
}

// NewWatcher begins a Watch: see Client.Watch. It does not block. Close must be called. It returns an error if mode is
// not a WatchMode, or if the path is not valid.
func (c *Client) NewWatcher(path string, mode WatchMode) (*Watcher, error) {
	if mode < Node || mode > TreeWithoutState {
		return nil, fmt.Errorf("client: watch %s: mode %d must be Node, Tree or TreeWithoutState", path, mode)
	}
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	return c.watches.addWatcher(path, mode), nil
}

// Close ends the Watch. Next and TryNext then return context.Canceled. A second call does nothing.
func (l *Watcher) Close() { l.table.removeWatcher(l) }

// Ready gets a value when there may be something for TryNext.
func (l *Watcher) Ready() <-chan struct{} { return l.ready }

// TryNext returns the next event without waiting. ok is false if there is none now. If there will be none any more, it
// returns the reason, and with the end of the session the event SessionEnded.
func (l *Watcher) TryNext() (e Event, ok bool, err error) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	switch e, ok = l.queue.pop(); {
	case ok:
		return e, true, nil
	case l.end != nil && l.table.ended != nil && !l.closed:
		return Event{Type: SessionEnded, Path: l.root, Zxid: NoZxid, Err: l.end}, false, l.end
	}
	return Event{}, false, l.end
}

// Next waits for the next event, until ctx ends. Otherwise it is TryNext.
func (l *Watcher) Next(ctx context.Context) (Event, error) {
	for {
		if ctx.Err() != nil {
			return Event{}, ctx.Err()
		}
		event, ok, err := l.TryNext()
		if ok || err != nil {
			return event, err
		}
		select {
		case <-l.ready:
		case <-ctx.Done():
		}
	}
}

// AsOf returns the last transaction of which the caller has the events, and of all transactions before it. complete
// reports whether no event waits, as far as the Client has heard from its server. If the connection is lost, complete
// is false until the Client has passed the Gap or the changes that it found.
func (l *Watcher) AsOf() (zxid Zxid, complete bool) {
	l.table.mu.Lock()
	defer l.table.mu.Unlock()
	return l.asOf()
}

// asOf is AsOf with the lock of the table held.
func (l *Watcher) asOf() (zxid Zxid, complete bool) {
	w := l.shared
	switch {
	case w != nil && w.resume != nil && w.resume.watcher == l:
		return w.resume.from.Zxid, false
	case w == nil, l.waiting, !w.isSet:
		return 0, false
	case w.isStateless(l) && w.owesGap && !l.queue.isEmpty():
		return min(w.from, zxidBefore(l.queue.events[l.queue.first])), false
	case !l.queue.isEmpty():
		return zxidBefore(l.queue.events[l.queue.first]), false
	case l.end != nil:
		return w.last, false
	case w.isStateless(l) && w.owesGap, !w.isStateless(l) && w.phase == comparing:
		return w.from, false
	}
	return w.lastSeenZxid(), true
}

// addWatcher begins a Watch. removeWatcher must follow.
func (t *watchTable) addWatcher(path string, mode WatchMode) *Watcher {
	l := &Watcher{
		table: t, root: path, stateless: mode == TreeWithoutState, waiting: true, ready: make(chan struct{}, 1),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		l.failAfterEvents(t.endError())
		return l
	}
	kind := treeWatch
	if mode == Node {
		kind = nodeWatch
	}
	full := t.c.chroot.serverPath(path)
	if p := t.paths[full]; p != nil && p.shared[kind] != nil {
		l.shared = p.shared[kind]
	} else {
		l.shared = t.beginShared(full, kind)
		t.c.background.Go(l.shared.keepSet)
	}
	l.shared.addWatcher(l)
	return l
}

// beginShared adds a shared watch to the table. The caller starts keepSet. The lock is held.
func (t *watchTable) beginShared(path string, kind watchKind) *sharedWatch {
	w := newSharedWatch(t, path, kind)
	t.watchesAt(path).shared[kind] = w
	if kind == treeWatch {
		t.trees++
	}
	return w
}

// removeWatcher ends a Watch.
func (t *watchTable) removeWatcher(l *Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.failAfterEvents(context.Canceled)
	l.closed = true
	if l.shared != nil && l.shared.removeWatcher(l) {
		t.dropSharedWatch(l.shared)
	}
}

// dropSharedWatch takes a shared watch without listeners out of the table. The lock is held.
func (t *watchTable) dropSharedWatch(w *sharedWatch) {
	w.stop()
	p := t.watchesAt(w.path)
	if p.shared[w.kind] != w {
		return // it has been dropped before
	}
	p.shared[w.kind] = nil
	if w.kind == treeWatch {
		t.trees--
	}
	t.releasePath(w.path, p)
}
