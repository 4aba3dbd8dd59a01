package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// watchPhase is the progress of a sharedWatch in reading its nodes.
type watchPhase int

const (
	known     watchPhase = iota // all that it has to know
	learning                    // it reads them for the first time; events pass meanwhile
	comparing                   // it reads them again; events of nodes that it has not read yet are part of that
	tooLarge                    // it keeps nothing: they are more than MaxWatchBytes
)

// maxWatchReads is the number of reads of one Watch without a reply, while it reads its nodes. 32 keep a server busy
// for a round trip.
const maxWatchReads = 32

// sharedWatch is a watch at the servers that all Watches of a path and kind share. It has a goroutine for as long as
// there are such Watches, keep, which sets the watch and reads the nodes. Events and replies are handled on the reader,
// in the order of the connection.
type sharedWatch struct {
	table *watchTable
	path  string // as the servers know it
	kind  sharedKind
	ctx   context.Context // ends when nobody wants the watch
	stop  context.CancelFunc
	wake  chan struct{} // has room for one: there is something to do

	// The table's lock guards these.
	listeners []*Watcher
	isSet     bool // addWatch has been carried out
	mustAdd   bool // a read has replaced it at a server before ZooKeeper 3.9
	owesGap   bool // listeners without state have missed events
	phase     watchPhase
	nodes     *watchedNodes // nil: nothing is kept
	last      Zxid          // of all that was received for it
	from      Zxid          // the transaction up to which nothing was missed, while owesGap or comparing
	toRead    []string      // paths that are still to be read
	reads     int           // in flight
	readError error         // of a read
}

func newSharedWatch(t *watchTable, path string, kind sharedKind) *sharedWatch {
	w := &sharedWatch{table: t, path: path, kind: kind, wake: make(chan struct{}, 1)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// atServer returns the kind of watch at the servers.
func (w *sharedWatch) atServer() serverKind { return persistentAtServer + serverKind(w.kind) }

// now returns the last transaction that the Client has seen. The lock is held.
func (w *sharedWatch) now() Zxid { return max(w.last, Zxid(w.table.c.session.LastZxid())) }

// join adds a Watch. The lock is held.
func (w *sharedWatch) join(l *Watcher) {
	w.listeners = append(w.listeners, l)
	if !w.isSet {
		return // added does the rest
	}
	if !l.stateless && w.nodes == nil && w.phase == known {
		w.learn()
	}
	if l.stateless || w.phase != comparing {
		l.begin(w.now())
	}
}

// part removes a Watch, and reports whether it was the last one. The lock is held.
func (w *sharedWatch) part(l *Watcher) bool {
	w.listeners = slices.DeleteFunc(w.listeners, func(other *Watcher) bool { return other == l })
	if !slices.ContainsFunc(w.listeners, func(l *Watcher) bool { return !l.stateless }) {
		w.forget(known)
	}
	return len(w.listeners) == 0
}

// learn begins to read the nodes for the first time. The lock is held.
func (w *sharedWatch) learn() {
	w.phase, w.nodes = learning, newWatchedNodes(w.kind)
	w.restartReads()
}

// forget ends the reads and frees what is kept. The lock is held.
func (w *sharedWatch) forget(phase watchPhase) {
	w.phase, w.nodes, w.toRead = phase, nil, nil
}

// restartReads has keep read all nodes. The lock is held.
func (w *sharedWatch) restartReads() {
	w.nodes.round++
	w.toRead = append(w.toRead[:0], w.path)
	w.signal()
}

func (w *sharedWatch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// push passes an event to the Watches with state, and to those without if all is set. The lock is held.
func (w *sharedWatch) push(e Event, all bool) {
	for _, l := range w.listeners {
		if all || !w.isStateless(l) {
			l.push(e)
		}
	}
}

// reportLost emits the deletions that a comparison would have found below a node, if an event deletes that node before
// the comparison has come to it. The lock is held.
func (w *sharedWatch) reportLost(e Event, path string) {
	if w.phase != comparing {
		return
	}
	root := w.table.c.chroot.local(w.path)
	for _, lost := range w.nodes.lostBelow(e, path) {
		w.push(Event{Type: NodeDeleted, Path: pathBelow(root, lost), Zxid: NoZxid, From: w.from}, false)
	}
}

// isStateless reports whether a listener gets a Gap in place of a comparison. The lock is held.
func (w *sharedWatch) isStateless(l *Watcher) bool { return l.stateless || w.phase == tooLarge }

// deliver handles an event of a node at path, as the servers know it. The lock is held.
func (w *sharedWatch) deliver(e Event, path string) {
	if !w.isSet {
		return
	}
	w.last = max(w.last, e.Zxid-1) // a transaction can have more events
	passes := true
	if w.nodes != nil {
		w.reportLost(e, w.below(path))
		passes = w.nodes.apply(e, w.below(path), w.phase == comparing)
	}
	for _, l := range w.listeners {
		if passes || w.isStateless(l) {
			l.push(e)
		}
	}
	w.checkSize()
}

// below returns a path relative to the watch's: "" for the watched node.
func (w *sharedWatch) below(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, w.path), "/")
}

// missed is called when events may be missed from now on. The lock is held.
func (w *sharedWatch) missed() {
	if !w.isSet {
		return
	}
	if !w.owesGap && w.phase != comparing {
		w.from = w.now()
	}
	w.owesGap = true
	switch w.phase {
	case known:
		if w.nodes != nil {
			w.phase = comparing
			w.restartReads()
		}
	case learning: // there is nothing yet to compare with
		w.learn()
		for _, l := range w.listeners {
			l.waiting = !l.stateless // those without state have begun
		}
	case comparing:
		w.restartReads()
	}
}

func (w *sharedWatch) disconnected() {
	w.toRead = w.toRead[:0]
	w.missed()
}

// reconnected is called when the watch is set again, unless a server has it no longer. The lock is held.
func (w *sharedWatch) reconnected() {
	w.signal()
	if !w.isSet || w.mustAdd {
		return
	}
	w.payGap()
}

// payGap passes the Gap to the Watches that have no comparison. The lock is held.
func (w *sharedWatch) payGap() {
	if !w.owesGap {
		return
	}
	w.owesGap = false
	for _, l := range w.listeners {
		switch {
		case w.isStateless(l):
			l.push(Event{Type: Gap, Path: l.root, From: w.from, Zxid: w.now(), Below: true})
		case l.waiting && w.phase == learning:
			l.begin(w.now())
		}
	}
}

// replaced is called when a read has set a watch of the kind. Servers before ZooKeeper 3.9 have then no persistent one.
// The lock is held.
func (p *pathWatches) replaced(kind serverKind) {
	for _, w := range p.shared {
		if w != nil && (kind == dataAtServer || w.kind == nodeWatch) {
			w.missed()
			w.mustAdd = true
			w.signal()
		}
	}
}

// end ends all Watches. The lock is held.
func (w *sharedWatch) end(err error) {
	w.stop()
	for _, l := range w.listeners {
		l.fail(err)
	}
}

// fail ends all Watches, and takes the watch out of the table so that the next Watch tries again.
func (w *sharedWatch) fail(err error) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.end(watchError(w.table.c.chroot.local(w.path), err))
	w.table.drop(w)
}

// keep sets the watch and reads the nodes whenever that is necessary, until nobody wants the watch.
func (w *sharedWatch) keep() {
	for w.ctx.Err() == nil && w.table.c.AwaitConnected(w.ctx) == nil { // else nobody wants it, or the session has ended
		err := w.set()
		if err == nil {
			err = w.readNodes()
		}
		switch {
		case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):
			continue
		case err != nil && w.ctx.Err() == nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrExpired):
			w.fail(err)
			return
		case err != nil:
			<-w.ctx.Done() // the session ends, or has ended
			return
		}
		select {
		case <-w.wake:
		case <-w.ctx.Done():
		}
	}
}

// set sets the watch at the server, unless it is set.
func (w *sharedWatch) set() error {
	w.table.mu.Lock()
	isSet := w.isSet && !w.mustAdd
	version := w.table.versions
	err := w.table.awaitRemovalSent(w.ctx, w.path)
	var other *sharedWatch
	if p := w.table.paths[w.path]; p != nil {
		other = p.shared[sharedKinds-1-w.kind]
	}
	w.table.mu.Unlock()
	if err != nil {
		return err
	}
	if version == unknownVersion {
		if version, err = w.findVersion(); err != nil {
			return err
		}
	}
	if other != nil && version == replacesKinds && !w.isFirst(other) {
		return errors.New(errOtherMode)
	}
	if isSet {
		return nil
	}
	rec := jute.AddWatchRequest{Path: []byte(w.path), Mode: w.kind.addMode()}
	return w.request(jute.OpAddWatch, rec, w.added)
}

// isFirst reports whether the watch may stay where the servers can keep only one of it and other.
func (w *sharedWatch) isFirst(other *sharedWatch) bool {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	if w.isSet != other.isSet {
		return w.isSet
	}
	return w.kind == treeWatch
}

// added handles the reply to addWatch, on the reader.
func (w *sharedWatch) added(r session.Reply) error {
	if r.Err != jute.OK {
		return r.Err
	}
	t := w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.at(w.path)
	p.set[w.atServer()] = true
	if p.shared[w.kind] == w {
		w.last = max(w.last, Zxid(r.Zxid))
		if !w.isSet {
			w.begin()
		}
		w.payGap()
		if w.mustAdd && w.nodes != nil {
			w.restartReads() // reads that came before may lack changes without events
		}
		w.mustAdd = false
	}
	t.release(w.path, p)
	return nil
}

// begin is called when the watch is set for the first time. The lock is held.
func (w *sharedWatch) begin() {
	w.isSet = true
	if slices.ContainsFunc(w.listeners, func(l *Watcher) bool { return !l.stateless }) {
		w.learn()
	}
	for _, l := range w.listeners {
		l.begin(w.now())
	}
}

// findVersion finds out whether the server adds kinds of watches, or replaces them. checkWatches with a type that older
// servers do not know changes nothing.
func (w *sharedWatch) findVersion() (version serverVersion, err error) {
	rec := jute.CheckWatchesRequest{Path: []byte(w.path), Type: jute.WatcherPersistentRecursive}
	err = w.request(jute.OpCheckWatches, rec, func(r session.Reply) error {
		version = addsKinds
		if r.Err != jute.OK && r.Err != jute.NoWatcher {
			version = replacesKinds
		}
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		w.table.versions = version
		w.table.release(w.path, w.table.at(w.path))
		return nil
	})
	return version, err
}

// request sends a request and waits until handle has handled the reply, on the reader.
func (w *sharedWatch) request(op jute.Op, rec session.Record, handle func(session.Reply) error) error {
	done := make(chan error, 1)
	err := w.table.c.session.Go(w.ctx, op, rec, func(r session.Reply, err error) {
		if err == nil {
			err = handle(r)
		}
		done <- err
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-w.ctx.Done():
		return fmt.Errorf("%v: %w", op, w.ctx.Err())
	}
}
