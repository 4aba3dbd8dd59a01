package client

import (
	"context"
	"errors"

	"rollcall/client/session"
	"rollcall/zk/jute"
)

// serverVersion is the part of a server's version that matters for watches. It is known for one connection.
type serverVersion int

const (
	unknownVersion serverVersion = iota
	replacesKinds                // before ZooKeeper 3.9: a path has one kind of watch, and the last one set counts
	addsKinds                    // each kind of watch on a path can be set and removed for itself
)

// unwantedWatches are the paths with watches at the servers that no caller wants any more. It has at most one entry for
// each path of the table.
type unwantedWatches struct {
	queue    []string
	queued   map[string]bool
	running  bool // a goroutine removes them
	hopeless bool // the servers have no removeWatches
}

// removeLater has the unwanted watches on a path removed in the background. The lock is held.
func (t *watchTable) removeLater(path string) {
	u := &t.unwanted
	if u.hopeless || u.queued[path] {
		return
	}
	if u.queued == nil {
		u.queued = map[string]bool{}
	}
	u.queued[path] = true
	u.queue = append(u.queue, path)
	if !u.running {
		u.running = true
		t.c.background.Go(t.removeUnwanted)
	}
}

// nextRemoval returns a removal that removes only unwanted watches, and the kinds that are no longer set after it. ok
// is false if there is none. The lock is held.
func (t *watchTable) nextRemoval(p *pathWatches) (typ jute.WatcherType, removed []watchKind, ok bool) {
	if p.removals > 0 || p.removing != nil || t.unwanted.hopeless {
		return 0, nil, false
	}
	for kind := nodeWatch; kind <= treeWatch; kind++ {
		switch {
		case !p.set[kind] || p.shared[kind] != nil:
		case t.versions != replacesKinds:
			return removalTypes[kind], []watchKind{kind}, true
		case !p.isWanted():
			return jute.WatcherAny, []watchKind{dataWatch, childrenWatch, nodeWatch, treeWatch}, true
		}
	}
	if (p.set[nodeWatch] || p.set[treeWatch] || p.isShared()) && t.versions != addsKinds {
		return 0, nil, false // older servers would remove the persistent watch, too
	}
	for kind := range onceKinds {
		if p.set[kind] && len(p.once[kind]) == 0 && p.reading[kind] == 0 {
			return removalTypes[kind], []watchKind{kind}, true
		}
	}
	return 0, nil, false
}

// removeUnwanted removes unwanted watches until there are none left or the session has ended. The session's MaxInFlight
// limits the requests.
func (t *watchTable) removeUnwanted() {
	ctx := context.Background() // the end of the session ends all calls
	for {
		path, typ, removed, ok := t.takeUnwanted()
		if !ok {
			return
		}
		rec := jute.RemoveWatchesRequest{Path: []byte(path), Type: typ}
		err := t.c.session.Go(ctx, jute.OpRemoveWatches, rec, func(r session.Reply, err error) {
			t.removalAnswered(path, removed, r, err)
		})
		t.removalSent(path, err)
		if errors.Is(err, ErrSuspended) {
			err = t.c.AwaitConnected(ctx)
		}
		if err != nil { // the session has ended
			t.mu.Lock()
			defer t.mu.Unlock()
			t.unwanted = unwantedWatches{hopeless: true}
			return
		}
	}
}

// takeUnwanted returns the next removal. Until removalSent is called, no read with a watch begins on its path. If
// nothing is to be removed, ok is false, and the caller must return.
func (t *watchTable) takeUnwanted() (path string, typ jute.WatcherType, removed []watchKind, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	u := &t.unwanted
	for len(u.queue) > 0 {
		path, u.queue = u.queue[0], u.queue[1:]
		delete(u.queued, path)
		p := t.paths[path]
		if p == nil {
			continue
		}
		if typ, removed, ok = t.nextRemoval(p); ok {
			p.removing = make(chan struct{})
			p.removals++
			return path, typ, removed, true
		}
	}
	*u = unwantedWatches{hopeless: u.hopeless}
	return "", 0, nil, false
}

// removalSent lets reads with a watch begin on the path again. If err is set, the removal was not sent.
func (t *watchTable) removalSent(path string, err error) {
	t.update(path, func(p *pathWatches) {
		close(p.removing)
		p.removing = nil
		if err != nil {
			p.removals--
		}
	})
}

// removalAnswered handles the reply to a removal, on the reader.
func (t *watchTable) removalAnswered(path string, removed []watchKind, r session.Reply, err error) {
	t.update(path, func(p *pathWatches) {
		p.removals--
		switch {
		case err != nil: // the watch has been removed, or it is set again on the next connection
		case r.Err == jute.Unimplemented:
			t.unwanted.hopeless = true
		case r.Err == jute.MarshallingError && removed[0] >= onceKinds: // a type that the server does not know
			t.versions = replacesKinds
		default: // they are removed, or had fired
			for _, kind := range removed {
				p.set[kind] = false
			}
		}
	})
}
