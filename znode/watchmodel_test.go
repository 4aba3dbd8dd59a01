package znode

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"rollcall/zk/jute"
)

// A plain list of watches, which is searched from end to end, decides which watcher gets which event. The index agrees,
// whatever is set, removed, dropped, changed and closed. With -short, 5 of 15 seeds run.
func TestRandomWatches(t *testing.T) {
	seeds, steps := 15, 1500
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			randomWatches(t, uint64(seed), steps)
		})
	}
}

// watchModel is the plain list of watches, and what watches need to know of the nodes.
type watchModel struct {
	*rand.Rand
	w        *world
	actor    *client // may do everything
	watchers []*client
	list     []plainWatch
	secret   map[string]bool // the nodes that exist; true if only u:p may read the node
	want     map[*client][]string
}

type plainWatch struct {
	path  string
	who   *client
	table tableKind
	modes watchModes
}

func randomWatches(t *testing.T, seed uint64, steps int) {
	w := newWorld(t)
	m := &watchModel{Rand: rand.New(rand.NewPCG(seed, 2)), w: w, secret: map[string]bool{}, want: map[*client][]string{}}
	for _, path := range builtinPaths {
		m.secret[path] = false
	}
	m.actor = w.connect().auth("digest", "u:p")
	for i := range 14 { // more watches than a path has without a map
		k := w.connect()
		if i%2 == 0 {
			k.auth("digest", "u:p")
		}
		m.watchers = append(m.watchers, k)
	}
	for i := range steps {
		switch n := m.IntN(100); {
		case n < 50:
			m.register(m.watchers[m.IntN(len(m.watchers))])
		case n < 58:
			m.remove(m.watchers[m.IntN(len(m.watchers))])
		case n < 59:
			m.drop(m.watchers[m.IntN(len(m.watchers))])
		case n < 62:
			m.closeOwner()
		case n < 72:
			m.multi()
		default:
			m.change()
		}
		m.compare(t)
		if t.Failed() {
			t.Fatalf("step %d", i)
		}
	}
}

func (m *watchModel) path() string {
	names := []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/bx", "/x", "/x/y", "/", "/zookeeper", "/none/deep"}
	return names[m.IntN(len(names))]
}

func (m *watchModel) find(path string, who *client, k tableKind) *plainWatch {
	for i := range m.list {
		if p := &m.list[i]; p.path == path && p.who == who && p.table == k {
			return p
		}
	}
	return nil
}

func (m *watchModel) add(path string, who *client, k tableKind, mode watchModes) {
	if p := m.find(path, who, k); p != nil {
		p.modes |= mode
		return
	}
	m.list = append(m.list, plainWatch{path, who, k, mode})
}

// register sets a watch in one of all ways, at random.
func (m *watchModel) register(k *client) {
	path := m.path()
	switch m.IntN(6) {
	case 0:
		if code := k.watchExists(path); code == jute.OK || code == jute.NoNode {
			m.add(path, k, dataTable, oneShot)
		}
	case 1:
		if k.watchData(path) == jute.OK {
			m.add(path, k, dataTable, oneShot)
		}
	case 2:
		if k.watchChildren(path) == jute.OK {
			m.add(path, k, childTable, oneShot)
		}
	case 3:
		_ = k.addWatch(path, stays)
		m.add(path, k, dataTable, persistent)
		m.add(path, k, childTable, persistent)
	case 4:
		_ = k.addWatch(path, below)
		m.add(path, k, dataTable, recursive)
	case 5:
		m.setAgain(k)
	}
}

// setAgain sets some watches as after a reconnect during which no event was missed.
func (m *watchModel) setAgain(k *client) {
	req := &jute.SetWatches2{RelativeZxid: m.w.s().Zxid()}
	for i, list := range []*[][]byte{&req.Data, &req.Exist, &req.Child, &req.Persistent, &req.Recursive} {
		*list = [][]byte{}
		for range m.IntN(3) {
			path := m.path()
			secret, there := m.secret[path]
			hidden := i < 3 && secret && !readsSecrets(k)
			if i < 3 && there == (i == 1) && !hidden {
				continue // an event would have been missed
			}
			*list = append(*list, []byte(path))
			if hidden {
				continue // it is neither watched, nor is an event missed
			}
			switch i {
			case 0, 1:
				m.add(path, k, dataTable, oneShot)
			case 2:
				m.add(path, k, childTable, oneShot)
			case 3:
				m.add(path, k, dataTable, persistent)
				m.add(path, k, childTable, persistent)
			case 4:
				m.add(path, k, dataTable, recursive)
			}
		}
	}
	m.w.s().RLock()
	defer m.w.s().RUnlock()
	_ = m.w.s().SetWatches(req, k, func(e jute.EventType, path []byte) {
		k.events = append(k.events, fmt.Sprintf("missed %v(%s)", e, path))
	})
}

// remove checks and removes the watches that a type covers.
func (m *watchModel) remove(k *client) {
	path, of := m.path(), jute.WatcherType(1+m.IntN(5))
	want := jute.NoWatcher
	for i, p := range m.list {
		mode := map[jute.WatcherType]watchModes{1: oneShot, 2: oneShot, 3: 7, 4: persistent, 5: recursive}[of]
		if of == 1 && p.table == dataTable || of == 2 && p.table == childTable {
			mode = 0
		}
		if p.path == path && p.who == k && p.modes&mode != 0 {
			m.list[i].modes &^= mode
			want = jute.OK
		}
	}
	m.tidy()
	if a, b := k.checkWatches(path, of), k.removeWatches(path, of); a != want || b != want {
		m.w.t.Errorf("type %d on %s: %v, %v, want %v", of, path, a, b, want)
	}
}

func (m *watchModel) tidy() {
	m.list = slices.DeleteFunc(m.list, func(p plainWatch) bool { return p.modes == 0 })
}

func (m *watchModel) drop(k *client) {
	k.dropWatcher()
	m.list = slices.DeleteFunc(m.list, func(p plainWatch) bool { return p.who == k })
}

// closeOwner lets a session make ephemeral nodes and end.
func (m *watchModel) closeOwner() {
	owner := m.w.connect().auth("digest", "u:p")
	var own []string
	for range m.IntN(4) {
		if path, made := m.create(owner, jute.Ephemeral); made {
			own = append(own, path)
		}
	}
	m.compare(m.w.t)
	owner.must(owner.close())
	slices.Sort(own)
	for _, path := range own {
		m.gone(path)
	}
}

// create makes a node, which everyone or only u:p may read.
func (m *watchModel) create(by *client, flags jute.CreateMode) (path string, made bool) {
	path = m.path()
	secret := m.IntN(3) == 0
	if by.createACL(path, flags, m.acl(secret)).Code != jute.OK {
		return path, false
	}
	m.secret[path] = secret
	m.born(path)
	return path, true
}

func (m *watchModel) acl(secret bool) []jute.ACL {
	if secret {
		return append(aclOf(31, "auth", ""), aclOf(31&^jute.PermRead, "world", "anyone")...)
	}
	return jute.OpenACL
}

// change makes one change.
func (m *watchModel) change() {
	path := m.path()
	switch m.IntN(6) {
	case 0, 1, 2:
		m.create(m.actor, jute.Persistent)
	case 3:
		if m.actor.delete(path, -1).Code == jute.OK {
			m.gone(path)
		}
	case 4:
		if m.actor.setData(path, "y", -1).Code == jute.OK {
			m.heard(dataTable, "Changed", path, m.secret[path], nil)
		}
	case 5:
		if secret := m.IntN(3) == 0; m.actor.setACL(path, m.acl(secret), -1).Code == jute.OK {
			m.secret[path] = secret
		}
	}
}

// multi runs a multi that makes a node, changes it and deletes it again. It may fail and change
// nothing.
func (m *watchModel) multi() {
	fails := m.IntN(3) == 0
	above := []string{"", "/a", "/a/b", "/x"}[m.IntN(4)]
	path := above + "/m"
	if _, there := m.secret[above]; !there && above != "" {
		return
	}
	ops := []jute.MultiOp{mk(path, 0), put(path, -1), put(path, -1), rm(path, -1)}
	if fails {
		ops = append(ops, rm("/nobody", -1))
	}
	r := m.actor.multi(ops...)
	if failed := r.Multi[0].Op == jute.OpError; failed != fails {
		m.w.t.Errorf("multi: %+v", r.Multi)
	}
	if !fails {
		m.born(path)
		m.heard(dataTable, "Changed", path, false, nil)
		m.heard(dataTable, "Changed", path, false, nil)
		m.gone(path)
	}
}

func parentOf(path string) string {
	return path[:max(1, strings.LastIndexByte(path, '/'))]
}

func (m *watchModel) born(path string) {
	m.heard(dataTable, "Created", path, m.secret[path], nil)
	m.heard(childTable, "Children", parentOf(path), m.secret[parentOf(path)], nil)
}

func (m *watchModel) gone(path string) {
	told := m.heard(dataTable, "Deleted", path, m.secret[path], nil)
	m.heard(childTable, "Deleted", path, m.secret[path], told)
	m.heard(childTable, "Children", parentOf(path), m.secret[parentOf(path)], nil)
	delete(m.secret, path)
}

// heard records an event for each watcher that it concerns and that may read the node, except the ones in told. It
// returns all watchers that the event concerns.
func (m *watchModel) heard(k tableKind, event, path string, secret bool, told map[*client]bool) map[*client]bool {
	concerns := map[*client]bool{}
	for i := range m.list {
		p := &m.list[i]
		above := p.path == "/" || strings.HasPrefix(path, p.path+"/")
		if p.table == k && (p.path == path || above && p.modes&recursive != 0) {
			concerns[p.who] = true
		}
		if p.table == k && p.path == path {
			p.modes &^= oneShot
		}
	}
	m.tidy()
	for who := range concerns {
		if !told[who] && (readsSecrets(who) || !secret) {
			m.want[who] = append(m.want[who], fmt.Sprintf("%s(%s)", event, path))
		}
	}
	return concerns
}

// readsSecrets reports whether a client is u:p.
func readsSecrets(k *client) bool { return len(k.ids) > 1 }

// onNode is a watch on a node as it is listed.
type onNode struct {
	path string
	who  jute.SessionID
}

// compare checks the events since the last call, and the counts and lists of watches.
func (m *watchModel) compare(t testing.TB) {
	t.Helper()
	for i, k := range m.watchers {
		if !slices.Equal(k.events, m.want[k]) {
			t.Errorf("watcher %d heard %v, want %v", i, k.events, m.want[k])
		}
		k.events = nil
	}
	clear(m.want)
	s := m.w.s()
	s.RLock()
	defer s.RUnlock()
	paths, watchers := map[string]bool{}, map[*client]bool{}
	var want, got, again []onNode
	for _, p := range m.list {
		if p.table == dataTable {
			paths[p.path], watchers[p.who] = true, true
			want = append(want, onNode{p.path, p.who.id})
		}
	}
	for path, p := range s.Watches().tables[dataTable].byPath {
		for e := p.first; e != nil; e = e.samePath.next {
			got = append(got, onNode{path, e.watcherEntry.watcher.(*client).id})
		}
	}
	for _, k := range m.watchers {
		for path := range s.Watches().DataPathsOf(k) {
			again = append(again, onNode{path, k.id})
		}
	}
	for _, list := range [][]onNode{want, got, again} {
		slices.SortFunc(list, func(a, b onNode) int { return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.who, b.who)) })
	}
	if s.Watches().WatchCount() != len(m.list) || s.Watches().DataWatchCount() != len(want) ||
		s.Watches().DataPathCount() != len(paths) || s.Watches().DataWatcherCount() != len(watchers) {
		t.Errorf("%d watches, %d on nodes, on %d paths, by %d; want %d, %d, %d, %d", s.Watches().WatchCount(), s.Watches().DataWatchCount(), s.Watches().DataPathCount(),
			s.Watches().DataWatcherCount(), len(m.list), len(want), len(paths), len(watchers))
	}
	if !slices.Equal(got, want) || !slices.Equal(again, want) {
		t.Errorf("listed %v and %v, want %v", got, again, want)
	}
	for _, k := range m.watchers {
		m.compareListed(t, k)
	}
	checkWatchIndex(t, s)
}

// compareListed checks what operators see of a watcher's watches.
func (m *watchModel) compareListed(t testing.TB, k *client) {
	t.Helper()
	want, n := map[string]WatchKinds{}, 0
	for _, p := range m.list {
		if p.who != k {
			continue
		}
		n++
		kinds := want[p.path]
		kinds.Data = kinds.Data || p.table == dataTable && p.modes&oneShot != 0
		kinds.Children = kinds.Children || p.table == childTable && p.modes&oneShot != 0
		kinds.Persistent = kinds.Persistent || p.modes&persistent != 0
		kinds.Recursive = kinds.Recursive || p.modes&recursive != 0
		want[p.path] = kinds
	}
	s, got := m.w.s(), map[string]WatchKinds{}
	for scan, more := NewWatchScan(k), true; more; {
		more = s.Watches().ScanNext(scan, func(path string) { got[path] = WatchKinds{} })
	}
	for path := range got {
		got[path], _ = s.Watches().KindsOn(path, k)
	}
	if !maps.Equal(got, want) || s.Watches().CountOf(k) != n {
		t.Errorf("client %v has %d watches, %+v, want %d, %+v", k.id, s.Watches().CountOf(k), got, n, want)
	}
	for _, path := range []string{"/a/b", "/none/deep"} {
		watched := slices.ContainsFunc(m.list, func(p plainWatch) bool { return p.path == path })
		below := slices.ContainsFunc(m.list, func(p plainWatch) bool { return p.path == path && p.modes&recursive != 0 })
		if got := s.Watches().HasRecursiveWatch(path); got != below {
			t.Errorf("somebody watches below %s: %t, want %t", path, got, below)
		}
		if _, ok := s.Watches().KindsOn(path, k); ok != (want[path] != WatchKinds{}) || s.Watches().IsWatched(path) != watched {
			t.Errorf("client %v watches %s: %t, anybody: %t", k.id, path, ok, s.Watches().IsWatched(path))
		}
	}
}
