package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rollcall/client/internal/nodepath"
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
	path  string          // as the servers know it
	kind  watchKind       // nodeWatch or treeWatch
	ctx   context.Context // ends when no caller wants the watch
	stop  context.CancelFunc
	wake  chan struct{} // has room for one: there is something to do

	// The table's lock guards these.
	listeners []*Watcher
	isSet     bool // addWatch has been carried out
	mustAdd   bool // a read has replaced it at a server before ZooKeeper 3.9
	owesGap   bool // listeners without state may have missed events
	phase     watchPhase
	nodes     *watchedNodes // nil: nothing is kept
	last      Zxid          // of all that was received for it
	from      Zxid          // the transaction up to which nothing was missed, while owesGap or comparing
	toRead    []string      // paths that are still to be read
	reads     int           // in flight
	readError error         // of a read
	resume    *resumption   // nil unless a Watch is to resume and has not yet
}

func newSharedWatch(t *watchTable, path string, kind watchKind) *sharedWatch {
	w := &sharedWatch{table: t, path: path, kind: kind, wake: make(chan struct{}, 1)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// lastSeenZxid returns the last transaction that the Client has seen. The lock is held.
func (w *sharedWatch) lastSeenZxid() Zxid { return max(w.last, Zxid(w.table.c.session.LastZxid())) }

// addWatcher adds a Watch. The lock is held.
func (w *sharedWatch) addWatcher(l *Watcher) {
	w.listeners = append(w.listeners, l)
	if !w.isSet {
		return // handleAdded does the rest
	}
	if !l.stateless && w.nodes == nil && w.phase == known {
		w.startReading()
	}
	if l.stateless {
		wake(w.wake) // readHistory may be needed now
	}
	if l.stateless || w.phase != comparing {
		l.pushFirst(w.lastSeenZxid())
	}
}

// removeWatcher removes a Watch, and reports whether it was the last one. The lock is held.
func (w *sharedWatch) removeWatcher(l *Watcher) bool {
	w.listeners = slices.DeleteFunc(w.listeners, func(other *Watcher) bool { return other == l })
	if !w.hasStateful() {
		w.discardNodes(known)
	}
	return len(w.listeners) == 0
}

// hasStateful reports whether a Watch needs the nodes. The lock is held.
func (w *sharedWatch) hasStateful() bool {
	return slices.ContainsFunc(w.listeners, func(l *Watcher) bool { return !l.stateless })
}

// hasStateless reports whether a Watch gets a Gap in place of a comparison. The lock is held.
func (w *sharedWatch) hasStateless() bool { return slices.ContainsFunc(w.listeners, w.isStateless) }

// startReading begins to read the nodes for the first time. The lock is held.
func (w *sharedWatch) startReading() {
	w.phase, w.nodes = learning, newWatchedNodes(w.kind)
	w.restartReads()
}

// discardNodes ends the reads and frees what is kept. The lock is held.
func (w *sharedWatch) discardNodes(phase watchPhase) {
	w.phase, w.nodes, w.toRead = phase, nil, nil
}

// restartReads has keep read all nodes. The lock is held.
func (w *sharedWatch) restartReads() {
	w.nodes.round++
	w.toRead = append(w.toRead[:0], w.path)
	wake(w.wake)
}

// wake sends to a channel that has room for one, unless it is full.
func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// pushEvent passes an event to the Watches with state. The lock is held.
func (w *sharedWatch) pushEvent(e Event) {
	for _, l := range w.listeners {
		if !w.isStateless(l) {
			l.pushEvent(e)
		}
	}
}

// reportLost emits the deletions that a comparison would have found below a node, if an event deletes that node before
// the comparison has come to it. The lock is held.
func (w *sharedWatch) reportLost(e Event, path string) {
	if w.phase != comparing {
		return
	}
	root := w.table.c.chroot.callerPath(w.path)
	for _, lost := range w.nodes.lostBelow(e, path) {
		w.pushEvent(Event{Type: NodeDeleted, Path: nodepath.Join(root, lost), Zxid: NoZxid, From: w.from})
	}
}

// isStateless reports whether a listener gets a Gap in place of a comparison. The lock is held.
func (w *sharedWatch) isStateless(l *Watcher) bool { return l.stateless || w.phase == tooLarge }

// deliverEvent handles an event of a node at path, as the servers know it. The lock is held.
func (w *sharedWatch) deliverEvent(e Event, path string) {
	if !w.isSet && w.resume == nil {
		return
	}
	w.last = max(w.last, e.Zxid-1) // a transaction can have more events
	passes := true
	if w.nodes != nil {
		w.reportLost(e, w.relativePath(path))
		passes = w.nodes.applyEvent(e, w.relativePath(path), w.phase == comparing)
	}
	for _, l := range w.listeners {
		if passes || w.isStateless(l) {
			l.pushEvent(e)
		}
	}
	w.checkSize()
}

// relativePath returns a path relative to the watch's: "" for the watched node.
func (w *sharedWatch) relativePath(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, w.path), "/")
}

// markMissed is called when events may be missed from now on. The lock is held.
func (w *sharedWatch) markMissed() {
	if !w.isSet {
		return
	}
	if !w.owesGap && w.phase != comparing {
		w.from = w.lastSeenZxid()
	}
	w.owesGap = true
	switch w.phase {
	case known:
		if w.nodes != nil {
			w.phase = comparing
			w.restartReads()
		}
	case learning: // there is nothing yet to compare with
		w.startReading()
		for _, l := range w.listeners {
			l.waiting = !l.stateless // those without state have begun
		}
	case comparing:
		w.restartReads()
	}
}

func (w *sharedWatch) disconnected() {
	w.toRead = w.toRead[:0]
	w.markMissed()
}

// reconnected is called when the watch is set again, unless a server has it no longer. The lock is held.
func (w *sharedWatch) reconnected() {
	wake(w.wake)
	if !w.isSet || w.mustAdd {
		return
	}
	if w.hasStateless() && w.table.history.lastEnsemble != "" {
		return // readHistory finds out whether there is a Gap
	}
	w.settleGap(false)
}

// settleGap passes the Gap to the Watches that have no comparison. covered reports whether they have had all events, so that
// there is none. The lock is held.
func (w *sharedWatch) settleGap(covered bool) {
	if !w.owesGap {
		return
	}
	w.owesGap = false
	for _, l := range w.listeners {
		switch {
		case w.isStateless(l) && covered:
			wake(l.ready) // AsOf is complete again
		case w.isStateless(l):
			l.pushEvent(Event{Type: Gap, Path: l.root, From: w.from, Zxid: w.lastSeenZxid(), Below: true})
		case l.waiting && w.phase == learning:
			l.pushFirst(w.lastSeenZxid())
		}
	}
}

// wakeStateless wakes the readers of the Watches without state. The lock is held.
func (w *sharedWatch) wakeStateless() {
	for _, l := range w.listeners {
		if w.isStateless(l) {
			wake(l.ready)
		}
	}
}

// replacePersistent is called when a read has set a watch of the kind. Servers before ZooKeeper 3.9 have then no
// persistent one. The lock is held.
func (p *pathWatches) replacePersistent(kind watchKind) {
	for _, w := range p.shared {
		if w != nil && (kind == dataWatch || w.kind == nodeWatch) {
			w.markMissed()
			w.mustAdd = true
			wake(w.wake)
		}
	}
}

// endAll ends all Watches. The lock is held.
func (w *sharedWatch) endAll(err error) {
	w.stop()
	for _, l := range w.listeners {
		l.failAfterEvents(err)
	}
}

// failAll ends all Watches, and takes the watch out of the table so that the next Watch tries again.
func (w *sharedWatch) failAll(err error) {
	w.table.mu.Lock()
	defer w.table.mu.Unlock()
	w.endAll(watchError(w.table.c.chroot.callerPath(w.path), err))
	w.table.dropSharedWatch(w)
}

// keepSet sets the watch and reads the nodes whenever that is necessary, until no caller wants the watch.
func (w *sharedWatch) keepSet() {
	for w.ctx.Err() == nil && w.table.c.AwaitConnected(w.ctx) == nil { // otherwise no caller wants it, or the session has ended
		err := w.setAtServer()
		if err == nil {
			err = w.readHistory()
		}
		if err == nil {
			err = w.readNodes()
		}
		if err == nil {
			err = w.readHistory() // a Watch without state may have joined meanwhile
		}
		switch {
		case errors.Is(err, ErrConnectionLost), errors.Is(err, ErrSuspended):
			continue
		case err != nil && w.ctx.Err() == nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrExpired):
			w.failAll(err)
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

// setAtServer sets the watch at the server, unless it is set.
func (w *sharedWatch) setAtServer() error {
	w.table.mu.Lock()
	isSet, resume := w.isSet && !w.mustAdd, w.resume
	version := w.table.versions
	err := w.table.awaitRemovalSent(w.ctx, w.path)
	var other *sharedWatch
	if p := w.table.paths[w.path]; p != nil {
		other = p.shared[nodeWatch+treeWatch-w.kind]
	}
	w.table.mu.Unlock()
	if err != nil {
		return err
	}
	if resume != nil {
		return w.resumeAtServer(resume)
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
	return w.requestWatch(jute.OpAddWatch, rec, w.handleAdded)
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

// handleAdded handles the reply to addWatch, on the reader.
func (w *sharedWatch) handleAdded(r session.Reply) error {
	if r.Err != jute.OK {
		return r.Err
	}
	w.table.update(w.path, func(p *pathWatches) {
		p.set[w.kind] = true
		if p.shared[w.kind] != w {
			return
		}
		w.last = max(w.last, Zxid(r.Zxid))
		if !w.isSet {
			w.noteSet()
		}
		w.settleGap(false)
		if w.mustAdd && w.nodes != nil { // reads that came before may lack changes without events
			if w.phase == known {
				w.phase = comparing
			}
			w.restartReads()
		}
		w.mustAdd = false
	})
	return nil
}

// noteSet is called when the watch has been set for the first time. The lock is held.
func (w *sharedWatch) noteSet() {
	w.isSet = true
	if w.hasStateful() {
		w.startReading()
	}
	for _, l := range w.listeners {
		if l.waiting {
			l.pushFirst(w.lastSeenZxid())
		}
	}
}

// findVersion finds out whether the server adds kinds of watches, or replaces them. checkWatches with a type that older
// servers do not know changes nothing.
func (w *sharedWatch) findVersion() (version serverVersion, err error) {
	rec := jute.CheckWatchesRequest{Path: []byte(w.path), Type: jute.WatcherPersistentRecursive}
	err = w.requestWatch(jute.OpCheckWatches, rec, func(r session.Reply) error {
		version = addsKinds
		if r.Err != jute.OK && r.Err != jute.NoWatcher {
			version = replacesKinds
		}
		w.table.update(w.path, func(*pathWatches) { w.table.versions = version })
		return nil
	})
	return version, err
}

// requestWatch sends a request and waits until handle has handled the reply, on the reader.
func (w *sharedWatch) requestWatch(op jute.Op, rec session.Record, handle func(session.Reply) error) error {
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
