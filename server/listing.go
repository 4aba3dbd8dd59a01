package server

import (
	"context"
	"slices"
	"strings"

	"rollcall/jute"
	"rollcall/tally"
	"rollcall/znode"
)

// The methods of this file list connections and watches page by page, for operators. A page is the
// slice passed, which they fill up to its capacity. They hold no lock for more than listedPerLock
// connections or watches. If ctx ends first, the page is not complete.

// listedPerLock is how many connections are looked at under one hold of a lock, for which apply or
// accept may have to wait: some tens of microseconds.
const listedPerLock = 256

// ConnectionsFrom appends to page the connections whose numbers are at least first, in order. It
// returns the number at which the next page begins, or 0 if there are no more.
func (s *Server) ConnectionsFrom(ctx context.Context, page []tally.Connection, first uint64) (_ []tally.Connection, next uint64) {
	for part := range s.conns.parts(first) {
		if ctx.Err() != nil {
			break
		}
		for _, c := range part {
			if len(page) == cap(page) {
				return page, c.ordinal
			}
			if shown, ok := c.show(); ok {
				page = append(page, shown)
			}
		}
	}
	return page, 0
}

// Carried returns the connection that carries a session, and how many watches it has. It returns false
// if no connection here does.
func (s *Server) Carried(id jute.SessionID) (shown tally.Connection, watches int, ok bool) {
	c := s.conns.carrier(id)
	if c == nil {
		return shown, 0, false
	}
	if shown, ok = c.show(); !ok {
		return shown, 0, false
	}
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	return shown, tree.WatchCountOf(c), true
}

// WatchersFrom appends to page the watches that cover path: those on path itself, and the recursive ones
// on nodes above it. They are in the order of their connections' numbers, and those of one connection in
// the order of their paths. It returns the place at which the next page begins, or the zero Place if there
// are no more.
func (s *Server) WatchersFrom(ctx context.Context, page []tally.Watch, path string, from tally.Place) (_ []tally.Watch, next tally.Place) {
	covering := s.covering(ctx, path)
	if len(covering) == 0 {
		return page, tally.Place{}
	}
	for part := range s.conns.parts(from.Connection) {
		for _, c := range part {
			if page, next = s.watchers(ctx, page, c, path, covering, from); next != (tally.Place{}) || ctx.Err() != nil {
				return page, next
			}
		}
	}
	return page, tally.Place{}
}

// covering returns the paths on which there are watches that cover path, in order: nodes above it with
// recursive watches, and path itself.
func (s *Server) covering(ctx context.Context, path string) (paths []string) {
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	n := 0
	for i := 0; i < len(path)-1; i++ {
		if path[i] != '/' {
			continue
		}
		if n++; n%listedPerLock == 0 { // a path may have thousands of parts
			tree.RUnlock()
			tree.RLock()
			if ctx.Err() != nil {
				return nil
			}
		}
		if above := path[:max(i, 1)]; tree.WatchedBelow(above) { // the root keeps its slash
			paths = append(paths, above)
		}
	}
	if tree.Watched(path) {
		paths = append(paths, path)
	}
	return paths
}

// watchers appends to page the watches of c that cover path. They are on the paths covering.
func (s *Server) watchers(ctx context.Context, page []tally.Watch, c *conn, path string, covering []string, from tally.Place) (_ []tally.Watch, next tally.Place) {
	if c.ordinal == from.Connection {
		first, _ := slices.BinarySearch(covering, from.Path)
		covering = covering[first:]
	}
	for some := range slices.Chunk(covering, listedPerLock) {
		if page, next = s.someWatchers(page, c, path, some); next != (tally.Place{}) || ctx.Err() != nil {
			return page, next
		}
	}
	return page, tally.Place{}
}

func (s *Server) someWatchers(page []tally.Watch, c *conn, path string, covering []string) (_ []tally.Watch, next tally.Place) {
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	for _, on := range covering {
		kinds, ok := tree.WatchOn(on, c)
		if on != path { // the other kinds do not cover what is below
			kinds = znode.WatchKinds{Recursive: kinds.Recursive}
			ok = kinds.Recursive
		}
		switch {
		case !ok:
		case len(page) == cap(page):
			return page, tally.Place{Connection: c.ordinal, Path: on}
		default:
			page = append(page, c.watch(on, kinds))
		}
	}
	return page, tally.Place{}
}

// watch returns what operators see of a watch.
func (c *conn) watch(path string, kinds znode.WatchKinds) tally.Watch {
	c.stream.Lock()
	defer c.stream.Unlock()
	return tally.Watch{
		Connection: c.ordinal, Session: c.session, Path: path,
		Data: kinds.Data, Children: kinds.Children, Persistent: kinds.Persistent, Recursive: kinds.Recursive,
	}
}

// WatchesFrom appends to page the watches of the connection that carries a session, in the order of
// their paths, from path first on. It returns the path at which the next page begins, or "" if there are
// no more. It looks at all watches of the connection, in parts, and sorts no more than a page and a part.
func (s *Server) WatchesFrom(ctx context.Context, page []tally.Watch, id jute.SessionID, first string) (_ []tally.Watch, next string) {
	c := s.conns.carrier(id)
	if c == nil {
		return page, ""
	}
	tree := s.cfg.State
	paths := lowest{limit: cap(page) - len(page) + 1, first: first}
	scan := znode.NewWatchScan(c)
	for unseen := true; unseen && ctx.Err() == nil; paths.cut() {
		tree.RLock()
		unseen = tree.ScanWatches(scan, paths.see)
		tree.RUnlock()
	}
	if paths.full {
		next = paths.kept[paths.limit-1]
		paths.kept = paths.kept[:paths.limit-1]
	}
	for part := range slices.Chunk(paths.kept, listedPerLock) {
		page = s.watchesOn(page, c, part)
	}
	return page, next
}

// watchesOn appends to page the watches of c on these paths that still exist.
func (s *Server) watchesOn(page []tally.Watch, c *conn, paths []string) []tally.Watch {
	tree := s.cfg.State
	tree.RLock()
	defer tree.RUnlock()
	for _, path := range paths {
		if kinds, ok := tree.WatchOn(path, c); ok {
			page = append(page, c.watch(path, kinds))
		}
	}
	return page
}

// lowest keeps the lowest of some texts, each once.
type lowest struct {
	limit int    // how many are kept
	first string // texts below are left out
	kept  []string
	full  bool // kept has limit texts in order, up to its last
}

// see adds a text. cut must be called before too many are added.
func (l *lowest) see(text string) {
	if text >= l.first && !(l.full && text >= l.kept[l.limit-1]) {
		l.kept = append(l.kept, text)
	}
}

// cut removes all but the lowest texts.
func (l *lowest) cut() {
	slices.SortFunc(l.kept, strings.Compare)
	l.kept = slices.Compact(l.kept)
	if l.full = len(l.kept) >= l.limit; l.full {
		l.kept = l.kept[:l.limit]
	}
}
