package client

import (
	"context"
	"fmt"
)

// Watcher is what Client.Watch loops over, for callers that need to know up to which transaction they have the events.
// It is safe for concurrent use. The lock of the table guards its fields.
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

// push adds an event. The lock of the table is held.
func (l *Watcher) push(e Event) {
	if l.waiting || l.end != nil {
		return
	}
	l.queue.push(e, l.root)
	l.wake()
}

// begin adds the first event. The lock of the table is held.
func (l *Watcher) begin(zxid Zxid) {
	l.waiting = false
	l.push(Event{Type: Gap, Path: l.root, Zxid: zxid, Below: true})
}

func (l *Watcher) wake() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}

// fail ends the Watch after the events that wait. The lock of the table is held.
func (l *Watcher) fail(err error) {
	if l.end == nil {
		l.end = err
		l.wake()
	}
}

// NewWatcher begins a Watch: see Client.Watch. It does not block. Close must be called. The error says that mode is
// none, or that no node may have the path.
func (c *Client) NewWatcher(path string, mode WatchMode) (*Watcher, error) {
	if mode < Node || mode > TreeWithoutState {
		return nil, fmt.Errorf("client: watch %s: mode %d must be Node, Tree or TreeWithoutState", path, mode)
	}
	if err := CheckPath(path); err != nil {
		return nil, fmt.Errorf("client: watch: %w", err)
	}
	return c.watches.listen(path, mode), nil
}

// Close ends the Watch. Next and TryNext then return context.Canceled. A second call does nothing.
func (l *Watcher) Close() { l.table.leave(l) }

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
		return before(l.queue.events[l.queue.first]), false
	case l.end != nil:
		return w.last, false
	case w.isStateless(l) && w.owesGap, !w.isStateless(l) && w.phase == comparing:
		return w.from, false
	}
	return w.now(), true
}

// listen begins a Watch. leave must follow.
func (t *watchTable) listen(path string, mode WatchMode) *Watcher {
	l := &Watcher{
		table: t, root: path, stateless: mode == TreeWithoutState, waiting: true, ready: make(chan struct{}, 1),
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended != nil {
		l.fail(t.endError())
		return l
	}
	kind := treeWatch
	if mode == Node {
		kind = nodeWatch
	}
	full := t.c.chroot.full(path)
	p := t.at(full)
	if p.shared[kind] == nil {
		p.shared[kind] = newSharedWatch(t, full, kind)
		if kind == treeWatch {
			t.trees++
		}
		t.c.background.Go(p.shared[kind].keep)
	}
	l.shared = p.shared[kind]
	l.shared.join(l)
	return l
}

// leave ends a Watch.
func (t *watchTable) leave(l *Watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l.fail(context.Canceled)
	l.closed = true
	if l.shared != nil && l.shared.part(l) {
		t.drop(l.shared)
	}
}

// drop takes a shared watch without listeners out of the table. The lock is held.
func (t *watchTable) drop(w *sharedWatch) {
	w.stop()
	p := t.at(w.path)
	if p.shared[w.kind] != w {
		return // it has been dropped before
	}
	p.shared[w.kind] = nil
	if w.kind == treeWatch {
		t.trees--
	}
	t.release(w.path, p)
}
