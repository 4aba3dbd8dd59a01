package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"rollcall/operator/clients"
	"rollcall/zk/jute"
)

// Pages of connections, put together, have each connection once and in order.
func TestConnectionsFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		var ids []jute.SessionID
		for i := range 9 {
			c := w.connect()
			if i == 3 || i == 8 {
				_ = c.Close()
				continue
			}
			ids = append(ids, c.id)
		}
		synctest.Wait()
		for size := 1; size <= 8; size++ {
			var got []jute.SessionID
			for first := uint64(1); first != 0; {
				var page []clients.Connection
				page, first = w.srv.Listing().ConnectionsFrom(t.Context(), make([]clients.Connection, 0, size), first)
				for _, c := range page {
					got = append(got, c.Session)
				}
				if len(page) < size && first != 0 {
					t.Errorf("a page of %d has %d connections, and another follows", size, len(page))
				}
			}
			if !slices.Equal(got, ids) {
				t.Errorf("pages of %d: sessions %v, want %v", size, got, ids)
			}
		}
		if n := w.srv.Stats().Sessions; n != len(ids) {
			t.Errorf("%d sessions, want %d", n, len(ids))
		}
	})
}

// Parts of connections, put together, have each of them once and in order, also from the middle on.
func TestPartsOfConnections(t *testing.T) {
	for _, n := range []uint64{0, 1, listedPerLock - 1, listedPerLock, listedPerLock + 1, 3*listedPerLock + 1} {
		table := newConnectionTable(&Config{})
		for i := range n {
			table.conns.add(&conn{localNumber: 2*i + 1})
		}
		for _, first := range []uint64{0, 2, n} {
			next := first | 1 // the numbers are odd
			for part := range table.partsFrom(first) {
				if len(part) > listedPerLock {
					t.Errorf("a part of %d", len(part))
				}
				for _, c := range part {
					if c.localNumber != next {
						t.Fatalf("from %d of %d: connection %d follows, want %d", first, n, c.localNumber, next)
					}
					next += 2
				}
			}
			if want := max(2*n+1, first|1); next != want {
				t.Errorf("from %d of %d: the parts end before %d, want %d", first, n, next, want)
			}
		}
	}
}

// Carried finds the connection of a session that has one.
func TestCarried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		a, b := w.connect(), w.connect()
		b.call(jute.OpExists, exists("/x", true))
		b.must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/"), Watch: true})
		if c, watches, ok := w.srv.Listing().ConnectionOf(b.id); !ok || c.Session != b.id || c.Number != 2 || watches != 2 {
			t.Errorf("session %v: %+v with %d watches, %t", b.id, c, watches, ok)
		}
		_ = a.Close()
		synctest.Wait()
		if c, _, ok := w.srv.Listing().ConnectionOf(a.id); ok {
			t.Errorf("the connection of session %v is closed, and Carried returns %+v", a.id, c)
		}
	})
}

// The watches on a path come in the order of their connections, and a session's watches in the order of their paths,
// page by page. Each names the changes that it is set for.
func TestWatchPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		a, none, b := w.connect(), w.connect(), w.connect()
		for _, c := range []*client{a, b} {
			for i := range 5 {
				c.call(jute.OpExists, exists(fmt.Sprintf("/%d", 4-i), true))
			}
		}
		b.must(jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte("/"), Watch: true})
		b.must(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/3"), Mode: jute.AddWatchPersistent})
		b.must(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/9"), Mode: jute.AddWatchPersistentRecursive})
		row := func(n uint64, id jute.SessionID, path string) clients.Watch {
			return clients.Watch{ConnectionNumber: n, Session: id, Path: path, Data: true}
		}
		onThree := []clients.Watch{row(1, a.id, "/3"), row(3, b.id, "/3")}
		onThree[1].Persistent = true
		ofB := []clients.Watch{
			{ConnectionNumber: 3, Session: b.id, Path: "/", Children: true},
			row(3, b.id, "/0"), row(3, b.id, "/1"), row(3, b.id, "/2"), onThree[1], row(3, b.id, "/4"),
			{ConnectionNumber: 3, Session: b.id, Path: "/9", Recursive: true},
		}
		for size := 1; size <= 8; size++ {
			var got []clients.Watch
			for from, more := (clients.WatchPlace{}), true; more; {
				var page []clients.Watch
				page, from = w.srv.Listing().WatchersFrom(t.Context(), make([]clients.Watch, 0, size), "/3", from)
				got = append(got, page...)
				more = from != clients.WatchPlace{}
			}
			if !slices.Equal(got, onThree) {
				t.Errorf("pages of %d on /3: %+v, want %+v", size, got, onThree)
			}
			got = nil
			for first, more := "", true; more; {
				var page []clients.Watch
				page, first = w.srv.Listing().WatchesFrom(t.Context(), make([]clients.Watch, 0, size), b.id, first)
				got = append(got, page...)
				more = first != ""
			}
			if !slices.Equal(got, ofB) {
				t.Errorf("pages of %d of session %v: %+v, want %+v", size, b.id, got, ofB)
			}
		}
		if page, _ := w.srv.Listing().WatchersFrom(t.Context(), make([]clients.Watch, 0, 9), "/", clients.WatchPlace{}); !slices.Equal(page, ofB[:1]) {
			t.Errorf("on /, whose children are watched: %+v, want %+v", page, ofB[:1])
		}
		page := append(make([]clients.Watch, 0, 3), onThree[0]) // a page that has been begun
		if page, next := w.srv.Listing().WatchesFrom(t.Context(), page, b.id, ""); next != "/1" ||
			!slices.Equal(page, []clients.Watch{onThree[0], ofB[0], ofB[1]}) {
			t.Errorf("a page of 3 that had one watch: %+v, next %q", page, next)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if page, _ := w.srv.Listing().WatchesFrom(over, make([]clients.Watch, 0, 9), b.id, ""); len(page) != 0 {
			t.Errorf("after the end of its context: %+v", page)
		}
		if page, next := w.srv.Listing().WatchersFrom(over, make([]clients.Watch, 0, 9), "/3", clients.WatchPlace{}); len(page) > 1 || next != (clients.WatchPlace{}) {
			t.Errorf("on /3, of more than one connection after the end of its context: %+v", page)
		}
		if paths := w.srv.Listing().coveringPaths(over, strings.Repeat("/x", 2*listedPerLock)); len(paths) != 0 {
			t.Errorf("after the end of its context: watches are looked for on %q", paths)
		}
		if page, _ := w.srv.Listing().ConnectionsFrom(over, make([]clients.Connection, 0, 9), 0); len(page) != 0 {
			t.Errorf("after the end of its context: %+v", page)
		}
		if page, next := w.srv.Listing().WatchesFrom(t.Context(), make([]clients.Watch, 0, 9), none.id, ""); len(page) != 0 || next != "" {
			t.Errorf("of a session without watches: %+v", page)
		}
		if page, next := w.srv.Listing().WatchersFrom(t.Context(), make([]clients.Watch, 0, 9), "/nowhere", clients.WatchPlace{}); len(page) != 0 || next != (clients.WatchPlace{}) {
			t.Errorf("on a path without watches: %+v", page)
		}
	})
}

// A change at a path fires the watches on it and the recursive ones on nodes above it, the root among
// them. They are listed page by page, and others are not. A path of thousands of parts is covered as well.
func TestCoveringWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false, nil)
		a, b := w.connect(), w.connect()
		add := func(c *client, path string, mode jute.AddWatchMode) {
			c.must(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte(path), Mode: mode})
		}
		for _, path := range []string{"/", "/a", "/a/b", "/a/b/c", "/a/bc", "/b"} {
			add(a, path, jute.AddWatchPersistentRecursive)
		}
		for _, path := range []string{"/", "/a", "/a/b"} {
			add(b, path, jute.AddWatchPersistent)
		}
		b.call(jute.OpExists, exists("/a", true))
		add(b, "/a", jute.AddWatchPersistentRecursive)
		below := func(n uint64, id jute.SessionID, path string) clients.Watch {
			return clients.Watch{ConnectionNumber: n, Session: id, Path: path, Recursive: true}
		}
		want := []clients.Watch{
			below(1, a.id, "/"), below(1, a.id, "/a"), below(1, a.id, "/a/b"),
			below(2, b.id, "/a"),
			{ConnectionNumber: 2, Session: b.id, Path: "/a/b", Persistent: true},
		}
		for size := 1; size <= len(want)+1; size++ {
			var got []clients.Watch
			for from, more := (clients.WatchPlace{}), true; more; {
				var page []clients.Watch
				page, from = w.srv.Listing().WatchersFrom(t.Context(), make([]clients.Watch, 0, size), "/a/b", from)
				got = append(got, page...)
				more = from != clients.WatchPlace{}
			}
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d: %+v, want %+v", size, got, want)
			}
		}
		deep := "/b" + strings.Repeat("/x", 2*listedPerLock)
		add(b, deep, jute.AddWatchPersistent)
		want = []clients.Watch{below(1, a.id, "/"), below(1, a.id, "/b"), {ConnectionNumber: 2, Session: b.id, Path: deep, Persistent: true}}
		if got, _ := w.srv.Listing().WatchersFrom(t.Context(), make([]clients.Watch, 0, 9), deep, clients.WatchPlace{}); !slices.Equal(got, want) {
			t.Errorf("deep down: %+v, want %+v", got, want)
		}
	})
}

// A page of watches has the lowest paths, in whatever order they are seen, each once.
func TestLowest(t *testing.T) {
	l := lowestTexts{limit: 3, lowerBound: "b"}
	for _, part := range [][]string{{"g", "c", "c"}, {"a", "f", "d"}, {"e", "c", "b"}, {"z"}} {
		for _, text := range part {
			l.add(text)
		}
		l.trimToLimit()
	}
	if want := []string{"b", "c", "d"}; !slices.Equal(l.kept, want) || !l.isFull {
		t.Errorf("%v, want %v", l.kept, want)
	}
}
