package server

import (
	"context"
	"iter"
	"slices"
	"strings"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
	"rollcall/znode"
)

// Listing lists the connections and watches of a server for operators. Methods with a page fill the slice
// passed up to its capacity. They hold no lock for more than listedPerLock connections or watches. If ctx
// ends first, the page is incomplete. Safe for concurrent use.
type Listing struct {
	conns *connectionTable
	tree  *znode.State
}

// Listing returns the connections and watches of the server.
func (s *Server) Listing() Listing { return Listing{s.conns, s.cfg.State} }

// listedPerLock is the number of connections that are visited under one hold of a lock. Apply or accept may
// have to wait for it, some tens of microseconds.
const listedPerLock = 256

// ConnectionsFrom appends to page the connections whose numbers are at least first, in order. It returns the
// number at which the next page begins, or 0 if there are no more.
func (l Listing) ConnectionsFrom(ctx context.Context, page []clients.Connection, first uint64) (_ []clients.Connection,
	next uint64,
) {
	for part := range l.conns.partsFrom(first) {
		if ctx.Err() != nil {
			break
		}
		for _, c := range part {
			if len(page) == cap(page) {
				return page, c.localNumber
			}
			if shown, ok := c.describe(); ok {
				page = append(page, shown)
			}
		}
	}
	return page, 0
}

// ConnectionOf returns the connection that carries a session and the number of its watches. It returns false
// if no connection here carries it.
func (l Listing) ConnectionOf(id jute.SessionID) (shown clients.Connection, watches int, ok bool) {
	c := l.conns.carrierOf(id)
	if c == nil {
		return shown, 0, false
	}
	if shown, ok = c.describe(); !ok {
		return shown, 0, false
	}
	l.tree.RLock()
	defer l.tree.RUnlock()
	return shown, l.tree.Watches().CountOf(c), true
}

// WatchersFrom appends to page the watches that cover path: those on path itself and the recursive ones on
// nodes above it. They are ordered by connection number, then by path. It returns the place at which the next
// page begins, or the zero Place if there are no more.
func (l Listing) WatchersFrom(ctx context.Context, page []clients.Watch, path string,
	from clients.WatchPlace,
) (_ []clients.Watch, next clients.WatchPlace) {
	covering := l.coveringPaths(ctx, path)
	if len(covering) == 0 {
		return page, clients.WatchPlace{}
	}
	for part := range l.conns.partsFrom(from.Connection) {
		for _, c := range part {
			if page, next = l.appendWatchers(ctx, page, c, path, covering, from); next != (clients.WatchPlace{}) ||
				ctx.Err() != nil {
				return page, next
			}
		}
	}
	return page, clients.WatchPlace{}
}

// coveringPaths returns the paths with watches that cover path, in order: nodes above it with recursive
// watches, and path itself.
func (l Listing) coveringPaths(ctx context.Context, path string) (paths []string) {
	l.tree.RLock()
	defer l.tree.RUnlock()
	n := 0
	for i := 0; i < len(path)-1; i++ {
		if path[i] != '/' {
			continue
		}
		if n++; n%listedPerLock == 0 { // a path may have thousands of parts
			l.tree.RUnlock()
			l.tree.RLock()
			if ctx.Err() != nil {
				return nil
			}
		}
		if above := path[:max(i, 1)]; l.tree.Watches().HasRecursiveWatch(above) { // the root keeps its slash
			paths = append(paths, above)
		}
	}
	if l.tree.Watches().IsWatched(path) {
		paths = append(paths, path)
	}
	return paths
}

// appendWatchers appends to page the watches of c that cover path. They are on the paths covering.
func (l Listing) appendWatchers(ctx context.Context, page []clients.Watch, c *conn, path string, covering []string,
	from clients.WatchPlace,
) (_ []clients.Watch, next clients.WatchPlace) {
	if c.localNumber == from.Connection {
		first, _ := slices.BinarySearch(covering, from.Path)
		covering = covering[first:]
	}
	for some := range slices.Chunk(covering, listedPerLock) {
		if page, next = l.appendWatchersOn(page, c, path, some); next != (clients.WatchPlace{}) || ctx.Err() != nil {
			return page, next
		}
	}
	return page, clients.WatchPlace{}
}

func (l Listing) appendWatchersOn(page []clients.Watch, c *conn, path string, covering []string) (_ []clients.Watch,
	next clients.WatchPlace,
) {
	l.tree.RLock()
	defer l.tree.RUnlock()
	for _, on := range covering {
		kinds, ok := l.tree.Watches().KindsOn(on, c)
		if on != path { // the other kinds do not cover what is below
			kinds = znode.WatchKinds{Recursive: kinds.Recursive}
			ok = kinds.Recursive
		}
		switch {
		case !ok:
		case len(page) == cap(page):
			return page, clients.WatchPlace{Connection: c.localNumber, Path: on}
		default:
			page = append(page, c.describeWatch(on, kinds))
		}
	}
	return page, clients.WatchPlace{}
}

func (c *conn) describeWatch(path string, kinds znode.WatchKinds) clients.Watch {
	c.stream.Lock()
	defer c.stream.Unlock()
	return clients.Watch{
		ConnectionNumber: c.localNumber, Session: c.session.id, Path: path,
		Data: kinds.Data, Children: kinds.Children, Persistent: kinds.Persistent, Recursive: kinds.Recursive,
	}
}

// WatchesFrom appends to page the watches of the connection that carries a session, ordered by path, from
// path first on. It returns the path at which the next page begins, or "" if there are no more. It scans all
// watches of the connection in parts, and sorts no more than a page and a part.
func (l Listing) WatchesFrom(ctx context.Context, page []clients.Watch, id jute.SessionID,
	first string,
) (_ []clients.Watch, next string) {
	c := l.conns.carrierOf(id)
	if c == nil {
		return page, ""
	}
	paths := lowestTexts{limit: cap(page) - len(page) + 1, lowerBound: first}
	scan := znode.NewWatchScan(c)
	for unseen := true; unseen && ctx.Err() == nil; paths.trimToLimit() {
		l.tree.RLock()
		unseen = l.tree.Watches().ScanNext(scan, paths.add)
		l.tree.RUnlock()
	}
	if paths.isFull {
		next = paths.kept[paths.limit-1]
		paths.kept = paths.kept[:paths.limit-1]
	}
	for part := range slices.Chunk(paths.kept, listedPerLock) {
		page = l.appendWatchesOn(page, c, part)
	}
	return page, next
}

// appendWatchesOn appends to page the watches of c on these paths that still exist.
func (l Listing) appendWatchesOn(page []clients.Watch, c *conn, paths []string) []clients.Watch {
	l.tree.RLock()
	defer l.tree.RUnlock()
	for _, path := range paths {
		if kinds, ok := l.tree.Watches().KindsOn(path, c); ok {
			page = append(page, c.describeWatch(path, kinds))
		}
	}
	return page
}

// Connections yields all connections, oldest first. It holds no lock while it yields.
func (l Listing) Connections() iter.Seq[clients.Connection] {
	return func(yield func(clients.Connection) bool) {
		for _, c := range l.conns.all() {
			if shown, ok := c.describe(); ok && !yield(shown) {
				return
			}
		}
	}
}

// ResetTraffic sets the counters of every connection to zero.
func (l Listing) ResetTraffic() {
	for _, c := range l.conns.all() {
		c.stream.Lock()
		c.replies.traffic = traffic{}
		c.stream.Unlock()
	}
}

// Watches yields the sessions that watch nodes here, in order, each with its paths. As in ZooKeeper, it
// leaves out watches for children alone. It copies one connection's watches at a time, and holds no lock
// while it yields.
func (l Listing) Watches() iter.Seq2[jute.SessionID, []string] {
	return func(yield func(jute.SessionID, []string) bool) {
		for _, c := range l.conns.all() {
			if id, paths := l.watchedPaths(c); len(paths) > 0 && !yield(id, paths) {
				return
			}
		}
	}
}

func (l Listing) watchedPaths(c *conn) (id jute.SessionID, paths []string) {
	c.stream.Lock()
	id = c.session.id
	c.stream.Unlock()
	l.tree.RLock()
	paths = slices.Collect(l.tree.Watches().DataPathsOf(c))
	l.tree.RUnlock()
	slices.Sort(paths)
	return id, paths
}

// lowestTexts keeps the lowest of some texts, each once.
type lowestTexts struct {
	limit      int    // the number of texts kept
	lowerBound string // smaller texts are left out
	kept       []string
	isFull     bool // kept is sorted and has limit texts
}

// add adds a text. The caller calls trimToLimit before too many are added.
func (l *lowestTexts) add(text string) {
	if text >= l.lowerBound && !(l.isFull && text >= l.kept[l.limit-1]) {
		l.kept = append(l.kept, text)
	}
}

func (l *lowestTexts) trimToLimit() {
	slices.SortFunc(l.kept, strings.Compare)
	l.kept = slices.Compact(l.kept)
	if l.isFull = len(l.kept) >= l.limit; l.isFull {
		l.kept = l.kept[:l.limit]
	}
}
