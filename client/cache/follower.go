package cache

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"rollcall/client"
)

// readKind is what a read of the follower requests.
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
}

func newFollower(k *Cache, c *client.Client) (*follower, error) {
	w, err := c.NewWatcher(k.root, client.TreeWithoutState)
	if err != nil {
		return nil, err
	}
	f := &follower{
		k: k, c: c, watcher: w, done: make(chan struct{}), wake: make(chan struct{}, 1), queued: map[read]bool{},
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f, nil
}

// pending returns the number of reads that are to be sent or have no reply. The lock is held.
func (f *follower) pending() int { return len(f.toRead) + f.inFlight }

// isBehind reports whether the copy may lack changes of which no event waits. The lock is held.
func (f *follower) isBehind() bool {
	_, complete := f.watcher.AsOf()
	return f.reloading && f.pending() > 0 || !complete && !f.c.State().State.IsConnected()
}

// run follows the ensemble until stop is called, or following has become impossible.
func (f *follower) run() {
	defer close(f.done)
	defer f.watcher.Close()
	for f.ctx.Err() == nil {
		if err := f.handleEvents(); err != nil {
			f.end(err)
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
			f.end(err)
			return
		}
		select {
		case <-f.watcher.Ready():
		case <-f.wake:
		case <-f.ctx.Done():
		}
	}
}

// end makes the Cache Stale for good.
func (f *follower) end(err error) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	if f.k.follower == f {
		f.k.fail(err)
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
		if ok {
			f.handleEvent(event)
			f.k.notify()
		}
		f.k.mu.Unlock()
		if !ok {
			return err
		}
	}
}

// handleEvent handles an event. The lock is held.
func (f *follower) handleEvent(e client.Event) {
	path, ok := f.k.below(e.Path)
	if !ok {
		return
	}
	n := f.k.tree.find(path)
	switch {
	case e.Type == client.Gap && e.Below:
		f.reload(path)
	case e.Type == client.NodeDeleted && e.Zxid != client.NoZxid:
		if n != nil && n.Stat.Created < e.Zxid {
			f.remove(path, e.Zxid)
		}
	case e.Zxid != client.NoZxid && n != nil && n.Stat.Changed >= e.Zxid: // the copy is newer
	default:
		f.add(read{path, readData})
	}
}

// reload reads a node and all nodes below it again. The lock is held.
func (f *follower) reload(path string) {
	f.reloading = true
	f.add(read{path, f.kindFor(path)})
}

// kindFor returns the read by which a node and all nodes below it become known. The lock is held.
func (f *follower) kindFor(path string) readKind {
	if f.k.tree.find(path) == nil {
		return readAll
	}
	return readStat
}

// remove removes a node and all nodes below it from the copy. The lock is held.
func (f *follower) remove(path string, zxid client.Zxid) {
	t := &f.k.tree
	t.newest = max(t.newest, zxid)
	t.remove(path, func(path string, n *node) {
		f.k.report(Change{Type: Removed, Path: f.k.full(path), Node: n.Node})
	})
}

// add has a read sent. The lock is held.
func (f *follower) add(r read) {
	if f.queued[r] {
		return
	}
	f.queued[r] = true
	f.toRead = append(f.toRead, r)
	f.signal()
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// sendReads sends reads while there is room.
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
		if err := f.send(next); err != nil {
			f.finish(next, func() { f.add(next) })
			return err
		}
	}
}

// send sends a read.
func (f *follower) send(r read) error {
	p, path := f.c.Pipeline(), f.k.full(r.path)
	switch r.kind {
	case readStat:
		return p.Exists(f.ctx, path, func(stat client.Stat, exists bool, err error) {
			if err == nil && !exists {
				err = client.ErrNoNode
			}
			f.answered(r, err, func() { f.gotStat(r, stat) })
		})
	case readChildren, readNames:
		return p.Children(f.ctx, path, func(names []string, _ client.Stat, err error) {
			f.answered(r, err, func() { f.gotChildren(r, names) })
		})
	}
	return p.Get(f.ctx, path, func(data []byte, stat client.Stat, err error) {
		f.answered(r, err, func() { f.gotData(r, data, stat) })
	})
}

// answered handles the reply to a read.
func (f *follower) answered(r read, err error, handle func()) {
	f.finish(r, func() {
		switch {
		case err == nil:
			handle()
		case errors.Is(err, client.ErrConnectionLost):
			f.add(r)
		case errors.Is(err, client.ErrNoAuth) && r.path == "" && !f.k.complete:
			f.k.fail(err)
		case errors.Is(err, client.ErrNoNode), errors.Is(err, client.ErrNoAuth):
			f.remove(r.path, 0)
		default:
			f.k.fail(err)
		}
	})
}

// finish ends a read, with handle under the lock.
func (f *follower) finish(r read, handle func()) {
	f.k.mu.Lock()
	defer f.k.mu.Unlock()
	f.inFlight--
	if f.k.follower != f {
		return
	}
	handle()
	if f.pending() == 0 {
		f.reloading = false
	}
	if f.k.tree.bytes > f.k.maxBytes {
		f.k.fail(ErrTooLarge)
	}
	f.k.notify()
	f.signal()
}

// gotStat handles a Stat of a node whose data may be known. The lock is held.
func (f *follower) gotStat(r read, stat client.Stat) {
	n := f.k.tree.find(r.path)
	if n == nil || n.Stat.Changed != stat.Changed { // no two nodes have a change of one transaction at a path
		f.add(read{r.path, readAll})
		return
	}
	if !n.isOlder(stat) {
		n.Stat = stat
	}
	f.followChildren(r.path, n, stat, true)
}

// gotData handles the data of a node. The lock is held.
func (f *follower) gotData(r read, data []byte, stat client.Stat) {
	n, existed, changed := f.k.tree.set(r.path, bytes.Clone(data), stat)
	if n == nil {
		return // its parent is gone, or not read yet
	}
	if changed {
		typ := Added
		if existed {
			typ = Updated
		}
		f.k.report(Change{Type: typ, Path: f.k.full(r.path), Node: n.copyOf()})
	}
	f.followChildren(r.path, n, stat, r.kind == readAll)
}

// followChildren reads the names of a node's children, if all is set and there are some, or if their number is not that
// of the copy. The lock is held.
func (f *follower) followChildren(path string, n *node, stat client.Stat, all bool) {
	switch {
	case all && stat.NumChildren > 0:
		f.add(read{path, readChildren})
	case len(n.children) != stat.NumChildren: // their events wait, or did not come
		f.add(read{path, readNames})
	}
}

// gotChildren handles the names of a node's children. The lock is held.
func (f *follower) gotChildren(r read, names []string) {
	n := f.k.tree.find(r.path)
	if n == nil {
		return
	}
	present := make(map[string]bool, len(names))
	for _, name := range names {
		present[name] = true
	}
	for _, name := range n.names() {
		if !present[name] {
			f.remove(join(r.path, name), 0)
		}
	}
	for _, name := range names {
		if r.kind == readChildren || n.children[name] == nil {
			path := join(r.path, strings.Clone(name))
			f.add(read{path, f.kindFor(path)})
		}
	}
}
