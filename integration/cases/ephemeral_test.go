package cases

import (
	"bytes"
	"slices"

	"rollcall/zk/jute"
)

// ephemerals is group F: nodes that live and die with a session.
var ephemerals = []row{
	{number: 99, name: "owner", where: everywhere, run: ephemeralOwner},
	{number: 100, name: "no children", where: everywhere, run: ephemeralHasNoChildren},
	{number: 101, name: "others may use it", where: everywhere, run: ephemeralOfAnother},
	{number: 102, name: "made again, persistent", where: everywhere, run: ephemeralMadePersistent},
	{number: 103, name: "only the owner's go", where: everywhere, run: ephemeralsOfTwo},
	{number: 104, name: "lists", where: everywhere, run: ephemeralLists},
	{number: 105, name: "prefix of a name", where: everywhere, run: ephemeralPrefix},
	{number: 106, name: "sequential", where: everywhere, run: ephemeralSequential},
	{number: 107, name: "in a failed multi", where: everywhere, run: ephemeralInFailedMulti},
	{number: 108, name: "parents deleted after a failed multi", where: everywhere, run: ephemeralParentsDeleted},
	{number: 109, name: "a thousand bytes", where: everywhere, run: ephemeralData},
	{number: 110, name: "a persistent node has no owner", where: everywhere, run: persistentHasNoOwner},
	{number: 111, name: "in a container", where: everywhere, options: reaping(), run: ephemeralInContainer},
}

// ownedBy returns the paths of k's ephemerals that begin with prefix, or all if prefix is nil.
func (k *session) ownedBy(prefix []byte) []string {
	k.s.Helper()
	var resp jute.GetEphemeralsResponse
	k.into(k.ok(jute.OpGetEphemerals, jute.GetEphemeralsRequest{Path: prefix}), &resp)
	paths := []string{}
	for _, p := range resp.Ephemerals {
		paths = append(paths, string(p))
	}
	slices.Sort(paths)
	return paths
}

// data returns the data of a node that exists.
func (k *session) data(path string) []byte {
	k.s.Helper()
	var resp jute.GetDataResponse
	k.into(k.ok(jute.OpGetData, get(path)), &resp)
	return resp.Data
}

func ephemeralOwner(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	if owner := k.stat("/e").EphemeralOwner; owner != k.id() {
		s.Errorf("owner %v, want %v", owner, k.id())
	}
}

func ephemeralHasNoChildren(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	for _, mode := range []jute.CreateMode{jute.Persistent, jute.Ephemeral, jute.PersistentSequential, jute.EphemeralSequential} {
		k.want(jute.NoChildrenForEphemerals, jute.OpCreate, create("/e/c", mode))
	}
}

func ephemeralOfAnother(s *stage) {
	owner, k := s.pair()
	owner.create("/e", jute.Ephemeral)
	s.quiesce()
	k.set("/e", "y")
	if got := k.data("/e"); string(got) != "y" {
		s.Errorf("data %q", got)
	}
	k.remove("/e")
	s.absent("/e")
	owner.mustLive()
}

func ephemeralMadePersistent(s *stage) {
	k := s.open(s.at, usual)
	k.create("/e", jute.Ephemeral)
	k.remove("/e")
	k.create("/e", jute.Persistent)
	k.closeSession()
	s.present("/e")
}

func ephemeralsOfTwo(s *stage) {
	one, two := s.pair()
	one.create("/one", jute.Ephemeral)
	two.create("/two", jute.Ephemeral)
	one.closeSession()
	s.absent("/one")
	s.present("/two")
}

func ephemeralLists(s *stage) {
	k, other := s.pair()
	s.with(k, "/a", "/b")
	for _, path := range []string{"/a/1", "/a/2", "/b/1"} {
		k.create(path, jute.Ephemeral)
	}
	other.create("/a/3", jute.Ephemeral)
	s.quiesce()
	all := []string{"/a/1", "/a/2", "/b/1"}
	for _, tt := range []struct {
		prefix []byte
		want   []string
	}{
		{[]byte("/a"), []string{"/a/1", "/a/2"}},
		{[]byte("/"), all},
		{nil, all},
		{[]byte("/zzz"), []string{}},
	} {
		if got := k.ownedBy(tt.prefix); !slices.Equal(got, tt.want) {
			s.Errorf("ephemerals below %q: %q, want %q", tt.prefix, got, tt.want)
		}
	}
}

func ephemeralPrefix(s *stage) {
	k := s.open(s.at, usual)
	k.create("/eph1", jute.Ephemeral)
	if got := k.ownedBy([]byte("/e")); !slices.Equal(got, []string{"/eph1"}) {
		s.Errorf("ephemerals below /e: %q", got)
	}
}

func ephemeralSequential(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	path := k.path(k.create("/p/n-", jute.EphemeralSequential))
	if path != "/p/n-0000000000" || k.stat(path).EphemeralOwner != k.id() {
		s.Errorf("%s is owned by %v", path, k.stat(path).EphemeralOwner)
	}
	k.closeSession()
	s.absent(path)
}

func ephemeralInFailedMulti(s *stage) {
	k := s.open(s.at, usual)
	k.multi("-1/0, -1/-101", opCreate("/e", jute.Ephemeral), opDelete("/nope"))
	if got := k.ownedBy(nil); len(got) != 0 {
		s.Errorf("ephemerals %q", got)
	}
	before := k.stat("/")
	k.closeSession()
	if after := s.open(s.at, usual).stat("/"); after != before {
		s.Errorf("the close changed the root from %+v to %+v", before, after)
	}
}

func ephemeralParentsDeleted(s *stage) {
	k, other := s.pair()
	s.with(k, "/p", "/p/q")
	k.create("/p/q/e1", jute.Ephemeral)
	k.multi("-1/0, -1/-101", opCreate("/p/q/e2", jute.Ephemeral), opDelete("/nope"))
	k.closeSession()
	other.multi("2, 2", opDelete("/p/q"), opDelete("/p"))
	s.absent("/p")
}

func ephemeralData(s *stage) {
	k, other := s.pair()
	data := bytes.Repeat([]byte("0123456789"), 100)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/e"), Data: data, ACL: jute.OpenACL, Flags: jute.Ephemeral})
	s.quiesce()
	if got := other.data("/e"); !bytes.Equal(got, data) {
		s.Errorf("%d bytes, want %d others", len(got), len(data))
	}
}

func persistentHasNoOwner(s *stage) {
	k := s.open(s.at, usual)
	k.create("/p", jute.Persistent)
	if owner := k.stat("/p").EphemeralOwner; owner != 0 {
		s.Errorf("owner %v", owner)
	}
}

func ephemeralInContainer(s *stage) {
	k, other := s.pair()
	other.keep().container("/c")
	k.create("/c/e", jute.Ephemeral)
	s.quiesce()
	k.closeSession()
	s.absent("/c/e")
	s.awaitReaped("/c", reaped)
}
