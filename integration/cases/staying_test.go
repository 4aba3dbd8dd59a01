package cases

import (
	"slices"

	"rollcall/zk/jute"
)

// staying is group L: persistent watches, and the removal of watches.
var staying = []row{
	{number: 216, name: "persistent watch", where: everywhere, run: persistentWatch},
	{number: 217, name: "reply to addWatch", where: everywhere, run: addWatchReply},
	{number: 218, name: "recursive watch", where: everywhere, run: recursiveWatch},
	{number: 219, name: "below is not beside", where: everywhere, run: recursiveByComponent},
	{number: 220, name: "recursive on the root", where: everywhere, run: recursiveOnRoot},
	{number: 221, name: "two recursive, one event", where: everywhere, run: recursiveTwice},
	{number: 222, name: "all kinds on one node", where: everywhere, run: allKinds},
	{number: 223, name: "unknown mode", where: everywhere, run: unknownMode},
	{number: 224, name: "addWatch needs no permission", where: everywhere, run: addWatchUnreadable},
	{number: 225, name: "checkWatches of a persistent watch", where: everywhere, run: checkPersistent},
	{number: 226, name: "removeWatches of a persistent watch", where: everywhere, run: removePersistent},
	{number: 227, name: "remove a data watch", where: everywhere, run: removeData},
	{number: 228, name: "remove an exists watch", where: everywhere, run: removeExists},
	{number: 229, name: "remove both", where: everywhere, run: removeBoth},
	{number: 230, name: "remove one of two", where: everywhere, run: removeOneOfTwo},
	{number: 231, name: "nothing to remove", where: everywhere, run: removeNothing},
}

// addWatch sets a persistent watch.
func (k *session) addWatch(path string, mode jute.AddWatchMode) {
	k.s.Helper()
	k.ok(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte(path), Mode: mode})
}

// checks checks the codes of checkWatches for the types 1 to 6.
func (k *session) checks(path string, want ...jute.Code) {
	k.s.Helper()
	var got []jute.Code
	for of := range jute.WatcherType(6) {
		got = append(got, k.code(jute.OpCheckWatches, jute.CheckWatchesRequest{Path: []byte(path), Type: of + 1}))
	}
	if !slices.Equal(got, want) {
		k.s.Fatalf("checkWatches %s, types 1 to 6: %v, want %v", path, got, want)
	}
}

// unwatch checks the code of removeWatches.
func (k *session) unwatch(path string, of jute.WatcherType, want jute.Code) {
	k.s.Helper()
	k.want(want, jute.OpRemoveWatches, jute.RemoveWatchesRequest{Path: []byte(path), Type: of})
}

func persistentWatch(s *stage) {
	w, k := s.pair()
	w.addWatch("/p", jute.AddWatchPersistent)
	k.create("/p", jute.Persistent)
	k.create("/p/c", jute.Persistent)
	k.set("/p/c", "y")
	k.set("/p", "y")
	k.remove("/p/c")
	k.remove("/p")
	k.create("/p", jute.Persistent)
	w.saw("Created(/p)", "Children(/p)", "Changed(/p)", "Children(/p)", "Deleted(/p)", "Created(/p)")
}

func addWatchReply(s *stage) {
	w := s.open(s.at, usual)
	r := w.ok(jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/p"), Mode: jute.AddWatchPersistentRecursive})
	if string(r.Body) != "\x00\x00\x00\x00" || r.Zxid != s.zxid(s.at) {
		s.Errorf("%v, % x", r, r.Body)
	}
}

func recursiveWatch(s *stage) {
	w, k := s.pair()
	w.addWatch("/r", jute.AddWatchPersistentRecursive)
	k.create("/r", jute.Persistent)
	k.create("/r/c", jute.Persistent)
	k.create("/r/c/d", jute.Persistent)
	z := k.set("/r/c/d", "y").Zxid
	k.remove("/r/c/d")
	k.remove("/r/c")
	k.set("/r", "y")
	k.remove("/r")
	events := w.saw("Created(/r)", "Created(/r/c)", "Created(/r/c/d)", "Changed(/r/c/d)", "Deleted(/r/c/d)",
		"Deleted(/r/c)", "Changed(/r)", "Deleted(/r)")
	if events[3].Zxid != z {
		s.Errorf("event has zxid %#x, the change %#x", events[3].Zxid, z)
	}
}

func recursiveByComponent(s *stage) {
	w, k := s.pair()
	w.addWatch("/r", jute.AddWatchPersistentRecursive)
	k.create("/rx", jute.Persistent)
	k.create("/rx/r", jute.Persistent)
	k.set("/rx", "y")
	w.saw()
}

func recursiveOnRoot(s *stage) {
	w, k := s.pair()
	w.addWatch("/", jute.AddWatchPersistentRecursive)
	k.set("/", "y")
	k.create("/x", jute.Persistent)
	k.create("/x/y", jute.Persistent)
	k.create("/zookeeper/z", jute.Persistent)
	k.remove("/x/y")
	w.saw("Changed(/)", "Created(/x)", "Created(/x/y)", "Created(/zookeeper/z)", "Deleted(/x/y)")
	owner := s.open(s.other(), usual)
	owner.create("/x/e", jute.Ephemeral)
	owner.create("/x/f", jute.Ephemeral)
	owner.closeSession()
	w.saw("Created(/x/e)", "Created(/x/f)", "Deleted(/x/e)", "Deleted(/x/f)")
}

func recursiveTwice(s *stage) {
	w, k := s.pair()
	s.with(k, "/a", "/a/b", "/a/b/c")
	w.addWatch("/a", jute.AddWatchPersistentRecursive)
	w.addWatch("/a/b", jute.AddWatchPersistentRecursive)
	k.set("/a/b/c", "y")
	w.saw("Changed(/a/b/c)")
}

func allKinds(s *stage) {
	w, k := s.pair()
	s.with(k, "/m")
	s.must(w.watchData("/m"), jute.OK)
	s.must(w.watchChildren("/m"), jute.OK)
	w.addWatch("/m", jute.AddWatchPersistent)
	w.addWatch("/m", jute.AddWatchPersistentRecursive)
	k.set("/m", "y")
	k.set("/m", "z")
	k.create("/m/x", jute.Persistent)
	k.remove("/m/x")
	k.remove("/m")
	w.saw("Changed(/m)", "Changed(/m)", "Created(/m/x)", "Children(/m)", "Deleted(/m/x)", "Children(/m)", "Deleted(/m)")
}

func unknownMode(s *stage) {
	w, k := s.pair()
	w.want(jute.MarshallingError, jute.OpAddWatch, jute.AddWatchRequest{Path: []byte("/a"), Mode: 2})
	k.create("/a", jute.Persistent)
	w.saw()
}

// addWatchUnreadable: a client that may not read a node may watch it, and gets the events of what
// it may read.
func addWatchUnreadable(s *stage) {
	w, k := s.pair()
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/a"), ACL: writeOnly})
	s.quiesce()
	w.addWatch("/a", jute.AddWatchPersistentRecursive)
	k.set("/a", "y")
	k.create("/a/b", jute.Persistent)
	w.saw("Created(/a/b)")
	k.ok(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1})
	k.set("/a", "z")
	w.saw("Changed(/a)")
}

func checkPersistent(s *stage) {
	w, k := s.pair()
	w.addWatch("/p", jute.AddWatchPersistent)
	w.checks("/p", jute.NoWatcher, jute.NoWatcher, jute.OK, jute.OK, jute.NoWatcher, jute.MarshallingError)
	k.create("/p", jute.Persistent)
	w.saw("Created(/p)")
}

func removePersistent(s *stage) {
	w, k := s.pair()
	w.addWatch("/p", jute.AddWatchPersistent)
	w.unwatch("/p", jute.WatcherPersistentRecursive, jute.NoWatcher)
	w.unwatch("/p", jute.WatcherPersistent, jute.OK)
	w.unwatch("/p", jute.WatcherPersistent, jute.NoWatcher)
	k.create("/p", jute.Persistent)
	k.create("/p/c", jute.Persistent)
	w.saw()
}

func removeData(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	w.unwatch("/a", jute.WatcherChildren, jute.NoWatcher)
	w.unwatch("/a", jute.WatcherData, jute.OK)
	k.set("/a", "y")
	w.saw()
}

func removeExists(s *stage) {
	w, k := s.pair()
	s.must(w.watchExists("/a"), jute.NoNode)
	w.unwatch("/a", jute.WatcherData, jute.OK)
	k.create("/a", jute.Persistent)
	w.saw()
}

func removeBoth(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	s.must(w.watchChildren("/a"), jute.OK)
	w.unwatch("/a", jute.WatcherAny, jute.OK)
	w.unwatch("/a", jute.WatcherAny, jute.NoWatcher)
	k.set("/a", "y")
	k.create("/a/b", jute.Persistent)
	w.saw()
}

func removeOneOfTwo(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	s.must(w.watchChildren("/a"), jute.OK)
	w.unwatch("/a", jute.WatcherData, jute.OK)
	k.set("/a", "y")
	k.create("/a/b", jute.Persistent)
	w.saw("Children(/a)")
}

// removeNothing: watches of another connection, or on the parent or a child, are neither found nor
// removed.
func removeNothing(s *stage) {
	w, k := s.pair()
	v := s.open(s.at, usual)
	s.with(k, "/a", "/a/b", "/a/b/c")
	v.addWatch("/a/b", jute.AddWatchPersistent)
	w.addWatch("/a", jute.AddWatchPersistentRecursive)
	s.must(w.watchData("/a/b/c"), jute.OK)
	none := jute.NoWatcher
	w.checks("/a/b", none, none, none, none, none, jute.MarshallingError)
	for of := range jute.WatcherType(5) {
		w.unwatch("/a/b", of+1, none)
	}
	k.set("/a/b", "y")
	k.set("/a/b/c", "y")
	w.saw("Changed(/a/b)", "Changed(/a/b/c)")
	v.saw("Changed(/a/b)")
}
