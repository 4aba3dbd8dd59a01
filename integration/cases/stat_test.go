package cases

import (
	"bytes"
	"fmt"

	"rollcall/zk/jute"
)

// stats is group I: Stats, versions and deletes.
var stats = []row{
	{number: 150, name: "new", where: everywhere, run: statNew},
	{number: 151, name: "child created", where: everywhere, run: statChildCreated},
	{number: 152, name: "child deleted", where: everywhere, run: statChildDeleted},
	{number: 153, name: "ten children", where: everywhere, run: statTenChildren},
	{number: 154, name: "three deleted", where: everywhere, run: statThreeDeleted},
	{number: 155, name: "grandchild", where: everywhere, run: statGrandchild},
	{number: 156, name: "same data", where: everywhere, run: statSameData},
	{number: 157, name: "setData and versions", where: everywhere, run: statVersions},
	{number: 158, name: "only -1 is any version", where: everywhere, run: statVersionMinusTwo},
	{number: 159, name: "setACL and versions", where: everywhere, run: statACLVersions},
	{number: 160, name: "setData on nothing", where: everywhere, run: statSetNothing},
	{number: 161, name: "delete and versions", where: everywhere, run: statDeleteVersions},
	{number: 162, name: "delete with children", where: everywhere, run: statDeleteParent},
	{number: 163, name: "version before children", where: everywhere, run: statDeleteParentVersion},
	{number: 164, name: "the root", where: everywhere, run: statRoot},
	{number: 165, name: "/zookeeper", where: everywhere, run: statZookeeper},
	{number: 166, name: "length of data", where: everywhere, run: statDataLength},
	{number: 167, name: "the same everywhere", where: three, run: statEverywhere},
}

// node opens a session and creates /s.
func (s *stage) node() *session {
	s.Helper()
	k := s.open(s.at, usual)
	k.create("/s", jute.Persistent)
	return k
}

func statNew(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/s", jute.Persistent).Zxid
	st := k.stat("/s")
	want := jute.Stat{Czxid: z, Mzxid: z, Pzxid: z, Ctime: st.Ctime, Mtime: st.Ctime, DataLength: 1}
	if st != want || st.Ctime == 0 {
		s.Errorf("%+v, want %+v and a time", st, want)
	}
}

func statChildCreated(s *stage) {
	k := s.node()
	want := k.stat("/s")
	want.Pzxid = k.create("/s/c", jute.Persistent).Zxid
	want.Cversion, want.NumChildren = 1, 1
	if st := k.stat("/s"); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func statChildDeleted(s *stage) {
	k := s.node()
	want := k.stat("/s")
	k.create("/s/c", jute.Persistent)
	want.Pzxid = k.remove("/s/c").Zxid
	want.Cversion = 2
	if st := k.stat("/s"); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func (k *session) tenChildren() {
	k.s.Helper()
	for i := range 10 {
		k.create(fmt.Sprintf("/s/%d", i), jute.Persistent)
	}
}

func statTenChildren(s *stage) {
	k := s.node()
	k.tenChildren()
	if st := k.stat("/s"); st.Cversion != 10 || st.NumChildren != 10 {
		s.Errorf("%+v", st)
	}
}

func statThreeDeleted(s *stage) {
	k := s.node()
	k.tenChildren()
	for i := range 3 {
		k.remove(fmt.Sprintf("/s/%d", i))
	}
	if st := k.stat("/s"); st.Cversion != 13 || st.NumChildren != 7 {
		s.Errorf("%+v", st)
	}
}

func statGrandchild(s *stage) {
	k := s.node()
	k.create("/s/c", jute.Persistent)
	want := k.stat("/s")
	k.create("/s/c/d", jute.Persistent)
	if st := k.stat("/s"); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func statSameData(s *stage) {
	k := s.node()
	want := k.stat("/s")
	var resp jute.SetDataResponse
	r := k.set("/s", "x")
	k.into(r, &resp)
	want.Version, want.Mzxid, want.Mtime = 1, r.Zxid, resp.Stat.Mtime
	if st := k.stat("/s"); resp.Stat != want || st != want || st.Mtime < st.Ctime {
		s.Errorf("replied %+v, then %+v, want %+v", resp.Stat, st, want)
	}
}

// setAt sets data at a version.
func setAt(path string, version int32) jute.SetDataRequest {
	return jute.SetDataRequest{Path: []byte(path), Data: []byte("y"), Version: version}
}

func statVersions(s *stage) {
	k := s.node()
	k.set("/s", "y")
	k.want(jute.BadVersion, jute.OpSetData, setAt("/s", 0))
	k.ok(jute.OpSetData, setAt("/s", 1))
	k.ok(jute.OpSetData, setAt("/s", -1))
	if v := k.stat("/s").Version; v != 3 {
		s.Errorf("version %d", v)
	}
}

func statVersionMinusTwo(s *stage) {
	k := s.node()
	k.want(jute.BadVersion, jute.OpSetData, setAt("/s", -2))
	k.want(jute.BadVersion, jute.OpDelete, jute.DeleteRequest{Path: []byte("/s"), Version: -2})
}

func statACLVersions(s *stage) {
	k := s.node()
	want := k.stat("/s")
	acl := func(version int32) jute.SetACLRequest {
		return jute.SetACLRequest{Path: []byte("/s"), ACL: jute.OpenACL, Version: version}
	}
	k.want(jute.BadVersion, jute.OpSetACL, acl(5))
	k.ok(jute.OpSetACL, acl(0))
	k.want(jute.BadVersion, jute.OpSetACL, acl(0))
	want.Aversion = 1
	if st := k.stat("/s"); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func statSetNothing(s *stage) {
	s.open(s.at, usual).want(jute.NoNode, jute.OpSetData, setAt("/s", 7))
}

func statDeleteVersions(s *stage) {
	k := s.node()
	k.want(jute.BadVersion, jute.OpDelete, jute.DeleteRequest{Path: []byte("/s"), Version: 1})
	k.ok(jute.OpDelete, jute.DeleteRequest{Path: []byte("/s"), Version: 0})
	k.want(jute.NoNode, jute.OpDelete, jute.DeleteRequest{Path: []byte("/s"), Version: 0})
}

func statDeleteParent(s *stage) {
	k := s.node()
	k.create("/s/c", jute.Persistent)
	k.want(jute.NotEmpty, jute.OpDelete, remove("/s"))
}

func statDeleteParentVersion(s *stage) {
	k := s.node()
	k.create("/s/c", jute.Persistent)
	k.want(jute.BadVersion, jute.OpDelete, jute.DeleteRequest{Path: []byte("/s"), Version: 9})
}

func statRoot(s *stage) {
	if st, want := s.open(s.at, usual).stat("/"), (jute.Stat{Cversion: -1, NumChildren: 1}); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func statZookeeper(s *stage) {
	if st, want := s.open(s.at, usual).stat("/zookeeper"), (jute.Stat{Cversion: -2, NumChildren: 2}); st != want {
		s.Errorf("%+v, want %+v", st, want)
	}
}

func statDataLength(s *stage) {
	k := s.node()
	for _, n := range []int{0, 10, 100} {
		k.set("/s", string(bytes.Repeat([]byte("z"), n)))
		if st := k.stat("/s"); st.DataLength != int32(n) {
			s.Errorf("dataLength %d, want %d", st.DataLength, n)
		}
	}
}

func statEverywhere(s *stage) {
	k := s.node()
	k.create("/s/c", jute.Ephemeral)
	k.set("/s", "y")
	k.set("/s/c", "yy")
	k.ok(jute.OpSetACL, jute.SetACLRequest{Path: []byte("/s"), ACL: jute.OpenACL, Version: -1})
	for _, path := range []string{"/", "/s", "/s/c", "/zookeeper/config"} {
		want := k.stat(path)
		for _, id := range s.IDs() {
			there := s.open(id, usual)
			there.sync()
			if st := there.stat(path); st != want {
				s.Errorf("%s on member %d: %+v, want %+v", path, id, st, want)
			}
		}
	}
}
