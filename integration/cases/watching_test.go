package cases

import (
	"strconv"
	"sync"
	"time"

	"rollcall/zk/jute"
)

// watching is group K: one-shot watches.
var watching = []row{
	{number: 195, name: "exists watch, missing", where: everywhere, run: watchMissing},
	{number: 196, name: "exists watch, present", where: everywhere, run: watchPresent},
	{number: 197, name: "data watch, deleted and made again", where: everywhere, run: watchDeleted},
	{number: 198, name: "data watch on nothing", where: everywhere, run: watchDataOfNothing},
	{number: 199, name: "child watch on nothing", where: everywhere, run: watchChildrenOfNothing},
	{number: 200, name: "child watch fires once", where: everywhere, run: watchOneChild},
	{number: 201, name: "child watch and other changes", where: everywhere, run: watchNoChild},
	{number: 202, name: "child watch, parent deleted", where: everywhere, run: watchParentDeleted},
	{number: 203, name: "both watches, deleted", where: everywhere, run: watchBothDeleted},
	{number: 204, name: "node, then parent", where: everywhere, run: watchNodeThenParent},
	{number: 205, name: "three watches are one", where: everywhere, run: watchThrice},
	{number: 206, name: "setACL is no change", where: everywhere, run: watchSetACL},
	{number: 207, name: "failed setData is no change", where: everywhere, run: watchFailedSet},
	{number: 208, name: "own change", where: everywhere, run: watchOwnChange},
	{number: 209, name: "two connections", where: everywhere, run: watchTwice},
	{number: 210, name: "exists without READ", where: everywhere, run: watchWithoutRead},
	{number: 211, name: "created unreadable", where: everywhere, run: watchCreatedUnreadable},
	{number: 212, name: "watcher closed", where: everywhere, run: watcherClosed},
	{number: 213, name: "watches on the root", where: everywhere, run: watchRoot},
	{number: 214, name: "event frame", where: everywhere, run: eventFrame},
	{number: 215, name: "a thousand writes", where: everywhere, run: watchThousandWrites},
}

// pair returns a watcher at s.at and a writer elsewhere.
func (s *stage) pair() (watcher, writer *session) {
	s.Helper()
	return s.open(s.at, usual), s.open(s.other(), usual)
}

// with lets the writer create nodes, and waits until the watcher's member has applied them.
func (s *stage) with(writer *session, paths ...string) {
	s.Helper()
	for _, p := range paths {
		writer.create(p, jute.Persistent)
	}
	s.quiesce()
}

// must checks the code of the read that set a watch.
func (s *stage) must(got, want jute.Code) {
	s.Helper()
	if got != want {
		s.Fatalf("read with a watch: %v, want %v", result(got), result(want))
	}
}

func watchMissing(s *stage) {
	w, k := s.pair()
	s.must(w.watchExists("/a"), jute.NoNode)
	k.create("/a", jute.Persistent)
	k.set("/a", "y")
	w.saw("Created(/a)")
}

func watchPresent(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchExists("/a"), jute.OK)
	k.set("/a", "y")
	k.set("/a", "z")
	w.saw("Changed(/a)")
}

func watchDeleted(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	k.remove("/a")
	k.create("/a", jute.Persistent)
	w.saw("Deleted(/a)")
}

func watchDataOfNothing(s *stage) {
	w, k := s.pair()
	s.must(w.watchData("/a"), jute.NoNode)
	k.create("/a", jute.Persistent)
	w.saw()
}

func watchChildrenOfNothing(s *stage) {
	w, k := s.pair()
	s.must(w.watchChildren("/a"), jute.NoNode)
	k.create("/a", jute.Persistent)
	k.create("/a/b", jute.Persistent)
	w.saw()
}

func watchOneChild(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchChildren("/a"), jute.OK)
	k.create("/a/b", jute.Persistent)
	k.create("/a/c", jute.Persistent)
	w.saw("Children(/a)")
}

func watchNoChild(s *stage) {
	w, k := s.pair()
	s.with(k, "/a", "/a/b")
	s.must(w.watchChildren("/a"), jute.OK)
	k.set("/a", "y")
	k.set("/a/b", "y")
	k.create("/a/b/c", jute.Persistent)
	w.saw()
	k.create("/a/d", jute.Persistent) // it is still set
	w.saw("Children(/a)")
}

func watchParentDeleted(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchChildren("/a"), jute.OK)
	k.remove("/a")
	w.saw("Deleted(/a)")
}

func watchBothDeleted(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	s.must(w.watchChildren("/a"), jute.OK)
	k.remove("/a")
	w.saw("Deleted(/a)")
	k.create("/a", jute.Persistent)
	k.create("/a/b", jute.Persistent)
	k.set("/a", "y")
	w.saw()
}

func watchNodeThenParent(s *stage) {
	w, k := s.pair()
	s.with(k, "/a", "/a/b")
	s.must(w.watchData("/a/b"), jute.OK)
	s.must(w.watchChildren("/a"), jute.OK)
	k.remove("/a/b")
	w.saw("Deleted(/a/b)", "Children(/a)")
}

func watchThrice(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchExists("/a"), jute.OK)
	s.must(w.watchData("/a"), jute.OK)
	s.must(w.watchData("/a"), jute.OK)
	k.set("/a", "y")
	k.set("/a", "z")
	w.saw("Changed(/a)")
}

func watchSetACL(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	k.ok(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1})
	w.saw()
	k.set("/a", "y")
	w.saw("Changed(/a)")
}

func watchFailedSet(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	k.want(jute.BadVersion, jute.OpSetData, jute.SetDataRequest{Path: []byte("/a"), Version: 7})
	w.saw()
}

func watchOwnChange(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	s.must(k.watchData("/a"), jute.OK)
	xid := k.send(jute.OpSetData, set("/a", "y"))
	event, _ := k.next()
	reply, _ := k.next()
	if !event.isEvent() || reply.Xid != xid || event.Zxid != reply.Zxid {
		s.Errorf("%v, then %v; want the event, then the reply, of one zxid", event.Reply, reply.Reply)
	}
}

func watchTwice(s *stage) {
	w, k := s.pair()
	v := s.open(s.at, usual)
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	s.must(v.watchData("/a"), jute.OK)
	k.set("/a", "y")
	w.saw("Changed(/a)")
	v.saw("Changed(/a)")
}

// writeOnly is an ACL by which anyone may write but only user u may read.
var writeOnly = []jute.ACL{
	{Perms: jute.PermAll &^ jute.PermRead, ID: jute.ID{Scheme: []byte("world"), ID: []byte("anyone")}},
	{Perms: jute.PermAll, ID: jute.ID{Scheme: []byte("digest"), ID: []byte("u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=")}},
}

func watchWithoutRead(s *stage) {
	w, k := s.pair()
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/a"), ACL: writeOnly})
	s.quiesce()
	s.must(w.watchExists("/a"), jute.NoAuth)
	k.ok(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1})
	k.set("/a", "y")
	w.saw()
}

func watchCreatedUnreadable(s *stage) {
	w, k := s.pair()
	s.must(w.watchExists("/a"), jute.NoNode)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/a"), ACL: writeOnly})
	w.saw()
	k.ok(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1})
	k.set("/a", "y") // the watch has been used up
	w.saw()
}

func watcherClosed(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	watches := func() int {
		state := s.Member(s.at).State()
		state.RLock()
		defer state.RUnlock()
		return state.Watches().WatchCount()
	}
	if n := watches(); n != 1 {
		s.Errorf("%d watches, want 1", n)
	}
	w.closeSession()
	s.quiesce()
	if n := watches(); n != 0 {
		s.Errorf("%d watches are left", n)
	}
	k.set("/a", "y")
	if events := w.events(); len(events) != 0 {
		s.Errorf("events %v", names(events))
	}
}

func watchRoot(s *stage) {
	w, k := s.pair()
	s.must(w.watchData("/"), jute.OK)
	s.must(w.watchChildren("/"), jute.OK)
	k.set("/", "y")
	k.create("/x", jute.Persistent)
	w.saw("Changed(/)", "Children(/)")
}

func eventFrame(s *stage) {
	w, k := s.pair()
	s.with(k, "/v")
	s.must(w.watchData("/v"), jute.OK)
	z := k.set("/v", "y").Zxid
	f, ok := w.next()
	want := hexBytes(s, "00000003 00000003 00000002 2f76")
	if !ok || f.Xid != -1 || f.Err != 0 || f.Zxid != z || string(f.Body) != string(want) {
		s.Errorf("%v, % x; want xid -1, zxid %#x, err 0, % x", f.Reply, f.Body, z, want)
	}
}

// watchThousandWrites: a client reads again at each event. It sees no data older than the event,
// never goes back, and in the end has the last data.
func watchThousandWrites(s *stage) {
	const n = 1000
	w, k := s.pair()
	s.with(k, "/a")
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 1; i <= n; i++ {
			k.sendAs(int32(i), jute.OpSetData, set("/a", strconv.Itoa(i)))
			time.Sleep(20 * time.Microsecond)
		}
	})
	defer writer.Wait()
	var event frame
	var version int32 = -1
	events := 0
	for version < n {
		var resp jute.GetDataResponse
		w.into(w.ok(jute.OpGetData, jute.GetDataRequest{Path: []byte("/a"), Watch: true}), &resp)
		if resp.Stat.Version <= version || resp.Stat.Mzxid < event.Zxid {
			s.Fatalf("version %d after %d; event of %#x, data of %#x", resp.Stat.Version, version, event.Zxid, resp.Stat.Mzxid)
		}
		if version = resp.Stat.Version; version == n {
			if string(resp.Data) != strconv.Itoa(n) {
				s.Errorf("last data %q", resp.Data)
			}
			break
		}
		var ok bool
		if event, ok = w.next(); !ok || !event.isEvent() {
			s.Fatalf("version %d is not the last, but no event comes: %v", version, event.Reply)
		}
		events++
	}
	if events < 10 {
		s.Errorf("%d events: too few to show anything", events)
	}
}
