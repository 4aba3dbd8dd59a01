package cache

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"rollcall/client"
	"rollcall/client/internal/nodepath"
)

// readKind is the kind of a read of the follower.
type readKind int

const (
	readData     readKind = iota // the data and the Stat
	readAll                      // readData, and then the names of the children and readAll of each
	readStat                     // the Stat, the data if they have changed, and then as for readAll
	readChildren                 // the names of the children, and then readStat or readAll of each
	readNames                    // the names of the children, and then readAll of those that are missing in the copy
)

// read is a read that is to be sent.
type read struct {
	path string
	kind readKind
}

// follower makes the copy of a Cache follow the ensemble, with one Client. It has one goroutine, run, which handles
// events and sends reads. Replies are handled on the Client's goroutine, in the order of the connection. An event is
// handled after all replies that preceded it on the connection, and possibly after later ones.
type follower struct {
	k       *Cache
	c       *client.Client
	watcher *client.Watcher
	ctx     context.Context
	stop    context.CancelFunc
	done    chan struct{} // closed when run returns
	wake    chan struct{} // has room for one: there is room for reads, or there are new ones

	// The lock of the Cache guards these.
	toRead    []read        // the oldest first: a parent is read before its children
	queued    map[read]bool // those in toRead
	inFlight  int
	reloading bool // all nodes are read again
	// readFrom is the transaction at which the last reading of all nodes began.
	readFrom client.Zxid

	mustResume bool // it must not read all nodes again at the beginning
}

// newFollower resumes from the position of the copy, if it has one.
func newFollower(k *Cache, c *client.Client, mustResume bool) (*follower, error) {
	k.mu.Lock()
	position := k.position
	k.mu.Unlock()
	w, err := (*client.Watcher)(nil), error(&client.ResumeError{From: position, Since: client.NoZxid, Applied: client.NoZxid, Err: client.ErrNoHistory})
	if position.Ensemble != "" {
		w, err = position.NewWatcher(c, k.root)
	}
	if err != nil && !mustResume {
		if errors.Is(err, client.ErrShared) { // such a Watch does not learn whether the copy is of another ensemble
			k.mu.Lock()
			k.forgetCopy()
			k.mu.Unlock()
		}
		w, err = c.NewWatcher(k.root, client.TreeWithoutState)
	}
	if err != nil {
		return nil, err
	}
	f := &follower{
		k: k, c: c, watcher: w, done: make(chan struct{}), wake: make(chan struct{}, 1), queued: map[read]bool{},
		mustResume: mustResume,
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// pendingReads returns the number of reads that are to be sent or have no reply. The lock is held.
func (f *follower) pendingReads() int { return len(f.toRead) + f.inFlight }

// isBehind reports whether the copy may lack changes for which no event is queued. The lock is held.
func (f *follower) isBehind() bool {
	_, complete := f.watcher.AsOf()
	return f.reloading && f.pendingReads() > 0 || !complete && !f.c.State().State.IsConnected()
}

// followEnsemble follows the ensemble until stop is called, or until that has become impossible.
func (f *follower) followEnsemble() {
	defer close(f.done)
	defer func() { f.watcher.Close() }() // the last one
	for f.ctx.Err() == nil {
		if err := f.handleEvents(); err != nil {
			f.failCache(err)
			return
		}
		err := f.sendReads()
		if errors.Is(err, client.ErrSuspended) || errors.Is(err, client.ErrConnectionLost) {
			err = f.c.AwaitConnected(f.ctx)
			if err == nil {
				continue
			}
		}
		if err != nil && f.ctx.Err() == nil {
			f.failCache(err)
			return
		}
		select {
		case <-f.watcher.Ready():
		case <-f.wake:
		case <-f.ctx.Done():
		}
	}
}

// failCache makes the Cache Stale until Attach, unless another follower has replaced this one.
func (f *follower) failCache(err error) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.k.follower == f {
		f.k.stayStale(err)
	}
}

// handleEvents handles all events that wait. The lock is held from the moment an event is taken until it is handled, so
// that AsOf does not miss it.
func (f *follower) handleEvents() error {
	for {
		f.k.mu.Lock()
		if f.k.err != nil {
			err := f.k.err
			f.k.mu.Unlock()
			return err
		}
		event, ok, err := f.watcher.TryNext()
		switch {
		case ok:
			f.handleEvent(event)
		case err != nil && !f.mustResume && errors.As(err, new(*client.ResumeError)):
			ok, err = true, f.watchAgain(err)
		default:
			_, _ = f.k.asOfNow() // the position must be recent when the session ends
		}
		f.k.notifyWaiters()
		f.k.mu.Unlock()
		if !ok || err != nil {
			return err
		}
	}
}

// watchAgain begins another Watch, which does not resume because of a reason. The lock is held.
func (f *follower) watchAgain(reason error) error {
	if errors.Is(reason, client.ErrOtherEnsemble) {
		f.k.forgetCopy()
	}
	w, err := f.c.NewWatcher(f.k.root, client.TreeWithoutState)
	if err == nil {
		f.watcher.Close()
		f.watcher = w
	}
	return err
}

// forgetCopy empties a copy of another ensemble. Its transactions say nothing about which nodes are newer. The lock is held.
func (k *Cache) forgetCopy() {
	k.tree, k.position, k.asOf, k.readable = tree{}, client.Position{}, 0, 0
	k.reportChange(Change{Type: Reset, Path: k.root})
}

// isOtherEnsemble reports whether the copy is known to be of another ensemble than the events. The lock is held.
func (f *follower) isOtherEnsemble() bool {
	now, _ := f.watcher.Position()
	return now.Ensemble != "" && f.k.position.Ensemble != "" && now.Ensemble != f.k.position.Ensemble
}

// handleEvent handles an event. The lock is held.
func (f *follower) handleEvent(e client.Event) {
	path, ok := f.k.relativePath(e.Path)
	if !ok {
		return
	}
	if e.Type == client.Gap && f.isOtherEnsemble() {
		f.k.forgetCopy()
	}
	n := f.k.tree.findNode(path)
	switch {
	case e.Type == client.Gap && e.Below:
		if f.reloading = true; path == "" {
			f.readFrom = f.c.LastZxid()
		}
		f.queueRead(read{path, f.kindFor(path)})
	case e.Type == client.NodeDeleted && e.Zxid != client.NoZxid:
		if n != nil && n.Stat.Created < e.Zxid {
			f.removeCopy(path, e.Zxid)
		}
	case e.Zxid != client.NoZxid && n != nil && n.Stat.Changed >= e.Zxid: // the copy is newer
	default:
		f.queueRead(read{path, readData})
	}
}

// checkReadable begins to read the Stats of all nodes if an ACL was changed since that was done. A read of a node that the Client
// may no longer read fails, and removes its copy: no event does. The lock is held.
func (f *follower) checkReadable() {
	changed := f.watcher.ACLsChanged()
	if changed <= max(f.k.readable, f.readFrom) {
		return
	}
	f.reloading, f.readFrom = true, max(changed, f.c.LastZxid())
	f.queueRead(read{"", f.kindFor("")})
}

// kindFor returns the kind of read that reads a node and all nodes below it. The lock is held.
func (f *follower) kindFor(path string) readKind {
	if f.k.tree.findNode(path) == nil {
		return readAll
	}
	return readStat
}

// removeCopy removes a node and all nodes below it from the copy. The lock is held.
func (f *follower) removeCopy(path string, zxid client.Zxid) {
	t := &f.k.tree
	t.newest = max(t.newest, zxid)
	t.removeNode(path, func(path string, n *node) {
		f.k.reportChange(Change{Type: Removed, Path: f.k.fullPath(path), Node: n.Node})
	})
}

// queueRead queues a read, unless the same one is queued. The lock is held.
func (f *follower) queueRead(r read) {
	if f.queued[r] {
		return
	}
	f.queued[r] = true
	f.toRead = append(f.toRead, r)
	wake(f.wake)
}

// wake sends to a channel that has room for one, unless it is full.
func wake(waiting chan<- struct{}) {
	select {
	case waiting <- struct{}{}:
	default:
	}
}

// sendReads sends queued reads while fewer than maxInFlight are in flight.
func (f *follower) sendReads() error {
	for {
		f.k.mu.Lock()
		n := len(f.toRead)
		if n == 0 || f.inFlight >= f.k.maxInFlight || f.k.err != nil {
			f.k.mu.Unlock()
			return nil
		}
		next := f.toRead[0]
		f.toRead = f.toRead[1:]
		delete(f.queued, next)
		f.inFlight++
		f.k.mu.Unlock()
		if err := f.sendRead(next); err != nil {
			f.finishRead(next, func() { f.queueRead(next) })
			return err
		}
	}
}

// sendRead sends a read.
func (f *follower) sendRead(r read) error {
	p, path := f.c.Pipeline(), f.k.fullPath(r.path)
	switch r.kind {
	case readStat:
		return p.Exists(f.ctx, path, func(stat client.Stat, exists bool, err error) {
			if err == nil && !exists {
				err = client.ErrNoNode
			}
			f.handleReply(r, err, func() { f.gotStat(r, stat) })
		})
	case readChildren, readNames:
		return p.Children(f.ctx, path, func(names []string, _ client.Stat, err error) {
			f.handleReply(r, err, func() { f.gotChildren(r, names) })
		})
	}
	return p.Get(f.ctx, path, func(data []byte, stat client.Stat, err error) {
		f.handleReply(r, err, func() { f.gotData(r, data, stat) })
	})
}

// handleReply handles the reply to a read.
func (f *follower) handleReply(r read, err error, handle func()) {
	f.finishRead(r, func() {
		switch {
		case err == nil:
			handle()
		case errors.Is(err, client.ErrConnectionLost):
			f.queueRead(r)
		case errors.Is(err, client.ErrNoAuth) && r.path == "" && !f.k.complete:
			f.k.stayStale(err)
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNoAuth):
			f.removeCopy(r.path, 0)
		default:
			f.k.stayStale(err)
		}
	})
}

// finishRead ends a read. It calls handle with the lock held.
func (f *follower) finishRead(r read, handle func()) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.inFlight--
	if f.k.follower != f {
		return
	}
	handle()
	if f.pendingReads() == 0 {
		f.reloading, f.k.readable = false, max(f.k.readable, f.readFrom)
	}
	if f.k.tree.bytes > f.k.maxBytes {
		f.k.stayStale(ErrTooLarge)
	}
	f.k.notifyWaiters()
	wake(f.wake)
}

// gotStat handles a Stat of a node whose data may be known. The lock is held.
func (f *follower) gotStat(r read, stat client.Stat) {
	n := f.k.tree.findNode(r.path)
	// Some versions of ZooKeeper show the Stat of a node that the Client may not read.
	isSameList := n != nil && n.Stat.ACLVersion == stat.ACLVersion
	if !isSameList || n.Stat.Changed != stat.Changed { // no two nodes have a change of one transaction at a path
		f.queueRead(read{r.path, readAll})
		return
	}
	if !n.isOlder(stat) {
		n.Stat = stat
	}
	f.followChildren(r.path, n, stat, true)
}

// gotData handles the data of a node. The lock is held.
func (f *follower) gotData(r read, data []byte, stat client.Stat) {
	n, existed, changed := f.k.tree.setNode(r.path, bytes.Clone(data), stat)
	if n == nil {
		return // its parent is gone, or not read yet
	}
	if changed {
		typ := Added
		if existed {
			typ = Updated
		}
		f.k.reportChange(Change{Type: typ, Path: f.k.fullPath(r.path), Node: n.copyOf()})
	}
	f.followChildren(r.path, n, stat, r.kind == readAll)
}

// followChildren reads the names of a node's children, if all is set and there are some, or if their number is not that
// of the copy. The lock is held.
func (f *follower) followChildren(path string, n *node, stat client.Stat, all bool) {
	switch {
	case all && stat.NumChildren > 0:
		f.queueRead(read{path, readChildren})
	case len(n.children) != stat.NumChildren: // their events wait, or did not come
		f.queueRead(read{path, readNames})
	}
}

// gotChildren handles the names of a node's children. The lock is held.
func (f *follower) gotChildren(r read, names []string) {
	n := f.k.tree.findNode(r.path)
	if n == nil {
		return
	}
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	for _, name := range n.childNames() {
		if !present[name] {
			f.removeCopy(nodepath.Join(r.path, name), 0)
		}
	}
	for _, name := range names {
		if r.kind == readChildren || n.children[name] == nil {
			path := nodepath.Join(r.path, strings.Clone(name))
			f.queueRead(read{path, f.kindFor(path)})
		}
	}
}
