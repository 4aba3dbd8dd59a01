package client

import (
	"context"
	"fmt"
)

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
	l.queue.push(e, l.root)
	l.wakeReader()
}

// pushFirst adds the first event. The lock of the table is held.
func (l *Watcher) pushFirst(zxid Zxid) {
	l.waiting = false
	l.pushEvent(Event{Type: Gap, Path: l.root, Zxid: zxid, Below: true})
}

func (l *Watcher) wakeReader() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// failAfterEvents ends the Watch after the events that wait. The lock of the table is held.
func (l *Watcher) failAfterEvents(err error) {
	if l.end == nil {
		l.end = err
		l.wakeReader()
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
	w := l.shared
	switch {
	case w == nil, l.waiting, !w.isSet:
		return 0, false
	case !l.queue.isEmpty():
		return zxidBefore(l.queue.events[l.queue.first]), false
	case l.end != nil:
		return w.last, false
	case w.isStateless(l) && w.owesGap, !w.isStateless(l) && w.phase == comparing:
		return w.from, false
	}
	return w.lastSeenZxid(), true
}

// addWatcher begins a Watch. leave must follow.
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
	p := t.watchesAt(full)
	if p.shared[kind] == nil {
		p.shared[kind] = newSharedWatch(t, full, kind)
		if kind == treeWatch {
			t.trees++
		}
		t.c.background.Go(p.shared[kind].keepSet)
	}
	l.shared = p.shared[kind]
	l.shared.addWatcher(l)
	return l
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
