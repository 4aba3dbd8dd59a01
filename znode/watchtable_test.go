package znode

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"rollcall/proto"
	"rollcall/zk/jute"
)

func (c *client) addWatch(path string, mode jute.AddWatchMode) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	return c.w.s().AddWatch([]byte(path), mode, c)
}

func (c *client) checkWatches(path string, of jute.WatcherType) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	return c.w.s().Watches().CheckWatch([]byte(path), of, c)
}

func (c *client) removeWatches(path string, of jute.WatcherType) jute.Code {
	c.w.s().RLock()
	defer c.w.s().RUnlock()
	return c.w.s().Watches().RemoveWatch([]byte(path), of, c)
}

// dropWatcher drops all watches of c, and returns in how many pieces.
func (c *client) dropWatcher() int {
	for n := 1; ; n++ {
		c.w.s().RLock()
		more := c.w.s().Watches().DropWatches(c)
		c.w.s().RUnlock()
		if !more {
			return n
		}
	}
}

const (
	stays = jute.AddWatchPersistent
	below = jute.AddWatchPersistentRecursive
)

// Cases 216 to 224: the events that persistent watches get, also beside one-shot ones.
func TestStayingWatches(t *testing.T) {
	const any = anyVersion
	tests := []struct {
		name  string
		made  []string
		watch func(k *client) []jute.Code
		act   func(k *client)
		want  []string
	}{
		{
			"216", nil, func(k *client) []jute.Code { return []jute.Code{k.addWatch("/p", stays)} },
			func(k *client) {
				k.create("/p", 0)
				k.create("/p/c", 0)
				k.setData("/p/c", "", any)
				k.setData("/p", "", any)
				k.delete("/p/c", any)
				k.delete("/p", any)
				k.create("/p", 0)
			},
			[]string{"Created(/p)", "Children(/p)", "Changed(/p)", "Children(/p)", "Deleted(/p)", "Created(/p)"},
		},
		{
			"218 219", nil, func(k *client) []jute.Code { return []jute.Code{k.addWatch("/r", below)} },
			func(k *client) {
				k.create("/r", 0)
				k.create("/rx", 0)
				k.create("/r/c", 0)
				k.create("/r/c/d", 0)
				k.setData("/r/c/d", "", any)
				k.delete("/r/c/d", any)
				k.delete("/r/c", any)
				k.setData("/r", "", any)
				k.delete("/r", any)
				k.setData("/rx", "", any)
			},
			[]string{"Created(/r)", "Created(/r/c)", "Created(/r/c/d)", "Changed(/r/c/d)", "Deleted(/r/c/d)", "Deleted(/r/c)", "Changed(/r)", "Deleted(/r)"},
		},
		{
			"220", nil, func(k *client) []jute.Code { return []jute.Code{k.addWatch("/", below)} },
			func(k *client) {
				k.setData("/", "", any)
				k.create("/x", 0)
				k.create("/x/y", 0)
				k.create("/zookeeper/q", 0)
			},
			[]string{"Changed(/)", "Created(/x)", "Created(/x/y)", "Created(/zookeeper/q)"},
		},
		{
			"220 by the empty path", nil, func(k *client) []jute.Code { return []jute.Code{k.addWatch("", below)} },
			func(k *client) { k.create("/x", 0) },
			[]string{"Created(/x)"},
		},
		{
			"221",
			[]string{"/a", "/a/b", "/a/b/c"},
			func(k *client) []jute.Code {
				return []jute.Code{k.addWatch("/a", below), k.addWatch("/a/b", below), k.addWatch("/", below)}
			},
			func(k *client) { k.setData("/a/b/c", "", any) },
			[]string{"Changed(/a/b/c)"},
		},
		{
			"222",
			[]string{"/m"},
			func(k *client) []jute.Code {
				return []jute.Code{k.watchData("/m"), k.watchChildren("/m"), k.addWatch("/m", stays), k.addWatch("/m", below)}
			},
			func(k *client) {
				k.setData("/m", "", any)
				k.setData("/m", "", any)
				k.create("/m/x", 0)
				k.delete("/m/x", any)
				k.delete("/m", any)
			},
			[]string{"Changed(/m)", "Changed(/m)", "Created(/m/x)", "Children(/m)", "Deleted(/m/x)", "Children(/m)", "Deleted(/m)"},
		},
		{
			"222 the other way round",
			[]string{"/m"},
			func(k *client) []jute.Code {
				return []jute.Code{k.addWatch("/m", below), k.addWatch("/m", stays), k.watchChildren("/m"), k.watchData("/m")}
			},
			func(k *client) { k.setData("/m", "", any); k.create("/m/x", 0); k.setData("/m", "", any) },
			[]string{"Changed(/m)", "Created(/m/x)", "Children(/m)", "Changed(/m)"},
		},
		{
			"deleted below, with a child watch on it",
			[]string{"/a", "/a/b"},
			func(k *client) []jute.Code { return []jute.Code{k.watchChildren("/a/b"), k.addWatch("/a", below)} },
			func(k *client) { k.delete("/a/b", any); k.create("/a/b", 0); k.create("/a/b/c", 0) },
			[]string{"Deleted(/a/b)", "Created(/a/b)", "Created(/a/b/c)"},
		},
		{
			"child watch beside a recursive one",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.addWatch("/a", below), k.watchChildren("/a")} },
			func(k *client) { k.create("/a/x", 0); k.create("/a/y", 0) },
			[]string{"Created(/a/x)", "Children(/a)", "Created(/a/y)"},
		},
		{
			"multi, done and undone",
			[]string{"/a"},
			func(k *client) []jute.Code { return []jute.Code{k.addWatch("/a", below)} },
			func(k *client) {
				k.multi(mk("/a/b", 0), put("/a/b", any), rm("/a/b", any))
				k.multi(mk("/a/b", 0), put("/a/b", 9))
			},
			[]string{"Created(/a/b)", "Changed(/a/b)", "Deleted(/a/b)"},
		},
		{
			"223 224", nil,
			func(k *client) []jute.Code { return []jute.Code{-5 - k.addWatch("/a", 2), -5 - k.addWatch("/a", -1)} },
			func(k *client) { k.create("/a", 0) }, nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			actor, watcher := w.connect(), w.connect()
			for _, path := range tt.made {
				actor.must(actor.create(path, 0))
			}
			for _, k := range []*client{watcher, actor} {
				for i, code := range tt.watch(k) {
					if code != 0 {
						t.Errorf("watch %d is off by %d", i, code)
					}
				}
			}
			tt.act(actor)
			watcher.wantEvents(tt.want...)
			actor.wantEvents(tt.want...)
			checkWatchIndex(t, w.s())
		})
	}
}

// Case 211 for persistent watches: an event is filtered by the ACL of the node that it names. A
// watch that was not notified of one event stays set for the next.
func TestStayingWatchesAreFiltered(t *testing.T) {
	w := newWorld(t)
	owner, other := w.connect().auth("digest", "u:p"), w.connect()
	for _, k := range []*client{owner, other} {
		_ = k.addWatch("/a", below)
		_ = k.addWatch("/a/secret", stays)
	}
	owner.must(owner.create("/a", 0))
	owner.must(owner.createACL("/a/secret", 0, aclOf(31, "auth", "")))
	owner.must(owner.create("/a/secret/open", 0))
	owner.must(owner.delete("/a/secret/open", -1))
	owner.must(owner.delete("/a/secret", -1))
	owner.must(owner.create("/a/secret", 0))
	owner.wantEvents("Created(/a)", "Created(/a/secret)", "Created(/a/secret/open)", "Children(/a/secret)",
		"Deleted(/a/secret/open)", "Children(/a/secret)", "Deleted(/a/secret)", "Created(/a/secret)")
	other.wantEvents("Created(/a)", "Created(/a/secret/open)", "Deleted(/a/secret/open)", "Created(/a/secret)")
}

// Cases 225 to 231: the watches that each type covers. Each row checks all types and then removes
// one.
func TestWatchTypes(t *testing.T) {
	const none, bad = jute.NoWatcher, jute.MarshallingError
	data := func(k *client) { _ = k.watchData("/a") }
	missing := func(k *client) { _ = k.watchExists("/b") }
	child := func(k *client) { _ = k.watchChildren("/a") }
	one := func(k *client) { _ = k.addWatch("/a", stays) }
	all := func(k *client) { _ = k.addWatch("/a", below) }
	tests := []struct {
		name  string
		watch []func(k *client)
		check [7]jute.Code // by type, 0 to 6
		off   jute.WatcherType
		want  []string // events of the watches that are left
	}{
		{"nothing", nil, [7]jute.Code{bad, none, none, none, none, none, bad}, 3, nil},
		{"225 226", []func(*client){one}, [7]jute.Code{bad, none, none, 0, 0, none, bad}, 4, nil},
		{"226, wrong type", []func(*client){one}, [7]jute.Code{bad, none, none, 0, 0, none, bad}, 5, []string{"Changed(/a)", "Children(/a)"}},
		{"recursive", []func(*client){all}, [7]jute.Code{bad, none, none, 0, none, 0, bad}, 5, nil},
		{"recursive, wrong type", []func(*client){all}, [7]jute.Code{bad, none, none, 0, none, 0, bad}, 2, []string{"Changed(/a)", "Created(/a/x)"}},
		{"227", []func(*client){data}, [7]jute.Code{bad, none, 0, 0, none, none, bad}, 2, nil},
		{"227, wrong type", []func(*client){data}, [7]jute.Code{bad, none, 0, 0, none, none, bad}, 1, []string{"Changed(/a)"}},
		{"229", []func(*client){data, child}, [7]jute.Code{bad, 0, 0, 0, none, none, bad}, 3, nil},
		{"230", []func(*client){data, child}, [7]jute.Code{bad, 0, 0, 0, none, none, bad}, 2, []string{"Children(/a)"}},
		{"one-shot of several", []func(*client){data, one, all, child}, [7]jute.Code{bad, 0, 0, 0, 0, 0, bad}, 2, []string{"Changed(/a)", "Created(/a/x)", "Children(/a)"}},
		{"persistent of several", []func(*client){data, one, all, child}, [7]jute.Code{bad, 0, 0, 0, 0, 0, bad}, 4, []string{"Changed(/a)", "Created(/a/x)", "Children(/a)"}},
		{"recursive of several", []func(*client){data, one, all, child}, [7]jute.Code{bad, 0, 0, 0, 0, 0, bad}, 5, []string{"Changed(/a)", "Children(/a)"}},
		{"all of several", []func(*client){data, one, all, child}, [7]jute.Code{bad, 0, 0, 0, 0, 0, bad}, 3, nil},
		{"231, other path", []func(*client){missing}, [7]jute.Code{bad, none, none, none, none, none, bad}, 3, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			actor, k, other := w.connect(), w.connect(), w.connect()
			actor.must(actor.create("/a", 0))
			for _, set := range append(tt.watch, missing, all) {
				set(other) // watches of another connection change no answer, and stay
			}
			for _, set := range tt.watch {
				set(k)
			}
			for of, want := range tt.check {
				if got := k.checkWatches("/a", jute.WatcherType(of)); got != want {
					t.Errorf("checkWatches of type %d: %v, want %v", of, got, want)
				}
			}
			want := tt.check[tt.off]
			for range 2 {
				if got := k.removeWatches("/a", tt.off); got != want {
					t.Errorf("removeWatches of type %d: %v, want %v", tt.off, got, want)
				}
				want = jute.NoWatcher
				checkWatchIndex(t, w.s())
			}
			actor.must(actor.setData("/a", "", -1))
			actor.must(actor.create("/a/x", 0))
			k.wantEvents(tt.want...)
			if len(other.events) < 2 {
				t.Errorf("the other connection heard only %v", other.events)
			}
		})
	}
}

// A null path sets no watch and finds none, not even on the root.
func TestNullWatchPath(t *testing.T) {
	w := newWorld(t)
	k, s := w.connect(), w.s()
	if code := s.AddWatch(nil, below, k); code != jute.OK || s.Watches().WatchCount() != 0 {
		t.Errorf("addWatch: %v, %d watches", code, s.Watches().WatchCount())
	}
	_ = k.addWatch("/", below)
	if a, b := s.Watches().CheckWatch(nil, jute.WatcherAny, k), s.Watches().RemoveWatch(nil, jute.WatcherAny, k); a != jute.NoWatcher || b != jute.NoWatcher {
		t.Errorf("checkWatches: %v, removeWatches: %v", a, b)
	}
}

// The buffer of a request is used again, so no watch keeps a part of it.
func TestWatchKeepsNoRequest(t *testing.T) {
	w := newWorld(t)
	k, s := w.connect(), w.s()
	k.must(k.create("/here", 0))
	for i := range 5 {
		here, missing := []byte("/here"), []byte("/none")
		req := &jute.SetWatches2{
			RelativeZxid: s.Zxid(), Data: [][]byte{here}, Exist: [][]byte{missing}, Child: [][]byte{here},
			Persistent: [][]byte{here, missing}, Recursive: [][]byte{here, missing},
		}
		switch i {
		case 0:
			_, _ = s.Exists(missing, nil, k)
			_, _, _ = s.GetData(here, nil, k)
			_, _, _ = s.Children(here, nil, k)
		case 1:
			_ = s.AddWatch(missing, stays, k)
			_ = s.AddWatch(here, below, k)
		case 2:
			_ = s.SetWatches(req, k, nil)
		case 3:
			req.Data, req.Exist, req.Child = [][]byte{}, [][]byte{}, [][]byte{}
			_ = s.SetWatches(req, k, nil)
		case 4:
			_ = s.SetWatches(req, k, nil)
			_ = s.Watches().CheckWatch(missing, jute.WatcherAny, k)
		}
		copy(here, "!!!!!")
		copy(missing, "?????")
		checkWatchIndex(t, s)
		for path := range s.Watches().tables[dataTable].byPath {
			if path != "/here" && path != "/none" {
				t.Errorf("%d: a watch on %q", i, path)
			}
		}
		k.dropWatcher()
	}
}

// Case 212: a connection that is gone gets no events, and the others continue. Many watches are dropped in several
// pieces.
func TestDropWatcher(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.connect(), w.connect(), w.connect()
	for i := range 10 {
		path := fmt.Sprintf("/%d", i)
		a.must(a.create(path, 0))
		for _, k := range []*client{a, b, c} {
			_ = k.watchData(path)
			_ = k.watchChildren(path)
		}
	}
	_ = b.addWatch("/", below)
	for i := range 2 * watchesPerLock {
		_ = b.watchExists(fmt.Sprintf("/none/%d", i))
	}
	if n := w.s().Watches().WatchCount(); n != 61+2*watchesPerLock {
		t.Errorf("%d watches", n)
	}
	if n := b.dropWatcher(); n != 3 {
		t.Errorf("dropped in %d pieces", n)
	}
	if n := b.dropWatcher(); n != 1 || w.s().Watches().WatchCount() != 40 {
		t.Errorf("%d pieces more, %d watches", n, w.s().Watches().WatchCount())
	}
	checkWatchIndex(t, w.s())
	a.setData("/3", "", -1)
	a.wantEvents("Changed(/3)")
	b.wantEvents()
	c.wantEvents("Changed(/3)")
	a.dropWatcher()
	c.dropWatcher()
	if n := w.s().Watches().WatchCount(); n != 0 || len(w.s().watches.watchers) != 0 {
		t.Errorf("%d watches left", n)
	}
	checkWatchIndex(t, w.s())
}

// The counts of watches that four-letter commands show. A path counts once, in whatever modes it is watched.
func TestWatchCounts(t *testing.T) {
	w := newWorld(t)
	a, b, c := w.connect(), w.connect(), w.connect()
	s := w.s()
	count := func(watches, onNodes, paths, watching int) {
		t.Helper()
		if got := [4]int{s.Watches().WatchCount(), s.Watches().DataWatchCount(), s.Watches().DataPathCount(), s.Watches().DataWatcherCount()}; got != [4]int{watches, onNodes, paths, watching} {
			t.Errorf("%d watches, %d on nodes, on %d paths, by %d", got[0], got[1], got[2], got[3])
		}
	}
	count(0, 0, 0, 0)
	_ = a.addWatch("/r", below)
	count(1, 1, 1, 1)
	_ = a.addWatch("/r", stays)
	_ = a.watchExists("/r")
	count(2, 1, 1, 1)
	_ = b.watchChildren("/")
	count(3, 1, 1, 1)
	_ = b.watchData("/")
	_ = c.watchData("/")
	count(5, 3, 2, 3)
	for i := range watchesPerLock {
		_ = c.watchExists(fmt.Sprintf("/none/%d", i))
	}
	count(5+watchesPerLock, 3+watchesPerLock, 2+watchesPerLock, 3)
}

// A client that sets its watches again gets no event for a node that it may not read, and no one-shot watch that checkWatches would show,
// whether or not the node has changed since. A client that may read the node gets one of them.
func TestSetWatchesHidesNodes(t *testing.T) {
	w := newWorld(t)
	owner := w.connect().auth("digest", "u:hash")
	before := w.s().Zxid()
	secret := aclOf(jute.PermAll, "digest", "u:hash")
	owner.must(owner.createACL("/secret", 0, secret))
	owner.must(owner.createACL("/secret/child", 0, secret))
	strangers := []*client{w.connect(), w.connect().auth("digest", "v:hash")}
	for _, tt := range []struct {
		name    string
		seen    int64
		events  []string // for the owner
		watches jute.Code
	}{
		{"changed", before, []string{"Changed(/secret)", "Created(/secret)", "Children(/secret)"}, jute.NoWatcher},
		{"unchanged", w.s().Zxid(), []string{"Created(/secret)"}, jute.OK},
		{"of the future", math.MaxInt64, []string{"Created(/secret)"}, jute.OK},
	} {
		for i, who := range append(strangers, owner) {
			events, code := []string(nil), jute.NoWatcher
			if who == owner {
				events, code = tt.events, tt.watches
			}
			path := []byte("/secret")
			list := [][]byte{path}
			req := &jute.SetWatches2{RelativeZxid: tt.seen, Data: list, Exist: list, Child: list, Persistent: [][]byte{}, Recursive: [][]byte{}}
			w.s().RLock()
			got := w.s().SetWatches(req, who, func(t jute.EventType, path []byte) {
				who.events = append(who.events, fmt.Sprintf("%s(%s)", names[t], path))
			})
			w.s().RUnlock()
			if got != jute.OK {
				t.Errorf("%s, client %d: %v", tt.name, i, got)
			}
			for _, of := range []jute.WatcherType{jute.WatcherData, jute.WatcherChildren} {
				if got := w.s().Watches().CheckWatch(path, of, who); got != code {
					t.Errorf("%s, client %d: checkWatches of type %v: %v, want %v", tt.name, i, of, got, code)
				}
			}
			who.wantEvents(events...)
		}
	}
}

// A client is compared once with a list that many nodes share, and with each of several lists.
func TestSetWatchesComparesListsOnce(t *testing.T) {
	w := newWorld(t)
	owner := w.connect().auth("digest", "u:hash")
	req := &jute.SetWatches2{RelativeZxid: math.MaxInt64, Exist: [][]byte{}, Child: [][]byte{}, Persistent: [][]byte{}, Recursive: [][]byte{}}
	for i := range 100 {
		path := fmt.Sprint("/", i)
		owner.must(owner.createACL(path, 0, aclOf(jute.PermAll, "digest", []string{"u:hash", "v:hash"}[i%2])))
		req.Data = append(req.Data, []byte(path))
	}
	counted := &comparedWatcher{ids: owner.ids}
	w.s().RLock()
	defer w.s().RUnlock()
	code := w.s().SetWatches(req, counted, func(t jute.EventType, path []byte) { counted.events++ })
	if watches := w.s().Watches().WatchCount(); code != jute.OK || counted.events != 0 || watches != 50 || counted.comparisons != 2 {
		t.Errorf("%v, %d events, %d watches, %d comparisons; want 50 watches and 2 comparisons",
			code, counted.events, watches, counted.comparisons)
	}
}

// comparedWatcher counts the reads of its identities.
type comparedWatcher struct {
	ids                 []*proto.Identity
	events, comparisons int
}

func (*comparedWatcher) QueueEvent(jute.EventType, string, int64) {}
func (*comparedWatcher) AdjustWatchMemory(int)                    {}
func (k *comparedWatcher) Identities() []*proto.Identity {
	k.comparisons++
	return k.ids
}

// Cases 232 to 239: a client that sets its watches again gets the events that it missed, and its
// other watches are set. Persistent watches are set whatever has happened.
func TestSetWatches(t *testing.T) {
	w := newWorld(t)
	k := w.connect()
	k.must(k.create("/same", 0))
	k.must(k.create("/n", 0))
	k.must(k.create("/c", 0))
	seen := w.s().Zxid()
	k.must(k.setData("/n", "", -1))
	k.must(k.create("/c/x", 0))
	k.must(k.create("/new", 0))
	list := func(paths ...string) [][]byte {
		out := [][]byte{}
		for _, p := range paths {
			out = append(out, []byte(p))
		}
		return out
	}
	set := func(lists ...[][]byte) jute.Code {
		w.s().RLock()
		defer w.s().RUnlock()
		req := &jute.SetWatches2{RelativeZxid: seen, Data: lists[0], Exist: lists[1], Child: lists[2], Persistent: lists[3], Recursive: lists[4]}
		return w.s().SetWatches(req, k, func(t jute.EventType, path []byte) {
			k.events = append(k.events, fmt.Sprintf("%s(%s)", names[t], path))
		})
	}
	for i := range 8 {
		lists := [][][]byte{list("/same", "/gone"), list("/new"), list("/c"), list("/p"), list("/r")}
		if i < 5 {
			lists[i] = nil
		} else {
			lists[i-5] = append(lists[i-5], nil)
		}
		if code := set(lists...); code != jute.MarshallingError || k.events != nil || w.s().Watches().WatchCount() != 0 {
			t.Errorf("239: %v %v, %d watches", code, k.events, w.s().Watches().WatchCount())
		}
	}
	code := set(list("/n", "/gone", "/same", "/c"), list("/new", "/none"), list("/c", "/x", "/same"), list(), list())
	k.wantEvents("Changed(/n)", "Deleted(/gone)", "Created(/new)", "Children(/c)", "Deleted(/x)")
	if code != jute.OK || w.s().Watches().WatchCount() != 4 { // /same twice, /none, and /c, whose data the client has seen
		t.Errorf("%v, %d watches", code, w.s().Watches().WatchCount())
	}
	k.must(k.setData("/same", "", -1))
	k.must(k.create("/none", 0))
	k.must(k.create("/same/x", 0))
	k.must(k.setData("/n", "", -1))
	k.wantEvents("Changed(/same)", "Created(/none)", "Children(/same)")

	k.dropWatcher()
	if code := set(list(), list(), list(), list("/new", "/gone"), list("/n")); code != jute.OK || w.s().Watches().WatchCount() != 5 {
		t.Errorf("238: %v, %d watches", code, w.s().Watches().WatchCount())
	}
	k.wantEvents()
	for range 2 {
		k.must(k.setData("/n", "", -1))
		k.must(k.setData("/new", "", -1))
		k.wantEvents("Changed(/n)", "Changed(/new)")
	}
	k.must(k.create("/n/y", 0))
	k.must(k.create("/gone", 0))
	k.must(k.create("/gone/y", 0))
	k.wantEvents("Created(/n/y)", "Created(/gone)", "Children(/gone)")
}

// checkWatchIndex checks the invariants of the tables of watches.
func checkWatchIndex(t testing.TB, s *State) {
	t.Helper()
	w := &s.watches
	seen := [tableKinds]map[*watcherEntry]int{{}, {}}
	for k := range w.tables {
		table := &w.tables[k]
		n, below := 0, 0
		for path, p := range table.byPath {
			var last *watch
			here, plain := 0, false
			for e := p.first; e != nil; last, e = e, e.samePath.next {
				here++
				seen[k][e.watcherEntry]++
				if e.modes&recursive != 0 {
					below++
					if plain {
						t.Errorf("%s: a recursive watch comes after another kind", path)
					}
				} else {
					plain = true
				}
				if e.modes == 0 || e.path != p || e.samePath.prev != last || w.watchers[e.watcherEntry.watcher] != e.watcherEntry ||
					p.findWatch(e.watcherEntry) != e {
					t.Errorf("%s: %+v", path, e)
				}
			}
			if here == 0 || here != p.watchCount || p.path != path || p.last != last || p.byWatcher != nil && len(p.byWatcher) != here {
				t.Errorf("%s: %d watches, %+v", path, here, p)
			}
			n += here
		}
		if n != table.watchCount || below != table.recursiveCount || len(seen[k]) != table.watcherCount {
			t.Errorf("table %d: %d watches, %d recursive, by %d: %+v", k, n, below, len(seen[k]), table)
		}
	}
	for who, r := range w.watchers {
		if r.watcher != who || r.first == [tableKinds]*watch{} {
			t.Errorf("watcher %v", r)
		}
		if c, ok := who.(*client); ok {
			size := 0
			for k := range r.first {
				for e := r.first[k]; e != nil; e = e.sameWatcher.next {
					size += watchOverhead + len(e.path.path)
				}
			}
			if size != c.watching {
				t.Errorf("watcher %v was told of %d bytes, and its watches take %d", r, c.watching, size)
			}
		}
		for k := range r.first {
			n := 0
			var last *watch
			for e := r.first[k]; e != nil; last, e = e, e.sameWatcher.next {
				if n++; e.watcherEntry != r || e.sameWatcher.prev != last {
					t.Errorf("%+v", e)
				}
			}
			if n != seen[k][r] {
				t.Errorf("table %d: %d watches in a watcher's list, %d in those of paths", k, n, seen[k][r])
			}
		}
	}
}

// wakes is a watcher that keeps its events.
type wakes struct{ events []string }

func (k *wakes) QueueEvent(t jute.EventType, path string, zxid int64) {
	k.events = append(k.events, fmt.Sprintf("%v(%s) %d", t, path, zxid))
}
func (*wakes) Identities() []*proto.Identity { return nil }
func (*wakes) AdjustWatchMemory(int)         {}

// Pending changes fire in order and once, with a zxid. Discarded ones do not fire.
func TestPendingChanges(t *testing.T) {
	var w Watches
	var k wakes
	open := (&aclTable{}).worldList(jute.PermAll)
	change := func(path string) {
		w.addPending(notification{event: jute.EventNodeDataChanged, path: path, acl: open})
	}
	change("/a") // nobody watches yet
	w.addPersistentWatch("/a", true, &k)
	change("/a/lost")
	w.dropPending()
	change("/a/2")
	change("/a/1")
	w.firePending(7, &Rules{})
	w.firePending(8, &Rules{})
	if want := []string{"NodeDataChanged(/a/2) 7", "NodeDataChanged(/a/1) 7"}; !slices.Equal(k.events, want) {
		t.Errorf("events %q, want %q", k.events, want)
	}
}

// silentWatcher hears nothing.
type silentWatcher struct{ Watcher }

func (silentWatcher) AdjustWatchMemory(int) {}

// The only watch on a path takes one piece of memory with the record of the path, also after another watch there has gone.
// The collector visits each piece, and a connection may have a million watches.
func TestWatchesTakeOnePiece(t *testing.T) {
	const paths = 10_000
	names := make([]string, paths)
	for i := range names {
		names[i] = fmt.Sprint("/watched", i)
	}
	var w Watches
	first, second := &silentWatcher{}, &silentWatcher{}
	set := func(who Watcher, most float64) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, name := range names {
			w.addDataWatch(name, who)
		}
		runtime.ReadMemStats(&after)
		if pieces := float64(after.Mallocs-before.Mallocs) / paths; pieces > most {
			t.Errorf("%v pieces of memory for a watch, want at most %v", pieces, most)
		}
	}
	set(first, 1.2) // some for the map
	set(second, 1.01)
	for w.DropWatches(first) {
	}
	set(first, 0.01)
	for _, who := range []Watcher{first, second} {
		if n := w.CountOf(who); n != paths {
			t.Errorf("%d watches, want %d", n, paths)
		}
	}
}
