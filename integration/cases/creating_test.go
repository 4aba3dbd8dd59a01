package cases

import (
	"bytes"
	"testing/synctest"

	"rollcall/integration/wire"
	"rollcall/zk/jute"
)

// creating is group G: creates, and which paths they accept.
var creating = []row{
	{number: 112, name: "create", where: everywhere, run: createOne},
	{number: 113, name: "exists already", where: everywhere, run: createTwice},
	{number: 114, name: "no parent", where: everywhere, run: refusedPath(jute.NoNode, "/no/child")},
	{number: 115, name: "the root", where: everywhere, run: refusedPath(jute.NodeExists, "/")},
	{number: 116, name: "empty and relative", where: everywhere, run: refusedPath(jute.BadArguments, "", "a")},
	{number: 117, name: "null path", where: everywhere, run: createNull},
	{number: 118, name: "slash at the end", where: everywhere, run: refusedPath(jute.BadArguments, "/x/")},
	{number: 119, name: "slash at the end, sequential", where: everywhere, run: createOnlyNumber},
	{number: 120, name: "slash at the end, no parent", where: everywhere, run: refusedPath(jute.NoNode, "/nox/")},
	{number: 121, name: "two slashes", where: everywhere, run: refusedPath(jute.BadArguments, "//")},
	{number: 122, name: "odd parents", where: everywhere, run: refusedPath(jute.NoNode, "/x//y", "/x/../y", "/x/./y")},
	{number: 123, name: "dots", where: everywhere, run: refusedPath(jute.BadArguments, "/.", "/..")},
	{number: 124, name: "odd and valid", where: everywhere, run: takenPath("/...", "/.a", "/a.", "/a..b", "/x y", "/q\u00e9")},
	{number: 125, name: "NUL", where: everywhere, run: refusedPath(jute.BadArguments, "/a\x00b", "/\x00")},
	{number: 126, name: "forbidden characters", where: everywhere, run: refusedPath(jute.BadArguments,
		"/a\x01", "/a\x1f", "/a\x7f", "/a\u009f", "/a\xed\xa0\x80", "/a\ue000", "/a\uf8ff", "/a\ufff0", "/a\nb", "/a\U0001f600")},
	{number: 127, name: "allowed characters", where: everywhere, run: takenPath("/a\u00a0", "/a\uf900", "/\u6f22\u5b57")},
	{number: 128, name: "null data", where: everywhere, run: createNullData},
	{number: 129, name: "empty data", where: everywhere, run: createEmptyData},
	{number: 130, name: "no ACL", where: everywhere, run: createWithoutACL},
	{number: 131, name: "no ACL and no parent", where: everywhere, run: createWithoutACLAndParent},
	{number: 132, name: "unknown flags", where: everywhere, run: createUnknownFlags},
	{number: 133, name: "create2", where: everywhere, run: createWithStat},
	{number: 134, name: "delete what stays", where: everywhere, run: deleteBuiltin},
	{number: 135, name: "setData of odd paths", where: everywhere, run: setOddPaths},
	{number: 136, name: "reads of odd paths", where: everywhere, run: readOddPaths},
	{number: 137, name: "a million bytes", where: everywhere, run: createMillion},
	{number: 138, name: "two million bytes", where: everywhere, run: createTooLarge},
	{number: 139, name: "cut short", where: everywhere, run: createCutShort},
}

// path returns the path of a node that was created.
func (k *session) path(r wire.Reply) string {
	k.s.Helper()
	var resp jute.CreateResponse
	k.into(r, &resp)
	return string(resp.Path)
}

// refusedPath tries creates that must fail with code and create nothing; /x exists.
func refusedPath(code jute.Code, paths ...string) func(*stage) {
	return func(s *stage) {
		k := s.open(s.at, usual)
		k.create("/x", jute.Persistent)
		before := k.stat("/")
		for _, path := range paths {
			k.want(code, jute.OpCreate, create(path, jute.Persistent))
		}
		if after := k.stat("/"); after != before {
			s.Errorf("the root was %+v and is %+v", before, after)
		}
	}
}

// takenPath tries creates that must succeed, and reads the created nodes.
func takenPath(paths ...string) func(*stage) {
	return func(s *stage) {
		k := s.open(s.at, usual)
		for _, path := range paths {
			if got := k.path(k.create(path, jute.Persistent)); got != path {
				s.Errorf("created %q, want %q", got, path)
			}
			if got := k.data(path); string(got) != "x" {
				s.Errorf("%q has data %q", path, got)
			}
		}
	}
}

func createOne(s *stage) {
	k := s.open(s.at, usual)
	z := k.ok(jute.OpPing, nil).Zxid
	r := k.create("/a", jute.Persistent)
	if path := k.path(r); path != "/a" || r.Zxid != z+1 {
		s.Errorf("%q at %#x, want /a at %#x", path, r.Zxid, z+1)
	}
}

func createTwice(s *stage) {
	k := s.open(s.at, usual)
	z := k.create("/a", jute.Persistent).Zxid
	if r := k.want(jute.NodeExists, jute.OpCreate, create("/a", 0)); r.Zxid != z+1 || len(r.Body) != 0 {
		s.Errorf("%v, want zxid %#x and no body", r, z+1)
	}
}

func createNull(s *stage) {
	k := s.open(s.at, usual)
	k.want(jute.MarshallingError, jute.OpCreate, jute.CreateRequest{ACL: jute.OpenACL})
	k.mustLive()
}

func createOnlyNumber(s *stage) {
	k := s.open(s.at, usual)
	k.create("/x", jute.Persistent)
	if path := k.path(k.create("/x/", jute.PersistentSequential)); path != "/x/0000000000" {
		s.Errorf("created %q", path)
	}
}

func createNullData(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/n"), ACL: jute.OpenACL})
	r := k.ok(jute.OpGetData, get("/n"))
	if n := k.stat("/n").DataLength; !bytes.HasPrefix(r.Body, []byte{255, 255, 255, 255}) || n != 0 {
		s.Errorf("data % x, dataLength %d", r.Body, n)
	}
}

func createEmptyData(s *stage) {
	k := s.open(s.at, usual)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/n"), Data: []byte{}, ACL: jute.OpenACL})
	if r := k.ok(jute.OpGetData, get("/n")); !bytes.HasPrefix(r.Body, []byte{0, 0, 0, 0}) {
		s.Errorf("data % x", r.Body)
	}
}

func createWithoutACL(s *stage) {
	k := s.open(s.at, usual)
	k.want(jute.InvalidACL, jute.OpCreate, jute.CreateRequest{Path: []byte("/n")})
	k.want(jute.InvalidACL, jute.OpCreate, jute.CreateRequest{Path: []byte("/n"), ACL: []jute.ACL{}})
}

func createWithoutACLAndParent(s *stage) {
	s.open(s.at, usual).want(jute.InvalidACL, jute.OpCreate, jute.CreateRequest{Path: []byte("/no/child"), ACL: []jute.ACL{}})
}

func createUnknownFlags(s *stage) {
	k := s.open(s.at, usual)
	for _, op := range []jute.Op{jute.OpCreate, jute.OpCreate2} {
		for _, flags := range []jute.CreateMode{-1, 7, 8, 9, 100} {
			k.want(jute.BadArguments, op, create("/f", flags))
		}
	}
	s.absent("/f")
}

func createWithStat(s *stage) {
	k := s.open(s.at, usual)
	var resp jute.Create2Response
	k.into(k.ok(jute.OpCreate2, create("/a", jute.Persistent)), &resp)
	if st := k.stat("/a"); string(resp.Path) != "/a" || resp.Stat != st {
		s.Errorf("%s, %+v, want /a, %+v", resp.Path, resp.Stat, st)
	}
}

func deleteBuiltin(s *stage) {
	k := s.open(s.at, usual)
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", ""} {
		k.want(jute.BadArguments, jute.OpDelete, remove(path))
	}
	s.present("/zookeeper/config")
}

func setOddPaths(s *stage) {
	k := s.open(s.at, usual)
	k.create("/x", jute.Persistent)
	for _, path := range []string{"", "a", "/x/"} {
		k.want(jute.BadArguments, jute.OpSetData, set(path, "y"))
	}
}

func readOddPaths(s *stage) {
	k := s.open(s.at, usual)
	k.create("/x", jute.Persistent)
	for _, path := range []string{"a", "/x/", "//"} {
		k.want(jute.NoNode, jute.OpGetData, get(path))
		k.want(jute.NoNode, jute.OpExists, existsRequest(path))
		k.want(jute.NoNode, jute.OpGetChildren, jute.GetChildrenRequest{Path: []byte(path)})
		k.want(jute.NoNode, jute.OpGetACL, jute.GetACLRequest{Path: []byte(path)})
	}
}

func createMillion(s *stage) {
	k, other := s.pair()
	data := bytes.Repeat([]byte("abcdefghij"), 100_000)
	k.ok(jute.OpCreate, jute.CreateRequest{Path: []byte("/big"), Data: data, ACL: jute.OpenACL})
	s.quiesce()
	if got := other.data("/big"); !bytes.Equal(got, data) {
		s.Errorf("%d bytes, want %d others", len(got), len(data))
	}
}

func createTooLarge(s *stage) {
	k := s.open(s.at, usual)
	go k.send(jute.OpCreate, jute.CreateRequest{Path: []byte("/big"), Data: make([]byte, 2<<20), ACL: jute.OpenACL})
	k.mustEnd(tick)
	synctest.Wait()
	s.absent("/big")
}

func createCutShort(s *stage) {
	k := s.open(s.at, usual)
	whole := create("/a", jute.Persistent).Append(nil)
	k.want(jute.MarshallingError, jute.OpCreate, bytesOf(whole[:len(whole)-3]))
	whole = set("/", "y").Append(nil)
	k.want(jute.MarshallingError, jute.OpSetData, bytesOf(whole[:7]))
	k.create("/a", jute.Persistent)
}

// bytesOf is a record of arbitrary bytes.
type bytesOf []byte

func (r bytesOf) Append(b []byte) []byte { return append(b, r...) }
