package cases

import (
	"fmt"
	"strings"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// multis is group N.
var multis = []row{
	{number: 241, name: "one of each", where: everywhere, run: multiOneOfEach},
	{number: 242, name: "second fails", where: everywhere, run: multiSecondFails},
	{number: 243, name: "check of nothing", where: everywhere, run: multiCheckNothing},
	{number: 244, name: "check, then set", where: everywhere, run: multiCheckSet},
	{number: 245, name: "version conflict inside", where: everywhere, run: multiConflict},
	{number: 246, name: "versions count inside", where: everywhere, run: multiVersions},
	{number: 247, name: "set behind delete", where: everywhere, run: multiSetBehindDelete},
	{number: 248, name: "delete and create", where: everywhere, run: multiDeleteCreate},
	{number: 249, name: "nested tree", where: everywhere, run: multiNested},
	{number: 250, name: "parent before child", where: everywhere, run: multiParentFirst},
	{number: 251, name: "empty", where: everywhere, run: multiEmpty},
	{number: 252, name: "operations that do not belong", where: everywhere, run: multiForeign},
	{number: 253, name: "unknown flag", where: everywhere, run: multiUnknownFlag},
	{number: 254, name: "creates with a Stat inside", where: everywhere, run: multiCreates},
	{number: 255, name: "watches spent by the create", where: everywhere, run: multiWatches},
	{number: 256, name: "failed, no event", where: everywhere, run: multiFailedNoEvent},
	{number: 257, name: "two sets, one event", where: everywhere, run: multiTwoSets},
	{number: 258, name: "no permission", where: everywhere, run: multiNoAuth},
	{number: 259, name: "chroot", held: "integration/clients.TestKazooCases"},
	{number: 260, name: "ephemerals", where: everywhere, run: multiEphemerals},
	{number: 261, name: "reads", where: everywhere, run: multiReads},
	{number: 262, name: "read without permission", where: everywhere, run: multiReadNoAuth},
	{number: 263, name: "reads set no watch", where: everywhere, run: multiReadNoWatch},
}

// multi is the record of a multi or multiRead.
type multi []jute.MultiOp

func (m multi) Append(b []byte) []byte { return jute.AppendMulti(b, m) }

func opCreate(path string, mode jute.CreateMode) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Create: create(path, mode)}
}

func opDelete(path string) jute.MultiOp { return jute.MultiOp{Op: jute.OpDelete, Delete: remove(path)} }

func opSet(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpSetData, SetData: jute.SetDataRequest{Path: []byte(path), Data: []byte("y"), Version: version}}
}

func opCheck(path string, version int32) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCheck, Check: jute.CheckVersionRequest{Path: []byte(path), Version: version}}
}

func opGet(path string) jute.MultiOp { return jute.MultiOp{Op: jute.OpGetData, GetData: get(path)} }

// results returns a multi's results in the form "1 /path", "5 v1", "13", "-1/-101". It checks that
// nothing follows the end mark.
func (k *session) results(r wire.Reply) []string {
	k.s.Helper()
	var out []string
	d := jute.NewDecoder(r.Body)
	for d.Err() == nil {
		var h jute.MultiHeader
		if h.Decode(&d); h.Done {
			if h.Type != jute.OpError || h.Err != -1 || len(d.Rest()) != 0 {
				k.s.Fatalf("end mark %+v, %d bytes after it", h, len(d.Rest()))
			}
			return out
		}
		out = append(out, k.oneResult(h, &d, r.Zxid))
	}
	k.s.Fatalf("results % x: %v", r.Body, d.Err())
	return nil
}

// oneResult returns one result. It also checks that a Stat is of this multi, and equals the node's Stat.
func (k *session) oneResult(h jute.MultiHeader, d *jute.Decoder, zxid int64) string {
	k.s.Helper()
	switch h.Type {
	case jute.OpCreate:
		var r jute.CreateResponse
		r.Decode(d)
		return fmt.Sprintf("1 %s", r.Path)
	case jute.OpCreate2:
		var r jute.Create2Response
		r.Decode(d)
		want := jute.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid, Ctime: r.Stat.Ctime, Mtime: r.Stat.Ctime, DataLength: 1, EphemeralOwner: r.Stat.EphemeralOwner}
		if r.Stat != want || r.Stat.Ctime == 0 {
			k.s.Errorf("%s: %+v, want %+v and a time", r.Path, r.Stat, want)
		}
		return fmt.Sprintf("15 %s owner %v", r.Path, r.Stat.EphemeralOwner)
	case jute.OpSetData:
		var r jute.SetDataResponse
		if r.Decode(d); r.Stat.Mzxid != zxid {
			k.s.Errorf("result of setData: %+v, of zxid %#x", r.Stat, zxid)
		}
		return fmt.Sprintf("5 v%d", r.Stat.Version)
	case jute.OpDelete, jute.OpCheck:
		return fmt.Sprint(int32(h.Type))
	case jute.OpGetData:
		var r jute.GetDataResponse
		r.Decode(d)
		return fmt.Sprintf("4 %s", r.Data)
	case jute.OpGetChildren:
		var r jute.GetChildrenResponse
		r.Decode(d)
		return fmt.Sprintf("8 %s", r.Children)
	case jute.OpError:
		var r jute.ErrorResponse
		if r.Decode(d); r.Err != h.Err {
			k.s.Fatalf("error %d in the header, %d in the body", h.Err, r.Err)
		}
		return fmt.Sprintf("-1/%d", int32(r.Err))
	}
	k.s.Fatalf("result of type %d", h.Type)
	return ""
}

// multi sends a multi whose header must say OK and whose results, joined by commas, must be want.
func (k *session) multi(want string, ops ...jute.MultiOp) wire.Reply {
	k.s.Helper()
	op := jute.OpMulti
	if len(ops) > 0 && !ops[0].Op.IsWrite() {
		op = jute.OpMultiRead
	}
	r := k.ok(op, multi(ops))
	if got := strings.Join(k.results(r), ", "); got != want {
		k.s.Fatalf("results %q, want %q", got, want)
	}
	return r
}

func multiOneOfEach(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/before", jute.Persistent).Zxid
	r := k.multi("1 /m, 1 /m/1, 5 v1, 13, 2", opCreate("/m", 0), opCreate("/m/1", 0), opSet("/m", 0), opCheck("/m", 1), opDelete("/m/1"))
	if st := k.stat("/m"); r.Zxid != z+1 || st.Czxid != r.Zxid || st.Mzxid != r.Zxid || st.Pzxid != r.Zxid {
		s.Errorf("zxid %#x after %#x, %+v", r.Zxid, z, st)
	}
	s.absent("/m/1")
}

func multiSecondFails(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	r := k.multi("-1/0, -1/-110, -1/-2", opCreate("/b", 0), opCreate("/a", 0), opCreate("/c", 0))
	if r.Zxid != z+1 {
		s.Errorf("zxid %#x after %#x", r.Zxid, z)
	}
	s.absent("/b")
	s.absent("/c")
}

func multiCheckNothing(s *stage) {
	s.open(s.at, usual).multi("-1/-101", opCheck("/nope", -1))
}

func multiCheckSet(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	k.multi("13, 5 v1", opCheck("/a", 0), opSet("/a", -1))
	k.multi("-1/-103, -1/-2", opCheck("/a", 0), opSet("/a", -1))
}

func multiConflict(s *stage) {
	k := s.open(s.at, usual)
	k.multi("-1/0, -1/0, -1/-103", opCreate("/u", 0), opSet("/u", 0), opSet("/u", 0))
	s.absent("/u")
}

func multiVersions(s *stage) {
	k := s.open(s.at, usual)
	k.multi("1 /u, 5 v1, 5 v2", opCreate("/u", 0), opSet("/u", 0), opSet("/u", 1))
	if v := k.stat("/u").Version; v != 2 {
		s.Errorf("version %d", v)
	}
}

func multiSetBehindDelete(s *stage) {
	k := s.open(s.at, usual)
	k.create("/u", jute.Persistent)
	k.multi("-1/0, -1/-101", opDelete("/u"), opSet("/u", -1))
	s.present("/u")
}

func multiDeleteCreate(s *stage) {
	k := s.open(s.at, usual)
	k.create("/u", jute.Persistent)
	k.set("/u", "y")
	r := k.multi("2, 1 /u", opDelete("/u"), opCreate("/u", 0))
	if st := k.stat("/u"); st.Version != 0 || st.Czxid != r.Zxid {
		s.Errorf("%+v", st)
	}
}

func multiNested(s *stage) {
	k := s.open(s.at, usual)
	k.multi("1 /t, 1 /t/a, 1 /t/a/b, 2, 2, 2", opCreate("/t", 0), opCreate("/t/a", 0), opCreate("/t/a/b", 0),
		opDelete("/t/a/b"), opDelete("/t/a"), opDelete("/t"))
	s.absent("/t")
}

func multiParentFirst(s *stage) {
	k := s.open(s.at, usual)
	k.create("/t", jute.Persistent)
	k.create("/t/a", jute.Persistent)
	k.multi("-1/-111, -1/-2", opDelete("/t"), opDelete("/t/a"))
	s.present("/t/a")
}

func multiEmpty(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	if r := k.multi(""); r.Zxid != z+1 {
		s.Errorf("zxid %#x after %#x", r.Zxid, z)
	}
}

// rawMulti is a multi of one arbitrary operation with a body.
type rawMulti struct {
	op   jute.Op
	body wire.Record
}

func (m rawMulti) Append(b []byte) []byte {
	b = jute.MultiHeader{Type: m.op, Err: -1}.Append(b)
	return jute.AppendMultiEnd(m.body.Append(b))
}

func multiForeign(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	for _, m := range []rawMulti{
		{jute.OpSetACL, jute.SetACLRequest{Path: []byte("/a"), ACL: jute.OpenACL, Version: -1}},
		{jute.OpGetData, get("/a")},
		{99, get("/a")},
	} {
		if r := k.want(jute.MarshallingError, jute.OpMulti, m); len(r.Body) != 0 {
			s.Errorf("%v: a body of %d bytes", m.op, len(r.Body))
		}
	}
	k.mustLive()
}

func multiUnknownFlag(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/before", jute.Persistent).Zxid
	r := k.want(jute.MarshallingError, jute.OpMulti, multi{opCreate("/a", 0), opCreate("/b", 9)})
	if len(r.Body) != 0 || r.Zxid != z+1 {
		s.Errorf("%v, want zxid %#x and no body", r, z+1)
	}
	s.absent("/a")
	k.mustLive()
}

func multiCreates(s *stage) {
	k := s.open(s.at, usual)
	nobody := jute.SessionID(0)
	k.multi(fmt.Sprintf("15 /e owner %v, 15 /c owner %v, 15 /d owner %v, 15 /f owner %v, 15 /t owner %v, 1 /u", k.id(), nobody, nobody, nobody, nobody),
		jute.MultiOp{Op: jute.OpCreate2, Create: create("/e", jute.Ephemeral)},
		jute.MultiOp{Op: jute.OpCreateContainer, Create: create("/c", jute.Container)},
		jute.MultiOp{Op: jute.OpCreateContainer, Create: create("/d", jute.Persistent)},
		opCreate("/f", jute.Container),
		jute.MultiOp{Op: jute.OpCreateTTL, Create: create("/t", jute.PersistentWithTTL), TTL: 100_000},
		jute.MultiOp{Op: jute.OpCreateTTL, Create: create("/u", jute.Persistent), TTL: 100_000})
	k.want(jute.MarshallingError, jute.OpMulti, multi{opCreate("/x", 0), opCreate("/y", jute.PersistentWithTTL)})
	k.multi("-1/0, -1/-8", opCreate("/x", 0), jute.MultiOp{Op: jute.OpCreateTTL, Create: create("/y", jute.PersistentWithTTL)})
	s.absent("/x")
}

func multiWatches(s *stage) {
	w, k := s.pair()
	s.must(w.watchChildren("/"), jute.OK)
	s.must(w.watchExists("/t"), jute.NoNode)
	k.multi("1 /t, 2", opCreate("/t", 0), opDelete("/t"))
	w.saw("Created(/t)", "Children(/)")
}

func multiFailedNoEvent(s *stage) {
	w, k := s.pair()
	s.must(w.watchExists("/t"), jute.NoNode)
	k.multi("-1/0, -1/-101", opCreate("/t", 0), opDelete("/none"))
	w.saw()
}

func multiTwoSets(s *stage) {
	w, k := s.pair()
	s.with(k, "/a")
	s.must(w.watchData("/a"), jute.OK)
	k.multi("5 v1, 5 v2", opSet("/a", -1), opSet("/a", -1))
	w.saw("Changed(/a)")
}

func multiNoAuth(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/r"), ACL: []jute.ACL{
		{Perms: jute.PermAll &^ jute.PermCreate, ID: jute.OpenACL[0].ID},
	}})
	k.multi("-1/0, -1/-102, -1/-2", opCreate("/ok", 0), opCreate("/r/x", 0), opCreate("/ok2", 0))
	s.absent("/ok")
}

func multiEphemerals(s *stage) {
	k := s.open(s.at, usual)
	k.multi("1 /e1, 1 /e2", opCreate("/e1", jute.Ephemeral), opCreate("/e2", jute.Ephemeral))
	s.present("/e1")
	k.closeSession()
	s.absent("/e1")
	s.absent("/e2")
}

func multiReads(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	k.create("/a/b", jute.Persistent)
	children := jute.MultiOp{Op: jute.OpGetChildren, GetChildren: jute.GetChildrenRequest{Path: []byte("/a")}}
	k.multi("4 x, 8 [b], -1/-101", opGet("/a"), children, opGet("/nope"))
}

func multiReadNoAuth(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/priv"), ACL: writeOnly})
	k.multi("-1/-102, 4 x", opGet("/priv"), opGet("/a"))
}

func multiReadNoWatch(s *stage) {
	k := s.open(s.at, usual)
	k.create("/a", jute.Persistent)
	op := opGet("/a")
	op.GetData.Watch = true
	k.multi("4 x", op)
	k.set("/a", "y")
	k.saw()
}
